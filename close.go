package conq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// closeTimeout bounds how long Close takes, as it has no context.
const closeTimeout = 30 * time.Second

// closing is for the calls of Close.
type closing struct {
	sync.Mutex
	done bool // there is nothing left to be done
}

func (s *store) closedError() error { return fmt.Errorf("%w: queue %q", ErrClosed, s.name) }

// ending is a direction of a handle that is closed: first it takes on no more calls;
// then it waits for those that wait, which it has told to go.
type ending interface {
	close(err error)
	drain(ctx context.Context) error
}

func (a *adder[P]) close(err error) { a.lane.Close(err) }

func (a *adder[P]) drain(context.Context) error { return nil }

func (t *taker[V]) close(err error) {
	t.lane.Close(err)
	t.room.Close(err)
}

func (t *taker[V]) drain(ctx context.Context) error {
	if err := t.room.Drained(ctx); err != nil {
		return err
	}
	if t.line == nil {
		t.s.signals.Forget(t.s.name, t)
		return nil
	}
	return t.leaveLine(math.MaxInt64)
}

// close closes the handle.
func (s *store) close(directions ...ending) error {
	if s.db == nil {
		return errUnopened
	}
	s.closed.Store(true)
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closing.done {
		return nil
	}
	closed := s.closedError()
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout,
		timeoutError(fmt.Sprintf("closing took longer than %v", closeTimeout)))
	defer cancel()
	for _, d := range directions {
		d.close(closed)
	}
	err := s.stage.Close(ctx, closed)
	for _, d := range directions {
		err = errors.Join(err, d.drain(ctx))
	}
	if err = errors.Join(err, s.lanes.Close(ctx, closed)); err != nil {
		return fmt.Errorf("conq: queue %q: closing: %w", s.name, err)
	}
	s.closing.done = true
	return nil
}

// maxForgotten is how many outcome keys of others are looked at when a queue is
// opened.
const maxForgotten = 1000

// forgetOthers removes outcome keys of handles that have not been used for long: their
// processes have died without closing them. It looks at some, beginning anywhere, so
// that in time all are looked at.
func (s *store) forgetOthers(ctx context.Context) {
	if !s.limits.UnknownCommits {
		return
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	all := subspace.FromBytes(outcomes(s.name)).Range()
	middle := tuple.AppendBytes(outcomes(s.name), id[:])
	for _, part := range []kv.Range{{Begin: middle, End: all.End}, {Begin: all.Begin, End: middle}} {
		if err := kv.ForgetOutcomes(ctx, s.db, part, maxForgotten/2); err != nil {
			if s.log != nil {
				s.log.Debug("old outcome keys could not be removed", "queue", s.name, "error", err)
			}
			return // the next one to open the queue will try
		}
	}
}
