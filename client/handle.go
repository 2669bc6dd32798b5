package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// handle is what handles of all kinds have.
type handle struct {
	c       *Client
	name    string
	closers []func(error)
	closed  *atomic.Bool
}

// do is Client.do until the handle is closed: a job that was reserved after that could not be acknowledged. A queue that was deleted is
// as an empty one: the error is q.missing, or nil, and then out stays as it is.
func (h *handle) do(ctx context.Context, q call, out any) error {
	if h.closed.Load() {
		return h.isClosed()
	}
	err := h.c.do(ctx, q, out)
	switch {
	case !errors.Is(err, queue.ErrNoQueue) || errors.Is(q.missing, queue.ErrNoQueue):
		return err
	case q.missing == nil:
		return nil
	}
	return fmt.Errorf("client: %w: queue %q was deleted", q.missing, h.name)
}

// unless returns an error, unless it is that the queue was deleted.
func unless(err error) error {
	if errors.Is(err, queue.ErrNoQueue) {
		return nil
	}
	return err
}

// make makes the queue.
func (h *handle) make(ctx context.Context, kind string) error {
	return h.c.do(ctx, call{method: http.MethodPut, path: queuePath(h.name), body: map[string]string{"kind": kind}, again: true}, nil)
}

func (h *handle) isClosed() error { return fmt.Errorf("%w: queue %q", queue.ErrClosed, h.name) }

// open returns a handle of the queue of a name, and makes that if there is none.
func (c *Client) open(ctx context.Context, name, kind string, codec any) (h handle, err error) {
	switch {
	case c == nil:
		return h, errors.New("client: client is nil")
	case codec == nil:
		return h, errors.New("client: codec is nil")
	case name == "" || name == "/": // it would be another path
		return h, fmt.Errorf("%w: over HTTP it can be neither empty nor one slash", queue.ErrName)
	}
	h = handle{c: c, name: name, closed: new(atomic.Bool)}
	info, err := c.Lookup(ctx, name)
	switch {
	case errors.Is(err, queue.ErrNoQueue):
		err = h.make(ctx, kind)
	case err == nil && info.Kind != kind:
		err = fmt.Errorf("%w: %q is a %s, not a %s", queue.ErrKind, name, info.Kind, kind)
	}
	return h, err
}

// Name returns the name of the queue.
func (h *handle) Name() string { return h.name }

// Close ends the handle, not the client. Calls that wait for their turn return a queue.ErrClosed, and so do later ones that ask for
// items or jobs, or change them. Those that wait already go on for up to 30 s, or until their contexts end.
func (h *handle) Close() error {
	h.closed.Store(true)
	for _, end := range h.closers {
		end(h.isClosed())
	}
	return nil
}

// Len counts the items, which reads all of them, or the jobs in all states.
func (h *handle) Len(ctx context.Context) (int, error) {
	n, err := h.c.Len(ctx, h.name)
	return n, unless(err)
}

// Clear removes all items, or all jobs in any state. Workers have lost their leases.
func (h *handle) Clear(ctx context.Context) error { return unless(h.c.Clear(ctx, h.name)) }

// Clear removes all items or jobs of a queue of any kind.
func (c *Client) Clear(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodPost, path: queuePath(name) + "/purge", query: url.Values{"confirm": {name}}}, nil)
}

// DeleteQueue deletes a queue of any kind, with all that it has. The error is a queue.ErrNoQueue if there is none. Handles stay valid: what
// adds makes the queue anew, in the same transaction, what takes or looks finds it empty, who waits goes on waiting, and leases are lost.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: queuePath(name), query: url.Values{"confirm": {name}}}, nil)
}

// shared has calls that come while another is under way share a request, which do sends.
func shared[Q, R any](h *handle, c *batch.Batcher[Q, R], size func(Q) int, do func(context.Context, []*batch.Call[Q, R]) error) {
	o := batch.Options[Q, R]{Run: func(calls []*batch.Call[Q, R]) { share(calls, do) }, Size: size, Parallel: batch.Eager(parallel)}
	if size != nil {
		o.MaxBytes = maxPayload
	}
	c.Init(o)
	h.closers = append(h.closers, c.Close)
}

// share has one request serve all calls. If that is refused, which may be for one call's fault, each has a request of its own.
func share[Q, R any](calls []*batch.Call[Q, R], do func(context.Context, []*batch.Call[Q, R]) error) {
	ctx, cancel := batch.Context(calls)
	defer cancel()
	err := do(ctx, calls)
	told, answered := errors.AsType[*Error](err)
	refused := answered && told.Status/100 == 4 || errors.Is(err, kv.ErrInvalid)
	if refused && len(calls) > 1 && !errors.Is(err, kv.ErrCommitUnknown) {
		batch.Each(calls, func(c *batch.Call[Q, R]) { share([]*batch.Call[Q, R]{c}, do) })
		return
	}
	for _, c := range calls {
		c.Fail(err)
	}
}

func sizeOf[T interface{ Size() int }](all []T) (n int) {
	for _, v := range all {
		n += v.Size() + 200 // for what stands beside the payload
	}
	return n
}

// DecodeError is about an item that was taken, and does not decode. It matches queue.ErrDecode. The item is no longer in the queue, so
// it has the payload.
type DecodeError struct {
	Payload []byte
	Err     error
}

func (e *DecodeError) Error() string        { return fmt.Sprintf("%v: %v", queue.ErrDecode, e.Err) }
func (e *DecodeError) Unwrap() error        { return e.Err }
func (e *DecodeError) Is(target error) bool { return target == queue.ErrDecode }

// decode returns the value of an item.
func decode[T any](c queue.Codec[T], payload []byte) (T, error) {
	v, err := c.Decode(payload)
	if err != nil {
		err = &DecodeError{payload, err}
	}
	return v, err
}

func encode[T any](c queue.Codec[T], v T) ([]byte, error) {
	payload, err := c.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("client: value does not encode: %w", err)
	}
	if payload == nil {
		payload = []byte{}
	}
	return payload, nil
}
