package queues

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

// queueVerbs and priorityVerbs are what a handle and its In have in common.
type queueVerbs interface {
	Enqueue(string) error
	EnqueueAll([]string) error
	Dequeue() (string, error)
	DequeueN(int) ([]string, error)
	Peek() (string, error)
	Len() (int, error)
	Clear() error
	All() iter.Seq2[string, error]
}

type priorityVerbs interface {
	Push(string, int64) error
	PushAll([]conq.Prioritized[string]) error
	PopMin() (string, error)
	PopMax() (string, error)
	Pop(conq.End) (string, error)
	PopN(conq.End, int) ([]conq.Prioritized[string], error)
	Peek(conq.End) (string, error)
	Len() (int, error)
	Clear() error
	All() iter.Seq2[conq.Prioritized[string], error]
}

type queueHandle struct {
	*conq.Queue[string]
	ctx context.Context
}

func (h queueHandle) Enqueue(v string) error           { return h.Queue.Enqueue(h.ctx, v) }
func (h queueHandle) EnqueueAll(v []string) error      { return h.Queue.EnqueueAll(h.ctx, v) }
func (h queueHandle) Dequeue() (string, error)         { return h.Queue.Dequeue(h.ctx) }
func (h queueHandle) DequeueN(n int) ([]string, error) { return h.Queue.DequeueN(h.ctx, n) }
func (h queueHandle) Peek() (string, error)            { return h.Queue.Peek(h.ctx) }
func (h queueHandle) Len() (int, error)                { return h.Queue.Len(h.ctx) }
func (h queueHandle) Clear() error                     { return h.Queue.Clear(h.ctx) }
func (h queueHandle) All() iter.Seq2[string, error]    { return h.Queue.All(h.ctx) }

type priorityHandle struct {
	*conq.PriorityQueue[string]
	ctx context.Context
}

type pairs = []conq.Prioritized[string]

func (h priorityHandle) Push(v string, n int64) error   { return h.PriorityQueue.Push(h.ctx, v, n) }
func (h priorityHandle) PushAll(v pairs) error          { return h.PriorityQueue.PushAll(h.ctx, v) }
func (h priorityHandle) PopMin() (string, error)        { return h.PriorityQueue.PopMin(h.ctx) }
func (h priorityHandle) PopMax() (string, error)        { return h.PriorityQueue.PopMax(h.ctx) }
func (h priorityHandle) Pop(e conq.End) (string, error) { return h.PriorityQueue.Pop(h.ctx, e) }
func (h priorityHandle) PopN(e conq.End, n int) (pairs, error) {
	return h.PriorityQueue.PopN(h.ctx, e, n)
}
func (h priorityHandle) Peek(e conq.End) (string, error) { return h.PriorityQueue.Peek(h.ctx, e) }
func (h priorityHandle) Len() (int, error)               { return h.PriorityQueue.Len(h.ctx) }
func (h priorityHandle) Clear() error                    { return h.PriorityQueue.Clear(h.ctx) }
func (h priorityHandle) All() iter.Seq2[conq.Prioritized[string], error] {
	return h.PriorityQueue.All(h.ctx)
}

// verbs are those of both queues, the priority queue with either order of ties.
type verbs struct {
	q queueVerbs
	p map[bool]priorityVerbs // by FIFOTies
}

func (f fixture) verbs() verbs {
	return verbs{queueHandle{f.q, f.ctx}, map[bool]priorityVerbs{
		false: priorityHandle{f.p, f.ctx}, true: priorityHandle{f.pf, f.ctx},
	}}
}

func (f fixture) in(tx kv.Tx) verbs {
	return verbs{f.q.In(tx), map[bool]priorityVerbs{false: f.p.In(tx), true: f.pf.In(tx)}}
}

// op is one operation, drawn before it is run, as it may run several times.
type op struct {
	verb   string
	fifo   bool // which handle of the priority queue
	values pairs
	n      int
}

func (o op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s fifo=%v n=%d", o.verb, o.fifo, o.n)
	for _, v := range o.values {
		fmt.Fprintf(&b, " %s@%d", short(v.Value), v.Priority)
	}
	return b.String()
}

// short is a value without its padding.
func short(v string) string {
	return strings.TrimRight(v, ".") + fmt.Sprintf("+%d", strings.Count(v, "."))
}

func (o op) strings() []string {
	var values []string
	for _, v := range o.values {
		values = append(values, v.Value)
	}
	return values
}

// run runs o and returns what came out as a text. The error is of the store.
func (o op) run(v verbs) (string, error) {
	q, p := v.q, v.p[o.fifo]
	switch o.verb {
	case "Enqueue":
		return "", q.Enqueue(o.values[0].Value)
	case "EnqueueAll":
		return "", q.EnqueueAll(o.strings())
	case "Dequeue":
		return text(q.Dequeue())
	case "DequeueN":
		return text(q.DequeueN(o.n))
	case "Peek":
		return text(q.Peek())
	case "Len":
		return text(q.Len())
	case "Clear":
		return "", q.Clear()
	case "All":
		return text(collect(q.All(), o.n))
	case "Push":
		return "", p.Push(o.values[0].Value, o.values[0].Priority)
	case "PushAll":
		return "", p.PushAll(o.values)
	case "PopMin":
		return text(p.PopMin())
	case "PopMax":
		return text(p.PopMax())
	case "PopN Min":
		return text(p.PopN(conq.Min, o.n))
	case "PopN Max":
		return text(p.PopN(conq.Max, o.n))
	case "Peek Min":
		return text(p.Peek(conq.Min))
	case "Peek Max":
		return text(p.Peek(conq.Max))
	case "PLen":
		return text(p.Len())
	case "PClear":
		return "", p.Clear()
	case "PAll":
		return text(collect(p.All(), o.n))
	}
	panic(o.verb)
}

// text returns a result as a text, ErrEmpty too.
func text[V any](v V, err error) (string, error) {
	if errors.Is(err, conq.ErrEmpty) {
		return "empty", nil
	}
	return fmt.Sprint(v), err
}

// collect leaves the loop after n values.
func collect[V any](seq iter.Seq2[V, error], n int) (values []V, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		if values = append(values, v); len(values) == n {
			break
		}
	}
	return values, nil
}
