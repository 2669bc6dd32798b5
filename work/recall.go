package work

import (
	"context"

	"github.com/conq-go/conq/kv"
)

// Recalls is of which jobs the leases were recalled: somebody else than the holder has ended the lease, or has cancelled,
// buried or deleted the job.
type Recalls struct {
	Next int64 // what to ask for next
	Jobs []ID
	All  bool // it is not known which: it may have been any
}

// Recalls waits until there are recalls after what Next of the call before was, and returns them. The first call passes 0, and
// returns at once. It knows of what is done through the store as this process has it open. It is for servers, which tell their clients.
func (q *Queue[T]) Recalls(ctx context.Context, after int64) (Recalls, error) {
	for {
		if err := q.ready(ctx); err != nil {
			return Recalls{}, err
		}
		ids, next, all, news := q.recalls.Since(after)
		if news == nil {
			return Recalls{Next: next, Jobs: toIDs(ids), All: all}, nil
		}
		select {
		case <-news:
		case <-q.open.Done():
		case <-ctx.Done():
			return Recalls{Next: after}, context.Cause(ctx)
		}
	}
}

func toIDs(ints []int64) (ids []ID) {
	for _, id := range ints {
		ids = append(ids, ID(id))
	}
	return ids
}

// Recaller is implemented by a Keeper that learns of recalls. Run then looks after a lease as soon as it is recalled.
type Recaller interface {
	// Watch returns what delivers something when the lease of a job may have been recalled, until forget is called.
	Watch(id ID) (recalled <-chan struct{}, forget func())
}

// recalled returns what delivers something when the lease may have been recalled, or nil where nobody tells.
func (l *Lease[T]) recalled() (recalled <-chan struct{}, forget func()) {
	if l.remote == nil {
		return l.queue.recalls.Watch(int64(l.ID))
	}
	if r, ok := l.remote.keeper.(Recaller); ok {
		return r.Watch(l.ID)
	}
	return nil, func() {}
}

// look returns ErrLeaseLost if the lease is lost, and ErrCancelled if the job was cancelled. That costs no write.
func (l *Lease[T]) look(ctx context.Context) error {
	q := l.queue
	return q.view(ctx, func(r kv.Reader) error {
		cancelled, err := q.recipe.Held(r, int64(l.ID), l.token, micros(q.now()))
		if cancelled {
			return ErrCancelled
		}
		return err
	})
}
