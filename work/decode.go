package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/queue"
)

// Decode sets the values of leases that a client of a server has just taken, and returns those that can be worked on. A job that
// does not decode is dead, with the reason. A lease that is over is left out. The error is that of the first case, if there is no
// lease to return.
func Decode[T any](ctx context.Context, c queue.Codec[T], leases []*Lease[T]) ([]*Lease[T], error) {
	return handOut(ctx, leases, func(*Lease[T]) queue.Codec[T] { return c })
}

// handOut is Decode with the codec of each lease.
func handOut[T any](ctx context.Context, leases []*Lease[T], codecOf func(*Lease[T]) queue.Codec[T]) (good []*Lease[T], err error) {
	isOver := func(l *Lease[T]) bool { return time.Until(l.Deadline()) <= 0 }
	var group sync.WaitGroup
	failed := make([]error, len(leases))
	for i, l := range leases {
		if isOver(l) { // its transaction took too long, or became known too late
			l.tell(ctx, fmt.Errorf("%w: it was over when it came, after %v", ErrLeaseLost, l.length))
			group.Go(func() { _ = l.soon(ctx, l.giveBack) }) // else it comes back by itself
			continue
		}
		v, bad := decode(codecOf(l), l.Payload)
		if bad == nil {
			l.Value = v
			good = append(good, l)
			continue
		}
		bad = fmt.Errorf("payload does not decode: %w", bad)
		l.tell(ctx, bad)
		group.Go(func() {
			failed[i] = l.soon(ctx, func(ctx context.Context) error { return l.fatal(ctx, bad) })
		})
	}
	group.Wait()
	if len(good) == len(leases) {
		return good, nil
	}
	if good = slices.DeleteFunc(good, isOver); len(good) > 0 {
		return good, nil // the others come back when their leases are over
	}
	for i, err := range failed {
		if errors.Is(err, ErrLeaseLost) {
			failed[i] = nil
		}
	}
	return nil, errors.Join(failed...)
}

// soon ends a lease while others of its batch wait, so not for long.
func (l *Lease[T]) soon(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.length/4, time.Second))
	defer cancel()
	return end(ctx)
}

// decode makes an error of a panic: a job by which each worker ends would never be dead.
func decode[T any](c queue.Codec[T], payload []byte) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.Decode(payload)
}

// teller is the key of the function in a context that is told of jobs that are not handed out: OnError of a runner.
type teller struct{}

func (l *Lease[T]) tell(ctx context.Context, err error) {
	if f, ok := ctx.Value(teller{}).(func(ID, error)); ok {
		f(l.ID, err)
	} else if l.queue != nil {
		l.queue.tell(l.ID, err)
	}
}
