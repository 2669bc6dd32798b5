package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/conq-go/conq/internal/reads"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

const (
	waitFor    = 30 * time.Second // one request of a call that waits
	pageSize   = 100
	parallel   = 4       // requests of one kind that share calls, at once
	maxTaken   = 10_000  // items of one request
	maxPayload = 1 << 20 // bytes of calls that share a request
)

// items is a queue of either kind, whose items are values of V.
type items[V any] struct {
	handle
	decode func(wire.Item) (V, error)

	adds  batch.Batcher[[]wire.Item, struct{}]
	takes map[queue.End]*batch.Batcher[int, taken]
}

// taken is a call's part of an answer. It may be nothing although there are items: an answer has up to some MiB.
type taken struct {
	items []wire.Item
	more  bool // there may be
}

// openItems returns the queue of a name, and makes it if there is none.
func openItems[V any](ctx context.Context, c *Client, name, kind string, codec any, decode func(wire.Item) (V, error), ends ...queue.End) (*items[V], error) {
	h, err := c.open(ctx, name, kind, codec)
	if err != nil {
		return nil, err
	}
	q := &items[V]{handle: h, decode: decode, takes: make(map[queue.End]*batch.Batcher[int, taken])}
	shared(&q.handle, &q.adds, sizeOf, q.runAdds)
	for _, e := range ends {
		q.takes[e] = new(batch.Batcher[int, taken])
		shared(&q.handle, q.takes[e], nil, func(ctx context.Context, calls []*batch.Call[int, taken]) error {
			return q.runTakes(ctx, e, calls)
		})
	}
	return q, nil
}

func (q *items[V]) runAdds(ctx context.Context, calls []*batch.Call[[]wire.Item, struct{}]) error {
	var all wire.ItemList
	for _, c := range calls {
		all.Items = append(all.Items, c.Request...)
	}
	return q.do(ctx, call{method: http.MethodPost, path: queuePath(q.name) + "/items", body: all, once: true}, nil)
}

func (q *items[V]) add(ctx context.Context, all []wire.Item) error {
	if err := checkN(ctx, 1); err != nil || len(all) == 0 {
		return err
	}
	_, err := q.adds.Do(ctx, all)
	return err
}

func (q *items[V]) runTakes(ctx context.Context, from queue.End, calls []*batch.Call[int, taken]) error {
	total := 0
	for _, c := range calls {
		total += c.Request
	}
	got, err := q.request(ctx, from, total, 0)
	more := len(got) > 0
	for _, c := range calls {
		n := min(c.Request, len(got))
		c.Result, got = taken{got[:n:n], more}, got[n:]
	}
	return err
}

// take takes up to n items, or returns a queue.ErrEmpty.
func (q *items[V]) take(ctx context.Context, from queue.End, n int) ([]V, error) {
	if err := checkN(ctx, n); err != nil {
		return nil, err
	}
	takes := q.takes[from]
	if takes == nil {
		return nil, fmt.Errorf("%w: client: queue %q has no end %d", kv.ErrInvalid, q.name, from)
	}
	for {
		got, err := takes.Do(ctx, n)
		switch {
		case err == nil && len(got.items) == 0 && got.more:
			continue
		case err == nil && len(got.items) == 0:
			err = fmt.Errorf("%w: %q", queue.ErrEmpty, q.name)
		}
		return q.values(got.items, err)
	}
}

// values returns the values of items. Those that do not decode are in the error.
func (q *items[V]) values(got []wire.Item, err error) ([]V, error) {
	if err != nil {
		return nil, err
	}
	var failed []error
	all := make([]V, 0, len(got))
	for _, i := range got {
		if v, err := q.decode(i); err == nil {
			all = append(all, v)
		} else {
			failed = append(failed, err)
		}
	}
	return all, errors.Join(failed...)
}

