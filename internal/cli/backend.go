package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// backend is where queues are: the store that the command has open (see local), or a server (see remote).
type backend interface {
	limits() kv.Limits

	// lookup tells what conq has made by a name, if there is something.
	lookup(ctx context.Context, name string) (info conq.Info, found bool, err error)
	// find is lookup for a queue that must be there. Items that another program put there count, too.
	find(ctx context.Context, name string) (conq.Info, error)
	queues(ctx context.Context) ([]conq.Info, error)
	// looks returns how all queues look, by name. Those of a server may be of a second ago, unless they are to be fresh.
	looks(ctx context.Context, fresh bool) ([]look, error)
	// remove deletes a queue.
	remove(ctx context.Context, name string) error
	// about returns facts about the store, its queues left out.
	about() storeFacts

	// open returns a queue or priority queue, which it makes if there is none.
	open(ctx context.Context, name string, kind conq.Kind) (itemQueue, error)
	// jobs opens a work queue, whose jobs are leased for a time; 0 is as they or the queue say.
	jobs(ctx context.Context, name string, codec conq.Codec[[]byte], lease time.Duration) (jobQueue, error)
	// move moves up to n items, some in each transaction. Where there are fewer it may fail with conq.ErrEmpty.
	move(ctx context.Context, from conq.Info, to string, n int) (moved int, err error)
}

// handle is a queue of any kind.
type handle interface {
	Len(context.Context) (int, error)
	Clear(context.Context) error
	io.Closer
}

// itemQueue is a queue of items, of a store or a server: a priority queue as it is, or a queue as fifo has it.
type itemQueue interface {
	handle
	Name() string
	PushAll(context.Context, []item) error
	PopN(ctx context.Context, from conq.End, n int) ([]item, error)
	PopWaitN(ctx context.Context, from conq.End, n int) ([]item, error)
	Page(ctx context.Context, from conq.End, after []byte, n int) (page []item, next []byte, err error)
}

// fifo is a queue as a priority queue of one priority, which has one end.
type fifo struct{ queue.FIFO[[]byte] }

func (f fifo) PushAll(ctx context.Context, all []item) error {
	values := make([][]byte, len(all))
	for i, it := range all {
		values[i] = it.Value
	}
	return f.EnqueueAll(ctx, values)
}

func (f fifo) PopN(ctx context.Context, _ conq.End, n int) ([]item, error) {
	return itemsOf(f.DequeueN(ctx, n))
}

func (f fifo) PopWaitN(ctx context.Context, _ conq.End, n int) ([]item, error) {
	return itemsOf(f.DequeueWaitN(ctx, n))
}

func (f fifo) Page(ctx context.Context, _ conq.End, after []byte, n int) ([]item, []byte, error) {
	values, next, err := f.FIFO.Page(ctx, after, n)
	page, err := itemsOf(values, err)
	return page, next, err
}

func itemsOf(values [][]byte, err error) ([]item, error) {
	all := make([]item, len(values))
	for i, v := range values {
		all[i].Value = v
	}
	return all, err
}

// openAny opens a queue of any kind.
func openAny(ctx context.Context, b backend, q conq.Info) (handle, error) {
	if q.Kind == conq.KindWorkQueue {
		return b.jobs(ctx, q.Name, conq.Bytes(), 0)
	}
	return b.open(ctx, q.Name, q.Kind)
}

// withBackend runs f with the server of the command, or with the store that open opens.
func (a *app) withBackend(ctx context.Context, open func() (kv.DB, error), f func(backend) error) error {
	if a.isServer() {
		return a.withServer(ctx, func(c *client.Client) error { return f(remote{a, c}) })
	}
	return withStore(open, func(db kv.DB) error { return f(local{a, db}) })
}

// existing returns an error if there is no queue of a name, or it is of another kind.
func existing(ctx context.Context, b backend, name string, kind conq.Kind) error {
	info, err := b.find(ctx, name)
	if err == nil && info.Kind != kind {
		err = kindError(info, kind)
	}
	return err
}

func kindError(info conq.Info, kind conq.Kind) error {
	return fmt.Errorf("%w: %.200q is a %s, not a %s", conq.ErrKind, info.Name, info.Kind, kind)
}

// withJobs runs f with a work queue that exists.
func (a *app) withJobs(ctx context.Context, name string, f func(jobQueue) error) error {
	return a.withJobsOf(ctx, name, conq.Bytes(), 0, f)
}

func (a *app) withJobsOf(ctx context.Context, name string, codec conq.Codec[[]byte], lease time.Duration, f func(jobQueue) error) error {
	return a.withBackend(ctx, a.openExisting, func(b backend) error {
		if err := existing(ctx, b, name, conq.KindWorkQueue); err != nil {
			return err
		}
		return using(ctx, b, name, codec, lease, f)
	})
}

// withNewJobs runs f with a work queue, which is made if there is none.
func (a *app) withNewJobs(ctx context.Context, name string, lease time.Duration, f func(jobQueue) error) error {
	return a.withBackend(ctx, a.open, func(b backend) error {
		if _, found, err := b.lookup(ctx, name); err == nil && !found {
			fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf("there was no queue %.200q: it is made", name), ""))
		}
		return using(ctx, b, name, a.itemCodec(), lease, f)
	})
}

// using opens a work queue, runs f with it, and closes it.
func using(ctx context.Context, b backend, name string, codec conq.Codec[[]byte], lease time.Duration, f func(jobQueue) error) error {
	q, err := b.jobs(ctx, name, codec, lease)
	if err != nil {
		return usage(err)
	}
	defer letGo(ctx, q)
	return f(q)
}
