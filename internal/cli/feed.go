package cli

import (
	"context"
	"sync"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/budget"
)

// item is an item on its way in or out. A queue's items have priority 0.
type item = conq.Prioritized[[]byte]

// itemOperations is how many operations an item takes: its key, and what finds its place.
const itemOperations = 4

// feed holds the items that were read and not yet taken: one batch, so that
// reading goes on while the batch before it is being stored, and no further.
//
// A taker never waits for a batch to fill: it gets what is there.
type feed struct {
	bounds  budget.Batch
	mu      sync.Mutex
	changed *sync.Cond
	items   []item
	bytes   int   // of all items
	first   int   // number of items[0], from 1
	end     error // why there are no more: io.EOF, or what was wrong with the next
	closed  bool  // nobody takes any longer
}

func newFeed(b budget.Batch) *feed {
	f := &feed{bounds: b, first: 1}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// fill adds items until next fails or the feed is closed.
func (f *feed) fill(next func() (item, error)) {
	for {
		it, err := next()
		if !f.add(it, err) {
			return
		}
	}
}

func (f *feed) add(it item, err error) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changed.Broadcast()
	if err != nil {
		f.end = err
		return false
	}
	for !f.closed && (len(f.items) >= f.bounds.Items || f.bytes >= f.bounds.Bytes) {
		f.changed.Wait()
	}
	f.items = append(f.items, it)
	f.bytes += len(it.Value)
	return !f.closed
}

// take waits for items and returns all that are there, and the number of the
// first. Behind the last ones it returns the error that ended the feed.
func (f *feed) take(ctx context.Context) (items []item, first int, err error) {
	defer context.AfterFunc(ctx, f.close)()
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.items) == 0 && f.end == nil && !f.closed {
		f.changed.Wait()
	}
	if ctx.Err() != nil {
		return nil, f.first, context.Cause(ctx)
	}
	items, first = f.items, f.first
	if len(items) == 0 {
		return nil, first, f.end
	}
	f.items, f.bytes, f.first = nil, 0, first+len(items)
	f.changed.Broadcast()
	return items, first, nil
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed.Broadcast()
}
