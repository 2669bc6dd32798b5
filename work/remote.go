package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// Source is where Run gets jobs from: a Queue, a Union, or a queue of a server.
type Source[T any] interface {
	// Name returns the queue's name.
	Name() string
	// ReserveN leases up to n jobs, or returns conq.ErrEmpty.
	ReserveN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error)
	// ReserveWaitN is ReserveN, but waits until there is at least one.
	ReserveWaitN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error)
	// Drained tells whether no job is ready, nor leased, or the queue is paused.
	Drained(ctx context.Context) (bool, error)
}

// Keeper ends and extends leases by their tokens, as a server does. Its methods are those of Lease.
type Keeper interface {
	Ack(ctx context.Context, id ID, token string, result []byte) error
	// Extend returns the new deadline, also together with ErrCancelled.
	Extend(ctx context.Context, id ID, token string, d time.Duration) (time.Time, error)
	Release(ctx context.Context, id ID, token string, delay time.Duration, priority *int64) error
	// Fail uses the server's Options.Backoff if delay is nil.
	Fail(ctx context.Context, id ID, token string, delay *time.Duration, reason string) error
	Bury(ctx context.Context, id ID, token string, reason string) error
}

type remote struct {
	keeper Keeper
	token  string
}

// NewLease returns a lease that a Keeper ends and extends. It is for clients of servers. The caller fills in what is known
// of the job, and passes the leases of one answer to Decode. The deadline should count from before the request was sent. Without a Keeper the methods of the lease return kv.ErrInvalid.
func NewLease[T any](k Keeper, id ID, token string, length time.Duration, deadline time.Time) *Lease[T] {
	l := &Lease[T]{ID: id, remote: &remote{k, token}, length: length}
	if k == nil {
		l.queue, l.remote = new(Queue[T]), nil
	}
	l.setDeadline(deadline)
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
