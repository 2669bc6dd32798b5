package staging

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// stepBack is the test's queue, and has the clock step back when its items are read.
type stepBack struct {
	source
	clock *clock
}

func (s stepBack) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	s.clock.advance(-time.Hour)
	return s.source.Items(r, side, limit)
}

// TestClockStepsBack has the deadline of a request be over when others are served, and then not
// any more: it is dropped all the same, as no item was fetched for it.
func TestClockStepsBack(t *testing.T) {
	for _, side := range []Side{Front, Back} {
		db := newMemory(t, kv.Limits{})
		fill(t, db, 10)
		c := newClock()
		s := stage(db, Options{Now: c.now})
		s.o.Source = stepBack{testQueue, c}
		live := request{key: s.keys.request(1, Front, []byte("live")), items: 1, deadline: s.deadline()}
		dead := request{key: s.keys.request(2, side, []byte("dead")), side: side, items: 1, deadline: c.ns.Load() - 1}
		check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			f := newFulfilment(s, tx)
			defer f.stop()
			if err := f.serve([]request{live, dead}); err != nil {
				return err
			}
			if len(f.served) != 1 || len(f.served[0].items) != 1 {
				return fmt.Errorf("side %d: served %v", side, f.served)
			}
			return nil
		}))
	}
}
