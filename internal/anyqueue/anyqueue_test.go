package anyqueue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// Each verb does to either kind what its name says, from the end that is named.
func TestVerbs(t *testing.T) {
	for kind, want := range map[conq.Kind]string{
		conq.KindQueue:         "page [a0 b0] of more, [a0 b0 c0 d0]; take [a0] [b0] [c0]; left [d0 e0]",
		conq.KindPriorityQueue: "page [a1 c1] of more, [d3 b2 c1 a1]; take [a1] [d3] [c1]; left [b2 e9]",
	} {
		db := memory.New(memory.Options{})
		q, err := Open(t.Context(), db, kind, "q", conq.Bytes())
		testkit.NoError(t, err)
		batch := []Item{{Value: []byte("a"), Priority: 1}, {Value: []byte("b"), Priority: 2}, {Value: []byte("c"), Priority: 1}, {Value: []byte("d"), Priority: 3}}
		testkit.NoError(t, q.AddAll(t.Context(), batch))
		min, next, err := q.Page(t.Context(), Min, nil, 2)
		testkit.NoError(t, err)
		testkit.Equal(t, "there is more", next != nil, true)
		max, next, err := q.Page(t.Context(), Max, nil, 9)
		testkit.NoError(t, err)
		testkit.Equal(t, "there is more", next != nil, false)
		got := fmt.Sprintf("page %s of more, %s; take", text(min), text(max))
		for _, take := range []func() ([]Item, error){
			func() ([]Item, error) { return q.Take(t.Context(), Min, 1) },
			func() ([]Item, error) { return q.TakeWait(t.Context(), Max, 1) },
			func() (items []Item, err error) {
				err = db.Transact(t.Context(), func(tx kv.Tx) error {
					if items, err = q.TakeIn(tx, Min, 1); err != nil {
						return err
					}
					return q.AddAllIn(tx, []Item{{Value: []byte("e"), Priority: 9}})
				})
				return items, err
			},
		} {
			items, err := take()
			testkit.NoError(t, err)
			got += " " + text(items)
		}
		testkit.NoError(t, q.Reclaim(t.Context()))
		left, err := q.Take(t.Context(), Min, 9)
		testkit.NoError(t, err)
		testkit.Equal(t, string(kind), got+"; left "+text(left), want)
		_, err = q.Take(t.Context(), Max, 1)
		testkit.Equal(t, "empty", errors.Is(err, conq.ErrEmpty), true)
	}
}

func text(items []Item) string {
	var all []string
	for _, it := range items {
		all = append(all, fmt.Sprintf("%s%d", it.Value, it.Priority))
	}
	return fmt.Sprint(all)
}

// A kind that is of neither is refused, and so is the wrong one.
func TestOpenRefuses(t *testing.T) {
	db := memory.New(memory.Options{})
	_, err := Open(t.Context(), db, conq.KindWorkQueue, "w", conq.Bytes())
	testkit.Equal(t, "of a work queue", errors.Is(err, conq.ErrFormat), true)
	_, err = Open(t.Context(), db, conq.KindQueue, "q", conq.Bytes())
	testkit.NoError(t, err)
	_, err = Open(t.Context(), db, conq.KindPriorityQueue, "q", conq.Bytes())
	testkit.Equal(t, "of a queue", errors.Is(err, conq.ErrKind), true)
}
