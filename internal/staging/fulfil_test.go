package staging

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// stepBack is the test's queue, and has the clock step back when its items are read.
type stepBack struct {
	source
	clock *testkit.Clock
}

func (s stepBack) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	s.clock.Pass(-time.Hour)
	return s.source.Items(r, side, limit)
}

// TestClockStepsBack has the deadline of a request be over when others are served, and then not
// any more: it is dropped all the same, as no item was fetched for it.
func TestClockStepsBack(t *testing.T) {
	for _, side := range []Side{Front, Back} {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 10)
		c := newClock()
		s := stage(db, Options{Now: c.Now})
		s.o.Source = stepBack{testQueue, c}
		live := request{key: s.keys.request(1, Front, []byte("live")), items: 1, deadline: s.deadline()}
		dead := request{key: s.keys.request(2, side, []byte("dead")), side: side, items: 1, deadline: c.Now().UnixNano() - 1}
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			f := newFulfilment(s, tx, s.o.Items)
			defer f.stop()
			if err := f.serve([]request{live, dead}); err != nil {
				return err
			}
			if len(f.results) != 1 || len(f.results[0].items) != 1 {
				return fmt.Errorf("side %d: served %v", side, f.results)
			}
			return nil
		}))
	}
}

// thrifty is the test's queue, and counts the items that are read.
type thrifty struct {
	source
	read *int
}

func (c thrifty) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	*c.read += limit // an engine fetches as many
	return c.source.Items(r, side, limit)
}

// TestReadNoMore checks that no more requests and items are asked for than a transaction of so many
// operations can serve, and that those are served.
func TestReadNoMore(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Operations: 128})
	fill(t, db, 200)
	s := stage(db, Options{})
	read := 0
	s.o.Source = thrifty{testQueue, &read}
	for half := range 2 {
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			for i := range 100 {
				op := fmt.Appendf(nil, "%d %03d", half, i)
				tx.Set(s.keys.request(int64(100*half+i), Front, op), state(1, s.deadline()))
			}
			return nil
		}))
	}
	testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		requests, err := s.requests(tx, s.o.Requests)
		if err != nil {
			return err
		}
		f := newFulfilment(s, tx, s.o.Items)
		defer f.stop()
		if err := f.serve(requests); err != nil {
			return err
		}
		if want := room(db.Limits()) / (perRequest + perItem); len(f.results) != want || read > 2*want || len(requests) > 2*want {
			return fmt.Errorf("%d requests served, want %d; %d requests and %d items read", len(f.results), want, len(requests), read)
		}
		return nil
	}))
}
