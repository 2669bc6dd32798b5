package conq

import (
	"context"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/kv"
)

// Transactor is a Queue or a PriorityQueue.
type Transactor interface{ bytes() *handle.Handle }

func (q *Queue[T]) bytes() *handle.Handle         { return q.h }
func (q *PriorityQueue[T]) bytes() *handle.Handle { return q.h }

// Transact runs f in a transaction, as Transact of q's store does, but goes on until it knows what became of a commit whose outcome
// is unknown, as kv.TransactOnce does, and returns what the attempt returned that committed. f uses In of q, and of other queues of
// the same store, to move items for example. It may run several times, and must return the errors of what it uses. Nothing but its
// result tells which attempt has committed.
func Transact[R any](ctx context.Context, q Transactor, f func(kv.Tx) (R, error)) (R, error) {
	result, err := q.bytes().Transact(ctx, func(tx kv.Tx) (any, error) { return f(tx) })
	if err != nil {
		var none R
		return none, err
	}
	return result.(R), nil
}
