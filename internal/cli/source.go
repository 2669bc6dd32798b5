package cli

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/spf13/cobra"
)

// stored is a queue or a priority queue of the store, of which items are taken from one end.
type stored struct {
	itemQueue
	reclaimer
	transactor conq.Transactor
	takeIn     func(tx kv.Tx, n int) ([]item, error)
	order      recipe.Order // of that end
	from       ends
}

func openQueue(db kv.DB, kind conq.Kind, name string, codec conq.Codec[[]byte], from ends) (*stored, error) {
	ctx, order := context.Background(), from.order(kind, subspace.Named(name))
	switch kind {
	case conq.KindQueue:
		q, err := conq.OpenQueue(ctx, db, name, codec)
		takeIn := func(tx kv.Tx, n int) ([]item, error) { return itemsOf(q.In(tx).DequeueN(n)) }
		return &stored{fifo{q}, q, q, takeIn, order, from}, err
	case conq.KindPriorityQueue:
		q, err := conq.OpenPriorityQueue(ctx, db, name, codec, conq.Options{FIFOTies: from.firstOfTies()})
		takeIn := func(tx kv.Tx, n int) ([]item, error) { return q.In(tx).PopN(from.end(), n) }
		return &stored{q, q, q, takeIn, order, from}, err
	}
	return nil, fmt.Errorf("%w: %q is a %q, which this version does not know", conq.ErrFormat, name, kind)
}

func (q *stored) take(tx kv.Tx, n int) ([]item, error) { return q.takeIn(tx, n) }

func (q *stored) remove(ctx context.Context, n int) ([]item, error) {
	return q.PopN(ctx, q.from.end(), n)
}

func (q *stored) transact(ctx context.Context, f func(kv.Tx) (int, error)) (int, error) {
	return conq.Transact(ctx, q.transactor, f)
}

// letGo closes the handle of a queue, if there is one, so that it leaves no keys of its own in a
// store where commits may be unknown. If that fails, later handles of the queue remove them in time,
// and what the command was to do is done.
func letGo(ctx context.Context, handle io.Closer) {
	if handle != nil && ctx.Err() == nil {
		_ = handle.Close()
	}
}

// ends are the flags that say from which end of a priority queue items come.
type ends struct {
	max  bool
	ties string
}

func (e *ends) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.max, "max", false, "the highest priority first, not the lowest")
	cmd.Flags().StringVar(&e.ties, "ties", "last",
		"with --max: which of equal priorities is first, the one that was pushed first or last")
}

func (e *ends) check(cmd *cobra.Command) error {
	switch {
	case e.ties != "first" && e.ties != "last":
		return usagef("--ties %.60q: there are first, last", e.ties)
	case cmd.Flags().Changed("ties") && !e.max:
		return usagef("--ties is for --max: the lowest priority always gives the one that was pushed first")
	}
	return nil
}

// end is that of the first item.
func (e *ends) end() conq.End {
	if e.max {
		return conq.Max
	}
	return conq.Min
}

// firstOfTies tells whether the highest priority is first, and of its items the one that was pushed first.
func (e *ends) firstOfTies() bool { return e.max && e.ties == "first" }

// order is that in which a queue's items are taken.
func (e *ends) order(kind conq.Kind, items subspace.Subspace) recipe.Order {
	ties := recipe.LastPushed
	if e.firstOfTies() {
		ties = recipe.FirstPushed
	}
	switch p := recipe.NewPriorityQueue(items, nil, ties); {
	case kind == conq.KindQueue:
		return recipe.NewQueue(items, nil).Order()
	case e.max:
		return p.MaxOrder()
	default:
		return p.MinOrder()
	}
}

func (q *stored) keys(r kv.Reader, n int) iter.Seq2[kv.KeyValue, error] { return q.order.Items(r, n) }
