package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/conq-go/conq/codec"
	"github.com/conq-go/conq/errs"
	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/paging"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
)

const (
	waitFor    = 30 * time.Second // one request of a call that waits
	pageSize   = 100
	parallel   = 4       // requests of one kind that share calls, at once
	maxTaken   = 10_000  // items of one request
	maxPayload = 1 << 20 // bytes of calls that share a request
)

// items is a queue of either kind, in bytes.
type items struct {
	c    *Client
	name string

	adds  combine.Combiner[[]wire.Item, struct{}]
	takes map[wire.End]*combine.Combiner[int, []wire.Item]
}

// openItems returns the queue of a name, and makes it if there is none.
func openItems(ctx context.Context, c *Client, name, kind string, ends ...wire.End) (*items, error) {
	if err := c.open(ctx, name, kind); err != nil {
		return nil, err
	}
	q := &items{c: c, name: name, takes: make(map[wire.End]*combine.Combiner[int, []wire.Item])}
	q.adds.Init(combine.Options[[]wire.Item, struct{}]{Run: q.runAdds, Size: sizeOf, MaxBytes: maxPayload, Parallel: parallel})
	for _, e := range ends {
		takes := new(combine.Combiner[int, []wire.Item])
		takes.Init(combine.Options[int, []wire.Item]{Run: func(calls []*combine.Call[int, []wire.Item]) { q.runTakes(e, calls) }, Parallel: parallel})
		q.takes[e] = takes
	}
	return q, nil
}

// open makes sure that there is a queue of a kind.
func (c *Client) open(ctx context.Context, name, kind string) error {
	if c == nil {
		return errors.New("client: client is nil")
	}
	if name == "" { // it would be another path
		return fmt.Errorf("%w: it is empty", errs.ErrName)
	}
	info, err := c.Lookup(ctx, name)
	if errors.Is(err, errs.ErrNoQueue) {
		return c.do(ctx, call{method: http.MethodPut, path: queuePath(name), body: map[string]string{"kind": kind}, again: true}, nil)
	}
	if err == nil && info.Kind != kind {
		err = fmt.Errorf("%w: %q is a %s, not a %s", errs.ErrKind, name, info.Kind, kind)
	}
	return err
}

// Name returns the name of the queue.
func (q *items) Name() string { return q.name }

// Close ends the handle, not the client. Calls that wait for their turn return an errs.ErrClosed, and so do later ones, but those that wait
// for items go on until their contexts end.
func (q *items) Close() error {
	closed := closedError(q.name)
	q.adds.Close(closed)
	for _, takes := range q.takes {
		takes.Close(closed)
	}
	return nil
}

func closedError(name string) error { return fmt.Errorf("%w: queue %q", errs.ErrClosed, name) }

func sizeOf(all []wire.Item) (n int) {
	for _, i := range all {
		n += i.Size() + 100
	}
	return n
}

// share has one request serve all calls. If the server refuses that, which may be for one call's fault, each has a request of its own.
func share[Q, R any](calls []*combine.Call[Q, R], do func(context.Context, []*combine.Call[Q, R]) error) {
	ctx, cancel := combine.Context(calls)
	defer cancel()
	err := do(ctx, calls)
	if told, ok := errors.AsType[*Error](err); ok && len(calls) > 1 && told.Status/100 == 4 && !errors.Is(err, kv.ErrCommitUnknown) {
		for ; len(calls) > 0; calls = combine.Attend(calls[1:]) {
			share(calls[:1:1], do)
		}
		return
	}
	for _, c := range calls {
		if c.Err = err; err != nil && c.Context.Err() != nil && !errors.Is(err, kv.ErrCommitUnknown) {
			c.Err = context.Cause(c.Context)
		}
	}
}

func (q *items) runAdds(calls []*combine.Call[[]wire.Item, struct{}]) {
	share(calls, func(ctx context.Context, calls []*combine.Call[[]wire.Item, struct{}]) error {
		var all []wire.Item
		for _, c := range calls {
			all = append(all, c.Request...)
		}
		return q.c.do(ctx, call{method: http.MethodPost, path: queuePath(q.name) + "/items", body: wire.ItemList{Items: all}, once: true}, nil)
	})
}

func (q *items) add(ctx context.Context, all []wire.Item) error {
	if ctx == nil {
		return errors.New("client: ctx is nil")
	}
	if len(all) == 0 {
		return nil
	}
	_, err := q.adds.Do(ctx, all)
	return err
}

func (q *items) runTakes(from wire.End, calls []*combine.Call[int, []wire.Item]) {
	share(calls, func(ctx context.Context, calls []*combine.Call[int, []wire.Item]) error {
		total := 0
		for _, c := range calls {
			total += c.Request
		}
		got, err := q.request(ctx, from, total, 0)
		for _, c := range calls {
			n := min(c.Request, len(got))
			c.Result, got = got[:n:n], got[n:]
		}
		return err
	})
}

