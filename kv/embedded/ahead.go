package embedded

import (
	"context"

	"github.com/conq-go/conq/kv"
)

// stretchAhead is what is to be near before a reader comes there.
type stretchAhead struct {
	from    []byte
	span    kv.Range
	reverse bool
}

// fetchAhead has the next pairs from a key on fetched in the background, while commits go
// on. With 16 producers and 16 consumers drains became 1.08 times as fast with Always, and
// 1.17 times with Interval; transfers 1.13 times with Always.
func (db *DB) fetchAhead(s stretchAhead) {
	select {
	case db.ahead <- s:
	default: // then its reader fetches it
	}
}

// keepAhead fetches what is asked for until ctx ends.
func (db *DB) keepAhead(ctx context.Context, wanted <-chan stretchAhead) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-wanted:
			db.fetch(ctx, s)
		}
	}
}

// fetch reads once in Pebble, which is how things come near, behind what is near already:
// of a priority queue the ends of all priorities are. Not to stop at those lets 64 callers
// drain 1,000 priorities 1.23 times as fast with Always, and 100 of them 1.05 times. Errors
// are left to the readers.
func (db *DB) fetch(ctx context.Context, s stretchAhead) {
	t := newTx(ctx, db)
	defer t.end()
	c, err := t.cursor(s.span, kv.RangeOptions{Reverse: s.reverse, KeysOnly: true})
	if err != nil {
		return
	}
	defer c.Close()
	_, ok, _ := c.Seek(s.from)
	for n := 1; ok && c.missed == 0 && n < db.near.most.pairs; {
		more := c.more()
		ok, n = more > 0, n+more
	}
}