func checkN(ctx context.Context, n int) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: client: ctx is nil", kv.ErrInvalid)
	case n < 1:
		return fmt.Errorf("client: %d are wanted: it can be from 1 on: %w", n, kv.ErrInvalid)
	}
	return nil
}

// takeWait takes up to n items, at least one.
func (q *items[V]) takeWait(ctx context.Context, from queue.End, n int) ([]V, error) {
	return q.values(untilSome(ctx, n, func(wait time.Duration) ([]wire.Item, error) { return q.request(ctx, from, n, wait) }))
}

// lookAgain is the longest pause of who waits at a queue that was deleted.
const lookAgain = time.Second

// untilSome asks until there is something. A server that stops says at once that there is nothing, and so does one that has no such queue.
func untilSome[V any](ctx context.Context, n int, ask func(wait time.Duration) ([]V, error)) ([]V, error) {
	if err := checkN(ctx, n); err != nil {
		return nil, err
	}
	for pause := firstPause; ; {
		began := time.Now()
		got, err := ask(waitWithin(ctx))
		if err != nil || len(got) > 0 {
			return got, err
		}
		if time.Since(began) < waitFor/2 {
			rest(ctx, pause)
			pause = min(2*pause, lookAgain)
		} else {
			pause = firstPause
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// waitWithin is how long the server is to wait: until ctx ends, if that is known, as it takes nothing after that. If the connection is
// broken off instead, what comes at the same moment is lost.
func waitWithin(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, min(waitFor, time.Until(end)))
	}
	return waitFor
}

func (q *items[V]) request(ctx context.Context, from queue.End, n int, wait time.Duration) ([]wire.Item, error) {
	query := url.Values{"n": {strconv.Itoa(min(n, maxTaken))}, "form": {"base64"}}
	q.setEnd(query, from)
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var answer wire.ItemList
	err := q.do(ctx, call{method: http.MethodPost, path: queuePath(q.name) + "/take", query: query, wait: wait, again: wait > 0, takes: true, loses: true}, &answer)
	return answer.Items, err
}

// setEnd says from which end of a priority queue, in a query. An end that there is not is the server's to refuse.
func (q *items[V]) setEnd(query url.Values, from queue.End) {
	if len(q.takes) > 1 {
		query.Set("end", from.String())
	}
}

// page returns items without taking them, from where next of another page says on.
func (q *items[V]) page(ctx context.Context, from queue.End, after []byte, n int) (page []V, next []byte, err error) {
	got, next, err := q.peekN(ctx, from, after, n)
	page, err = q.values(got, err)
	return page, next, err
}

func (q *items[V]) peekN(ctx context.Context, from queue.End, after []byte, n int) (page []wire.Item, next []byte, err error) {
	query := pageQuery(after, n)
	q.setEnd(query, from)
	var answer wire.ItemPage
	err = q.do(ctx, call{method: http.MethodGet, path: queuePath(q.name) + "/items", query: query, again: true}, &answer)
	return answer.Items, answer.Next.Key, err
}

func pageQuery(after []byte, n int) url.Values {
	query := url.Values{"limit": {strconv.Itoa(min(n, 1000))}, "form": {"base64"}}
	if place, _ := (wire.Place{Key: after}).MarshalText(); len(place) > 0 { // it can't fail
		query.Set("after", string(place))
	}
	return query
}

func (q *items[V]) peek(ctx context.Context, from queue.End) (v V, err error) {
	page, _, err := q.peekN(ctx, from, nil, 1)
	switch {
	case err != nil:
		return v, err
	case len(page) == 0:
		return v, fmt.Errorf("%w: %q", queue.ErrEmpty, q.name)
	}
	return q.decode(page[0])
}

// all returns all items in order, a page at a time.
func (q *items[V]) all(ctx context.Context, from queue.End) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for i, err := range reads.Pages(func(after []byte) ([]wire.Item, []byte, error) { return q.peekN(ctx, from, after, pageSize) }) {
			var v V
			if err == nil {
				v, err = q.decode(i)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}
