package embedded

import (
	"context"

	"github.com/conq-go/conq/kv"
)

// prefetch is what is to be in the cache before a reader comes there.
type prefetch struct {
	from    []byte
	span    kv.Range
	reverse bool
}

// prefetch has the next pairs from a key on fetched in the background, while commits go on.
func (db *DB) prefetch(p prefetch) {
	select {
	case db.prefetches <- p:
	default: // then its reader fetches it
	}
}

// prefetchUntil fetches what is asked for until ctx ends.
func (db *DB) prefetchUntil(ctx context.Context, wanted <-chan prefetch) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-wanted:
			db.fetch(ctx, p)
		}
	}
}

// fetch reads once in Pebble, which is how things come to the cache, behind what is there already: of a
// priority queue the ends of all priorities are. Errors are left to the readers.
func (db *DB) fetch(ctx context.Context, p prefetch) {
	t := newTx(ctx, db)
	defer t.end()
	c, err := t.cursor(p.span, kv.RangeOptions{Reverse: p.reverse, KeysOnly: true})
	if err != nil {
		return
	}
	defer c.Close()
	_, ok, _ := c.Seek(p.from)
	for n := 1; ok && c.missed == 0 && n < db.cache.Limits().Pairs; {
		more := c.more()
		ok, n = more > 0, n+more
	}
}
