package conq

import (
	"context"
	"fmt"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/queue"
)

// MoveOptions are the options of Move. The zero value is the default.
type MoveOptions = queue.MoveOptions

// Move moves up to n items from one queue to the end of another one of the same type and store, and returns how many, or
// ErrEmpty. It is one transaction, so each item is in exactly one of the two queues, whatever happens. Of a priority queue
// it moves the lowest priorities first, or with MoveOptions.From the highest, and items keep their priorities. The bytes of
// payloads stay as they are.
//
// They may be fewer than there are: at most 1,000, and as many as Queue.DequeueN takes at once. If the outcome of the commit is
// unknown, Move finds it out, as [Transact] does. It conflicts as a take within a transaction does (see QueueTx.DequeueN),
// and not with what is added to either queue.
// The error is a kv.ErrInvalid if both are one queue, or n is not positive, and an ErrKind if they are of different kinds. At
// most one MoveOptions may be given.
func Move[Q Transactor](ctx context.Context, from, to Q, n int, opts ...MoveOptions) (int, error) {
	o, err := options.Only(opts)
	if err != nil {
		return 0, fmt.Errorf("conq: move: %w", err)
	}
	return handle.Move(ctx, from.bytes(), to.bytes(), o.From, n)
}
