package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

// QueueIn is an input with the name of a queue.
type QueueIn struct {
	Queue string `path:"q" doc:"Name of the queue: 1 to 1024 bytes of UTF-8 without NUL, escaped as in any URL."`
}

func (in QueueIn) queue() string           { return in.Queue }
func (in QueueIn) attributes() []slog.Attr { return []slog.Attr{slog.String("queue", in.Queue)} }

// queueBody is an input with the name of a queue and a body.
type queueBody[B any] struct {
	QueueIn
	Body B
}

type KeyIn struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"A request of the same key is carried out once, for a day at least: its retry gets the first answer. With NDJSON that holds for each batch."`
}

type addItemsIn struct {
	QueueIn
	KeyIn
	Exchange
	Priority int64 `header:"Conq-Priority" doc:"Of an item whose body is its bytes."`
}

func (a *api) addItems(ctx context.Context, in *addItemsIn) (reply, error) {
	return (&addition[wire.Item]{
		api: a, exchange: &in.Exchange, queue: in.Queue, key: in.Key, list: "items", each: 6,
		fromBytes: func(b []byte) (wire.Item, error) {
			i := wire.Item{Payload: wire.Base64(b)}
			if in.ctx.Header("Conq-Priority") != "" {
				i.Priority = &in.Priority
			}
			return i, nil
		},
		open: func(ctx context.Context, batch []wire.Item) (destined, func(), error) {
			return a.destine(ctx, in.Queue, batch)
		},
	}).run(ctx)
}

// destine returns items with their queue. One that is new is a priority queue if the first item has a priority.
func (a *api) destine(ctx context.Context, name string, batch []wire.Item) (destined, func(), error) {
	kind, err := a.Queues.Kind(ctx, name)
	if errors.Is(err, conq.ErrNoQueue) {
		kind, err = conq.KindQueue, nil
		if len(batch) > 0 && batch[0].Priority != nil {
			kind = conq.KindPriorityQueue
		}
	}
	if err != nil {
		return nil, nil, err
	}
	all := make([]queues.Item, len(batch))
	for i, v := range batch {
		all[i].Payload = v.Bytes()
		switch {
		case v.Priority == nil:
		case kind != conq.KindPriorityQueue:
			return nil, nil, huma.Error422UnprocessableEntity(fmt.Sprintf("item %d has a priority: items of a %s have none", i, kind))
		default:
			all[i].Priority = *v.Priority
		}
	}
	q, release, err := a.Queues.Items(ctx, name, kind, queues.Create)
	return items{q, all}, release, err
}

// items are those of a batch, for their queue.
type items struct {
	*queues.Items
	batch []queues.Item
}

func (i items) add(ctx context.Context) (wire.Added, error) {
	return wire.Added{Added: len(i.batch)}, i.Add(ctx, i.batch...)
}

func (i items) addIn(tx kv.Tx) (wire.Added, error) {
	return wire.Added{Added: len(i.batch)}, i.In(tx).Add(i.batch...)
}

// items returns a queue or a priority queue from which items are taken.
func (a *api) items(ctx context.Context, name string, end string) (q *queues.Items, kind conq.Kind, release func(), err error) {
	kind, err = a.Queues.Kind(ctx, name)
	if err == nil && kind != conq.KindPriorityQueue && end != "" {
		err = huma.Error422UnprocessableEntity(fmt.Sprintf("end is for priority queues: %q is a %s", name, kind))
	}
	if err == nil {
		q, release, err = a.Queues.Items(ctx, name, kind, queues.Existing)
	}
	return q, kind, release, err
}

type FormIn struct {
	Form form `query:"form" enum:"auto,base64" default:"auto" doc:"The form of payloads in JSON: the first of json, text and base64 that can hold one, or always base64."`
}

type EndIn struct {
	End string `query:"end" enum:"min,max" doc:"Of a priority queue: the lowest priority first, or the highest. Default: min."`
}

func (in EndIn) from() conq.End { return wire.EndOf(in.End) }

type takeIn struct {
	QueueIn
	Exchange
	FormIn
	EndIn
	N    int           `query:"n" minimum:"1" maximum:"10000" default:"1" doc:"Up to how many: there may be fewer than are in the queue, up to about 8 MiB."`
	Wait wire.Duration `query:"wait" doc:"How long to wait for an item if there is none, up to 1h. Default: not at all."`
}

// take takes items. Over a network that is at most once: if the answer gets lost, so do they.
func (a *api) take(ctx context.Context, in *takeIn) (reply, error) {
	format, err := in.format(&in.Exchange, in.N)
	if err != nil {
		return nil, err
	}
	taken, err := a.taken(ctx, in)
	if err != nil {
		return nil, err
	}
	return replyItems(format, in.Form, taken), nil
}

// format returns the content type of a reply to a request that has no body.
func (FormIn) format(e *Exchange, n int) (string, error) {
	if err := e.noBody(); err != nil {
		return "", err
	}
	format := e.accepts()
	if format == typeBytes && n > 1 {
		return "", huma.Error422UnprocessableEntity(fmt.Sprintf("n is %d: it has to be 1 where %s is accepted", n, typeBytes))
	}
	return format, nil
}

func (a *api) taken(ctx context.Context, in *takeIn) ([]queues.Item, error) {
	q, _, release, err := a.items(ctx, in.Queue, in.End)
	if err != nil {
		return nil, err
	}
	defer release()
	return takeWithin(ctx, a, in.Wait.Duration, lateItems,
		func(ctx context.Context) ([]queues.Item, error) { return q.Take(ctx, in.from(), in.N) },
		func(ctx context.Context) ([]queues.Item, error) { return q.TakeWait(ctx, in.from(), in.N) })
}

// maxWait is how long a request may wait.
const maxWait = time.Hour

// When the time of a request is over that waits, what is being taken for it at that moment is waited for: items, which would be lost, for
// nearly as long as clients wait for an answer, and jobs, which come back when their leases are over, for a moment.
const (
	lateItems = 25 * time.Second
	lateJobs  = 2 * time.Second
)

// takeWithin takes what there is, or waits for something. It returns nothing when that takes too long, or the server stops.
func takeWithin[T any](ctx context.Context, a *api, d, late time.Duration, now, wait func(context.Context) ([]T, error)) ([]T, error) {
	if d < 0 || d > maxWait {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("wait is %v: it can be 0s to %v", d, maxWait))
	}
	if d == 0 {
		got, err := now(ctx)
		if errors.Is(err, conq.ErrEmpty) {
			return nil, nil
		}
		return got, err
	}
	leave, err := a.enterWaiting()
	if err != nil {
		return nil, err
	}
	defer leave()
	waits, cancel := context.WithTimeoutCause(ctx, d, conq.ErrEmpty)
	defer cancel()
	defer context.AfterFunc(a.Stopping, cancel)()
	got, err := wait(batch.Softly(waits, ctx, late))
	if err != nil && waits.Err() != nil && ctx.Err() == nil && !errors.Is(err, kv.ErrCommitUnknown) {
		return nil, nil
	}
	return got, err
}

// enterWaiting counts a request that waits.
func (a *api) enterWaiting() (leave func(), err error) {
	if n := a.waiters.Add(1); n > a.MaxWaiters {
		a.waiters.Add(-1)
		return nil, huma.ErrorWithHeaders(
			huma.NewError(http.StatusTooManyRequests, fmt.Sprintf("%d requests wait, which is the limit: try again, or without wait", a.MaxWaiters)),
			http.Header{"Retry-After": {"1"}})
	}
	return func() { a.waiters.Add(-1) }, nil
}

// replyItems is a reply of items. Those of a queue have the priority 0, and do not show it.
func replyItems(format string, f form, all []queues.Item) reply {
	return replyEach(format, "items", all, f.item, func(i queues.Item) reply {
		return replyBytes(i.Payload, http.Header{"Conq-Priority": {strconv.FormatInt(i.Priority, 10)}})
	})
}

func (f form) item(v queues.Item) wire.Item {
	i := wire.Item{Payload: f.payload(v.Payload)}
	if v.Priority != 0 {
		i.Priority = &v.Priority
	}
	return i
}

type PageIn struct {
	Limit int        `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"How many a page has at most."`
	After wire.Place `query:"after" doc:"The next of the page before."`
}

type peekIn struct {
	QueueIn
	FormIn
	EndIn
	PageIn
}

func (a *api) peek(ctx context.Context, in *peekIn) (page wire.ItemPage, err error) {
	q, _, release, err := a.items(ctx, in.Queue, in.End)
	if err != nil {
		return page, err
	}
	defer release()
	items, next, err := q.Page(ctx, in.from(), in.After.Key, in.Limit)
	page.Items, page.Next = each(items, in.Form.item), wire.Place{Key: next}
	return page, err
}
