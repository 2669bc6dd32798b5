package staging

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// callers want an item each. When they are asked and staying says no, one of them has
// given up.
type callers struct {
	wants     []int // one element for each
	staying   func() bool
	givenUp   bool
	regrouped int
	done      func() // called by Regroup, if not nil
}

func (c *callers) Staying() bool {
	c.givenUp = c.givenUp || !c.staying()
	return !c.givenUp
}

func (c *callers) Regroup() int {
	if c.givenUp {
		c.wants = c.wants[1:]
	}
	c.givenUp = false
	c.regrouped++
	if c.done != nil {
		c.done()
	}
	return len(c.wants)
}

// TestGiveUpWaiting has callers give up, one after the other, whose request waits
// behind another one. It gets smaller, and keeps its place.
func TestGiveUpWaiting(t *testing.T) {
	for gone := range 4 {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			fill(t, db, 9)
			s := stage(db, Options{})
			requests := func() (all []request) {
				testkit.Check(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
					for pair, err := range r.Range(s.keys.all(requestKind), kv.RangeOptions{}) {
						testkit.Check(t, err)
						r, err := s.keys.parseRequest(pair)
						testkit.Check(t, err)
						all = append(all, r)
					}
					return nil
				}))
				return all
			}
			roleTaken(t, db)
			register(t, s, Front, 1)
			var left atomic.Int32 // of gone
			mine := &callers{wants: make([]int, 3), staying: func() bool { return left.Add(-1) < 0 }}
			mine.done = func() {
				if n := len(requests()); n != 2 {
					t.Errorf("%d requests are there when a caller is let go, want those of the others", n)
				}
			}
			var got []string
			var err error
			go func() {
				got, err = Take(context.Background(), stage(db, Options{}), Front, 3, mine, values)
			}()
			synctest.Wait()
			register(t, s, Front, 1) // behind it
			was := requests()[1]
			left.Store(int32(gone))
			pass(time.Second) // they look what there is to do
			synctest.Wait()
			if gone == 3 {
				if !errors.Is(err, ErrNobody) || len(requests()) != 2 {
					t.Errorf("when nobody is left: %q, %v, and %d requests", got, err, len(requests()))
				}
				return
			}
			if err != nil || !slices.Equal(got, []string{"1", "2", "3"}[:3-gone]) || mine.regrouped != gone {
				t.Errorf("after %d of 3 have gone the others got %q, %v; asked %d times who is left", gone, got, err, mine.regrouped)
			}
			if all := requests(); len(all) > 0 && bytes.Equal(all[0].key, was.key) {
				t.Error("the request is still there")
			}
		})
	}
}

// TestGiveUpServed has callers give up when they have been served: nobody is let go,
// and all items are theirs, in front of those that others get.
func TestGiveUpServed(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	fill(t, db, 5)
	roleTaken(t, db)
	other := stage(db, Options{Takeover: time.Nanosecond})
	var next []string
	c := &callers{wants: make([]int, 3)}
	asked := 0
	c.staying = func() bool {
		if asked++; asked == 1 {
			return true // at its registering
		}
		var err error
		if next == nil { // another client serves all
			next, err = Take(t.Context(), other, Front, 1, nil, values)
			testkit.Check(t, err)
		}
		return false
	}
	got, err := Take(t.Context(), stage(db, Options{Takeover: time.Nanosecond}), Front, 3, c, values)
	if err != nil || !slices.Equal(got, []string{"0", "1", "2"}) || !slices.Equal(next, []string{"3"}) || c.regrouped != 0 {
		t.Errorf("got %q, %v, after another one got %q; %d times callers were let go", got, err, next, c.regrouped)
	}
	nothingLeft(t, db)
}
