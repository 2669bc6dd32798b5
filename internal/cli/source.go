package cli

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/spf13/cobra"
)

// queue is a queue of either kind, as commands use it.
type queue interface {
	source
	target
	// putIn puts items in, as a part of a transaction.
	putIn(tx kv.Tx, batch []item) error
	// all returns the items as they come first, with the lowest priorities before others.
	all(ctx context.Context) iter.Seq2[item, error]
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
}

func (a *app) openKind(db kv.DB, kind conq.Kind, name string, from ends) (queue, error) {
	switch kind {
	case conq.KindQueue:
		return a.openQueue(db, name)
	case conq.KindPriorityQueue:
		return a.openPriority(db, name, from)
	}
	return nil, fmt.Errorf("%w: %q is a %q, which this version does not know", conq.ErrFormat, name, kind)
}

// fifo is a FIFO queue.
type fifo struct {
	*conq.Queue[[]byte]
	space subspace.Subspace
}

func (a *app) openQueue(db kv.DB, name string) (*fifo, error) {
	q, err := conq.OpenQueue(db, name, a.itemCodec())
	if err != nil {
		return nil, err
	}
	return &fifo{q, subspace.Named(name)}, nil
}

func (f *fifo) keys(r kv.Reader, n int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(f.space.Range(), kv.RangeOptions{Limit: n})
}

func (f *fifo) take(tx kv.Tx, n int) ([]item, error) {
	values, err := f.In(tx).DequeueN(n)
	return itemsFrom(values, plainItem), err
}

func plainItem(v []byte) item                         { return item{value: v} }
func prioritizedItem(v conq.Prioritized[[]byte]) item { return item{v.Value, v.Priority} }

func itemsFrom[V any](values []V, of func(V) item) []item {
	batch := make([]item, len(values))
	for i, v := range values {
		batch[i] = of(v)
	}
	return batch
}

// eachItem returns the items of values.
func eachItem[V any](values iter.Seq2[V, error], of func(V) item) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for v, err := range values {
			if !yield(of(v), err) {
				return
			}
		}
	}
}

func plainValues(batch []item) [][]byte {
	values := make([][]byte, len(batch))
	for i, it := range batch {
		values[i] = it.value
	}
	return values
}

func (f *fifo) put(ctx context.Context, batch []item) error {
	return f.EnqueueAll(ctx, plainValues(batch))
}

func (f *fifo) putIn(tx kv.Tx, batch []item) error { return f.In(tx).EnqueueAll(plainValues(batch)) }

func (f *fifo) all(ctx context.Context) iter.Seq2[item, error] {
	return eachItem(f.All(ctx), plainItem)
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

// priority is a priority queue.
type priority struct {
	*conq.PriorityQueue[[]byte]
	space subspace.Subspace
	ends  ends
}

func (a *app) openPriority(db kv.DB, name string, from ends) (*priority, error) {
	q, err := conq.OpenPriorityQueue(db, name, a.itemCodec(), conq.Options{FIFOTies: from.ties == "first"})
	if err != nil {
		return nil, err
	}
	return &priority{q, subspace.Named(name), from}, nil
}

func (p *priority) keys(r kv.Reader, n int) iter.Seq2[kv.KeyValue, error] {
	if p.ends.max && p.ends.ties == "first" {
		return p.keysByGroup(r, n)
	}
	return r.Range(p.space.Range(), kv.RangeOptions{Limit: n, Reverse: p.ends.max})
}

// keysByGroup goes through the priorities from the highest down, and through the
// items of each forwards.
func (p *priority) keysByGroup(r kv.Reader, n int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for rest, ok := p.space.Range(), true; ok && n > 0; {
			var group kv.Range
			if group, ok = p.lastGroup(r, rest, yield); !ok {
				return
			}
			for pair, err := range r.Range(group, kv.RangeOptions{Limit: n}) {
				if n--; !yield(pair, err) || err != nil {
					return
				}
			}
			rest.End = group.Begin
		}
	}
}

// lastGroup returns the range of the items with the highest priority of rest.
func (p *priority) lastGroup(r kv.Reader, rest kv.Range, yield func(kv.KeyValue, error) bool) (kv.Range, bool) {
	for last, err := range r.Range(rest, kv.RangeOptions{Limit: 1, Reverse: true}) {
		var group subspace.Subspace
		if err == nil {
			group, err = p.groupOf(last.Key)
		}
		if err != nil {
			yield(kv.KeyValue{}, err)
			return kv.Range{}, false
		}
		return group.Range(), true
	}
	return kv.Range{}, false
}

func (p *priority) groupOf(key []byte) (subspace.Subspace, error) {
	elems, err := p.space.Unpack(key)
	if err != nil {
		return subspace.Subspace{}, err
	}
	return p.space.Sub(elems[:min(1, len(elems))]...)
}

func (p *priority) take(tx kv.Tx, n int) ([]item, error) {
	take := p.In(tx).PopMinN
	if p.ends.max {
		take = p.In(tx).PopMaxN
	}
	values, err := take(n)
	return itemsFrom(values, prioritizedItem), err
}

func prioritized(batch []item) []conq.Prioritized[[]byte] {
	values := make([]conq.Prioritized[[]byte], len(batch))
	for i, it := range batch {
		values[i] = conq.Prioritized[[]byte]{Value: it.value, Priority: it.priority}
	}
	return values
}

func (p *priority) put(ctx context.Context, batch []item) error {
	return p.PushAll(ctx, prioritized(batch))
}

func (p *priority) putIn(tx kv.Tx, batch []item) error { return p.In(tx).PushAll(prioritized(batch)) }

func (p *priority) all(ctx context.Context) iter.Seq2[item, error] {
	return eachItem(p.All(ctx), prioritizedItem)
}
