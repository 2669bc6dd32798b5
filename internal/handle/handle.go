package handle

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// Handle is what the handle of a queue does, in bytes and whatever its kind. It is safe for
// concurrent use. A nil Handle is one that was not opened: its methods return an error. What they
// promise, order and conflicts included, conq.Queue and conq.PriorityQueue say.
type Handle struct {
	queue
	in   adder
	ends []*taker // by queue.End
}

// Open opens the queue of a name, and makes it if there is none. decode makes the value
// of an item of its payload, within transactions: an item for which it fails stays in the
// queue. It may keep the payload. nil keeps payloads as they are.
func Open(ctx context.Context, db kv.DB, name string, kind types.Kind, decode func([]byte) (any, error), o Options) (*Handle, error) {
	if ctx == nil {
		return nil, fmt.Errorf("conq: queue %q: %w", name, reads.ErrContext)
	}
	h := new(Handle)
	if err := h.open(ctx, db, name, kind, &o); err != nil {
		return nil, err
	}
	h.decode = decode
	return h, h.openEnds(kind, o)
}

func (h *Handle) openEnds(kind types.Kind, o Options) error {
	var sides []staging.Side
	switch {
	case kind == types.KindQueue:
		sides = []staging.Side{staging.Front}
	case o.FIFOTies:
		sides = []staging.Side{staging.Front, staging.BackFIFO}
	default:
		sides = []staging.Side{staging.Front, staging.Back}
	}
	h.nextKeys, h.orders = recipeOf(kind, h.name, o.Random)
	h.openStage()
	for _, side := range sides {
		t := new(taker)
		if err := t.init(&h.queue, o, side); err != nil {
			return err
		}
		h.ends = append(h.ends, t)
	}
	h.in.init(&h.queue, o, h.ends)
	return nil
}

// Ready returns the error for a handle that was not opened, or is closed, or nil.
func (h *Handle) Ready() error {
	switch {
	case h == nil || h.db == nil:
		return errUnopened
	case h.closed.Load():
		return h.closedError()
	}
	return nil
}

// readyFor is Ready for a verb with a context.
func (h *Handle) readyFor(ctx context.Context) error {
	if err := h.Ready(); err != nil || ctx != nil {
		return err
	}
	return reads.ErrContext
}

// Name returns the name of the queue.
func (h *Handle) Name() string {
	if h == nil {
		return ""
	}
	return h.name
}

// endFor returns an end of the queue for a verb with a context.
func (h *Handle) endFor(ctx context.Context, e types.End) (*taker, error) {
	if err := h.readyFor(ctx); err != nil {
		return nil, err
	}
	return h.end(e)
}

// end returns an end of the queue.
func (h *Handle) end(e types.End) (*taker, error) {
	if e < 0 || int(e) >= len(h.ends) {
		return nil, fmt.Errorf("%w: queue %q: no items are taken at end %d", kv.ErrInvalid, h.name, e)
	}
	return h.ends[e], nil
}

// Add adds items in one transaction, perhaps with those of other calls: Payload and Priority, which
// must not change until it returns. A payload over half of the engine's Limits().Transaction is a
// *kv.TooLargeError, and nothing is added. No items do nothing.
func (h *Handle) Add(ctx context.Context, items ...Item) error {
	if err := h.readyFor(ctx); err != nil || len(items) == 0 {
		return err
	}
	if err := h.checkSizes(items); err != nil {
		return err
	}
	return h.in.serve(ctx, items)
}

// Take removes up to n items from an end and returns them in order, or ErrEmpty. They belong to the
// caller. They end before an item that does not decode; if that is the first, the error is an
// ErrDecode.
func (h *Handle) Take(ctx context.Context, e types.End, n int) ([]Item, error) {
	t, err := h.endFor(ctx, e)
	if err != nil {
		return nil, err
	}
	items, err := t.take(ctx, n)
	return items, h.explain(ctx, err)
}

// TakeWait is Take, but waits until there is at least one item, or ctx ends.
func (h *Handle) TakeWait(ctx context.Context, e types.End, n int) ([]Item, error) {
	t, err := h.endFor(ctx, e)
	if err != nil {
		return nil, err
	}
	items, err := t.wait(ctx, n)
	return items, h.explain(ctx, err)
}

// explain has the error for an item that does not decode say if it is one of another kind, as the queue was deleted, and made as
// that.
func (q *queue) explain(ctx context.Context, err error) error {
	if !errors.Is(err, types.ErrDecode) {
		return err
	}
	kind := reads.View(ctx, q.db, q.entry.Check)
	if errors.Is(kind, types.ErrKind) {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// Peek returns the item that Take would and leaves it, or there is an ErrEmpty.
func (h *Handle) Peek(ctx context.Context, e types.End) (Item, error) {
	t, err := h.endFor(ctx, e)
	if err != nil {
		return Item{}, err
	}
	item, err := t.peek(ctx)
	return item, h.explain(ctx, err)
}

// Len counts the items, by their keys alone: on one snapshot, or if that takes too long, on several, each from where the one before
// has ended.
func (h *Handle) Len(ctx context.Context) (int, error) {
	if err := h.readyFor(ctx); err != nil {
		return 0, err
	}
	n, err := reads.ScanCount(ctx, h.db, h.space.Items)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Clear removes all items, also those that are staged and not collected.
func (h *Handle) Clear(ctx context.Context) error {
	if err := h.readyFor(ctx); err != nil {
		return err
	}
	_, err := outcome.Do(ctx, h.lanes, func(tx kv.Tx) (struct{}, error) {
		return struct{}{}, h.In(tx).Clear()
	})
	return err
}

// Transact runs f in a transaction, finds out whether it was committed, and returns what the attempt returned that was.
func (h *Handle) Transact(ctx context.Context, f func(kv.Tx) (any, error)) (any, error) {
	if err := h.readyFor(ctx); err != nil {
		return nil, err
	}
	return outcome.Do(ctx, h.lanes, f)
}

// Reclaim puts staged items back that were not collected in time.
func (h *Handle) Reclaim(ctx context.Context) error {
	if err := h.readyFor(ctx); err != nil {
		return err
	}
	return h.stage.Expire(ctx)
}

// All returns the items in the order of their keys and leaves them, in read transactions of
// its own.
func (h *Handle) All(ctx context.Context) iter.Seq2[Item, error] {
	if err := h.readyFor(ctx); err != nil {
		return failing(err)
	}
	return h.sequence(func(f func(kv.Reader, kv.KeyValue) error) error {
		if err := h.Ready(); err != nil {
			return err
		}
		return reads.Scan(ctx, h.db, h.space.Items, f)
	})
}

// In returns what the handle does within a transaction.
func (h *Handle) In(tx kv.Tx) Tx { return Tx{h, tx} }
