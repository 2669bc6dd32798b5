package handle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	types "github.com/conq-go/conq/queue"
)

// closeTimeout bounds how long Close takes, as it has no context.
const closeTimeout = 30 * time.Second

// closing is for the calls of Close.
type closing struct {
	sync.Mutex
	done bool // there is nothing left to be done
}

func (q *queue) closedError() error { return fmt.Errorf("%w: queue %q", types.ErrClosed, q.name) }

// close has calls that wait, and all that come later, return err.
func (t *taker) close(err error) {
	t.batches.Close(err)
	t.waiters.Close(err)
}

// drain returns when no caller waits any more.
func (t *taker) drain(ctx context.Context) error {
	if err := t.waiters.Drained(ctx); err != nil {
		return err
	}
	if t.q.local != nil {
		t.q.local.Forget(t.q.name, t)
	}
	if t.line == nil {
		return nil
	}
	return t.leaveLine(math.MaxInt64)
}

// Close ends the handle, and not the store: first it takes on no more calls; then it waits for
// the calls that wait, which it has told to go.
func (h *Handle) Close() error {
	if h == nil {
		return errUnopened
	}
	h.closed.Store(true)
	h.closing.Lock()
	defer h.closing.Unlock()
	if h.closing.done {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout,
		timeoutError(fmt.Sprintf("closing took longer than %v", closeTimeout)))
	defer cancel()
	if err := h.endAll(ctx, h.closedError()); err != nil {
		return fmt.Errorf("conq: queue %q: closing: %w", h.name, err)
	}
	h.closing.done = true
	return nil
}

func (h *Handle) endAll(ctx context.Context, closed error) error {
	h.in.batches.Close(closed)
	for _, t := range h.ends {
		t.close(closed)
	}
	err := h.stage.Close(ctx, closed)
	for _, t := range h.ends {
		err = errors.Join(err, t.drain(ctx))
	}
	return errors.Join(err, h.lanes.Close(ctx, closed))
}

// forgetOthers removes outcome keys of handles that have not been used for long.
func (q *queue) forgetOthers(ctx context.Context) {
	if err := outcome.ForgetOthers(ctx, q.db, layout.Outcomes(q.name)); err != nil && q.log != nil {
		q.log.Debug("old outcome keys could not be removed", "queue", q.name, "error", err)
	}
}
