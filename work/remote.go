package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// Source is what Run gets jobs from: a Queue, a Union, or a queue that a server has.
type Source[T any] interface {
	// Name returns the queue's name.
	Name() string
	// ReserveN leases up to n jobs, at least one, and waits until there is one.
	ReserveN(ctx context.Context, n int) ([]*Lease[T], error)
}

// Keeper keeps leases for those who have their tokens, as a server does. Its methods are those of Lease.
type Keeper interface {
	Ack(ctx context.Context, id ID, token string, result []byte) error
	// Extend returns when the lease is over, also with an ErrCancelled.
	Extend(ctx context.Context, id ID, token string, d time.Duration) (time.Time, error)
	Release(ctx context.Context, id ID, token string, delay time.Duration, priority *int64) error
	// Fail has the keeper's Options.Backoff if delay is nil.
	Fail(ctx context.Context, id ID, token string, delay *time.Duration, reason string) error
	Bury(ctx context.Context, id ID, token string, reason string) error
}

type remote struct {
	keeper Keeper
	token  string
}

// NewLease returns a lease that somebody else keeps, for clients of servers. What is known of its job is for the
// caller to fill in.
func NewLease[T any](k Keeper, id ID, token string, length time.Duration, deadline time.Time) *Lease[T] {
	l := &Lease[T]{ID: id, remote: &remote{k, token}, length: length}
	l.deadline.Store(micros(deadline))
	return l
}

func (l *Lease[T]) wrap(err error) error {
	if l.queue == nil {
		return err
	}
	return l.queue.wrap(err)
}

func (r *remote) release(ctx context.Context, id ID, delay time.Duration, as *jobs.NewPriority) error {
	if as == nil {
		return r.keeper.Release(ctx, id, r.token, delay, nil)
	}
	if as.OldPlace {
		return fmt.Errorf("job %d: %w: a client releases to the end of a priority", id, errors.ErrUnsupported)
	}
	return r.keeper.Release(ctx, id, r.token, delay, &as.Priority)
}
