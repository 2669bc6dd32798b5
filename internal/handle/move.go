package handle

import (
	"cmp"
	"context"
	"fmt"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// moveOperations is how many operations a moved item takes: its old key, its new one, and what finds the places.
const moveOperations = 4

// Move moves up to n items from an end of one queue to another one of its kind and store, in one transaction, and returns
// how many, or an ErrEmpty.
func Move(ctx context.Context, from, to *Handle, at types.End, n int) (int, error) {
	if err := from.Reclaim(ctx); err != nil { // what consumers have left that died, which a transaction does not
		return 0, err
	}
	moved, err := from.Transact(ctx, func(tx kv.Tx) (any, error) { return MoveIn(tx, from, to, at, n) })
	if err != nil {
		return 0, err
	}
	return moved.(int), nil
}

// MoveIn is Move within a transaction of the caller. Items that consumers have left that died are not among those that it finds.
func MoveIn(tx kv.Tx, from, to *Handle, at types.End, n int) (int, error) {
	source, target := from.In(tx), to.In(tx)
	if err := cmp.Or(source.Ready(), target.Ready()); err != nil {
		return 0, err
	}
	switch {
	case from.name == to.name:
		return 0, fmt.Errorf("%w: queue %q can't be moved to itself", kv.ErrInvalid, from.name)
	case from.space.Integers != to.space.Integers:
		return 0, fmt.Errorf("%w: items move between queues of one kind, and %q and %q are not", types.ErrKind, from.name, to.name)
	}
	items, err := source.Take(at, min(n, budget.BatchFor(from.limits, moveOperations).Items))
	if err != nil {
		return 0, err
	}
	return len(items), target.Add(items...)
}
