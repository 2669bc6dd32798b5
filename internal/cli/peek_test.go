package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// transactions counts them.
type transactions struct {
	kv.DB
	n int
}

func (t *transactions) Transact(ctx context.Context, f func(kv.Tx) error) error {
	t.n++
	return t.DB.Transact(ctx, f)
}

// peek --max prints what pop --max would, and changes nothing.
func TestPeekMaxInPages(t *testing.T) {
	for _, ties := range []string{"last", "first"} {
		var out bytes.Buffer
		a, db := &app{stdout: &out, codec: "bytes"}, &transactions{DB: memory.New(memory.Options{})}
		p, err := openQueue(db, conq.KindPriorityQueue, "p", conq.Bytes(), ends{true, ties})
		testkit.NoError(t, err)
		const all = 2400
		batch := []item{{Value: bytes.Repeat([]byte("split "), 50_000), Priority: 3}}
		for i := len(batch); i < all; i++ {
			batch = append(batch, item{Value: fmt.Append(nil, i), Priority: int64(i % 7)})
		}
		testkit.NoError(t, p.PushAll(t.Context(), batch))
		peek := func(n int) (string, int) {
			out.Reset()
			db.n = 0
			sink := a.sink(printFlags{priority: true})
			done, err := printItems(t.Context(), p, p.from, n, sink)
			testkit.NoError(t, err)
			testkit.NoError(t, sink.flush())
			testkit.Equal(t, "transactions that write", db.n, 0)
			return out.String(), done
		}
		most, n := peek(all - 1)
		testkit.Equal(t, "printed", n, all-1)
		peeked, n := peek(all + 1)
		testkit.Equal(t, "printed", n, all)
		out.Reset()
		d := delivery{db: db, source: p, sink: a.sink(printFlags{priority: true})}
		if n, err := d.run(t.Context(), all+1); err != nil || n != all {
			t.Fatal(n, err)
		}
		if popped := out.String(); peeked != popped || most == popped || !bytes.HasPrefix(out.Bytes(), []byte(most)) {
			t.Errorf("ties %s: peek and pop print different things", ties)
		}
	}
}

// What comes before an item that does not decode is printed.
func TestPeekUpToWhatDoesNotDecode(t *testing.T) {
	b := newBench(t, "1", "2", "three", "4")
	b.app.codec = "json"
	q, err := openQueue(b.db, conq.KindQueue, "q", b.app.itemCodec(), ends{})
	testkit.NoError(t, err)
	sink := b.app.sink(printFlags{})
	done, err := printItems(t.Context(), q, q.from, 9, sink)
	testkit.NoError(t, sink.flush())
	if !errors.Is(err, conq.ErrDecode) || done != 2 || b.out.String() != "1\n2\n" {
		t.Errorf("%d printed, %q, %v", done, b.out, err)
	}
}