// take takes up to n items, or returns an errs.ErrEmpty.
func (q *items) take(ctx context.Context, from wire.End, n int) ([]wire.Item, error) {
	if err := checkN(ctx, n); err != nil {
		return nil, err
	}
	got, err := q.takes[from].Do(ctx, n)
	if err == nil && len(got) == 0 {
		err = fmt.Errorf("%w: %q", errs.ErrEmpty, q.name)
	}
	return got, err
}

func checkN(ctx context.Context, n int) error {
	switch {
	case ctx == nil:
		return errors.New("client: ctx is nil")
	case n < 1:
		return fmt.Errorf("client: %d are wanted: it can be from 1 on: %w", n, kv.ErrInvalid)
	}
	return nil
}

// takeWait takes up to n items, at least one.
func (q *items) takeWait(ctx context.Context, from wire.End, n int) ([]wire.Item, error) {
	return untilSome(ctx, n, func() ([]wire.Item, error) { return q.request(ctx, from, n, waitFor) })
}

// untilSome asks until there is something. A server that stops says at once that there is nothing.
func untilSome[V any](ctx context.Context, n int, ask func() ([]V, error)) ([]V, error) {
	if err := checkN(ctx, n); err != nil {
		return nil, err
	}
	for {
		began := time.Now()
		got, err := ask()
		if err != nil || len(got) > 0 {
			return got, err
		}
		if time.Since(began) < waitFor/2 {
			rest(ctx, firstPause)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (q *items) request(ctx context.Context, from wire.End, n int, wait time.Duration) ([]wire.Item, error) {
	query := url.Values{"n": {decimal(int64(min(n, maxTaken)))}, "form": {"base64"}}
	if from != wire.Front {
		query.Set("end", string(from))
	}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var answer wire.ItemList
	err := q.c.do(ctx, call{method: http.MethodPost, path: queuePath(q.name) + "/take", query: query, wait: wait, again: wait > 0, takes: true}, &answer)
	return answer.Items, err
}

// page returns items without taking them, from where next of another page says on.
func (q *items) page(ctx context.Context, from wire.End, after []byte, n int) (page []wire.Item, next []byte, err error) {
	query := pageQuery(after, n)
	if from != wire.Front {
		query.Set("end", string(from))
	}
	var answer wire.ItemPage
	err = q.c.do(ctx, call{method: http.MethodGet, path: queuePath(q.name) + "/items", query: query, again: true}, &answer)
	return answer.Items, answer.Next.Key, err
}

func pageQuery(after []byte, n int) url.Values {
	query := url.Values{"limit": {decimal(int64(min(n, 1000)))}, "form": {"base64"}}
	if place, _ := (wire.Place{Key: after}).MarshalText(); len(place) > 0 { // it can't fail
		query.Set("after", string(place))
	}
	return query
}

func (q *items) peek(ctx context.Context, from wire.End) (wire.Item, error) {
	page, _, err := q.page(ctx, from, nil, 1)
	if err == nil && len(page) == 0 {
		err = fmt.Errorf("%w: %q", errs.ErrEmpty, q.name)
	}
	if err != nil {
		return wire.Item{}, err
	}
	return page[0], nil
}

// all returns all items in order, a page at a time.
func (q *items) all(ctx context.Context, from wire.End) iter.Seq2[wire.Item, error] {
	return paging.All(func(after []byte) ([]wire.Item, []byte, error) { return q.page(ctx, from, after, pageSize) })
}

// Len counts the items, which reads all of them.
func (q *items) Len(ctx context.Context) (int, error) {
	return q.c.Len(ctx, q.name)
}

// Clear removes all items.
func (q *items) Clear(ctx context.Context) error { return q.c.Clear(ctx, q.name) }

// Clear removes all items or jobs of a queue of any kind.
func (c *Client) Clear(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: queuePath(name), query: url.Values{"confirm": {name}}}, nil)
}

// DecodeError is about an item that was taken, and does not decode. It matches errs.ErrDecode. The item is no longer in the queue, so
// it has the payload.
type DecodeError struct {
	Payload []byte
	Err     error
}

func (e *DecodeError) Error() string        { return fmt.Sprintf("%v: %v", errs.ErrDecode, e.Err) }
func (e *DecodeError) Unwrap() error        { return e.Err }
func (e *DecodeError) Is(target error) bool { return target == errs.ErrDecode }

// decode returns the value of an item.
func decode[T any](c codec.Codec[T], payload []byte) (T, error) {
	v, err := c.Decode(payload)
	if err != nil {
		err = &DecodeError{payload, err}
	}
	return v, err
}

func encode[T any](c codec.Codec[T], v T) ([]byte, error) {
	payload, err := c.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("client: value does not encode: %w", err)
	}
	if payload == nil {
		payload = []byte{}
	}
	return payload, nil
}
