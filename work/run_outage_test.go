package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// away is a store that does not answer for some time, and whose calls give up before that is over.
type away struct {
	kv.DB
	until time.Time
	err   error
}

func (a *away) hang(ctx context.Context) error {
	if time.Now().After(a.until) {
		return nil
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *away) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := a.hang(ctx); err != nil {
		return err
	}
	return a.DB.Transact(ctx, f)
}

func (a *away) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	if err := a.hang(ctx); err != nil {
		return err
	}
	return a.DB.ReadTransact(ctx, f)
}

// Run goes on after an outage, however long, tells of it, and ends when the store has failed for good.
func TestRunOutlasts(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		err  error
		ends bool
	}{{kv.ErrUnavailable, false}, {kv.ErrCommitUnknown, false}, {context.DeadlineExceeded, false}, {broken, true}} {
		for _, unites := range []bool{false, true} {
			for _, drains := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					db := &away{DB: memory.New(memory.Options{}), err: c.err}
					defer db.Close()
					q := open(t, db, Options{})
					_, err := q.Put(t.Context(), "a")
					noError(t, err)
					var source Source[string] = q
					if unites {
						named, err := Open(t.Context(), db, "other", queue.String(), Options{})
						noError(t, err)
						defer named.Close()
						source, err = NewUnion(q, named)
						noError(t, err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					db.until = time.Now().Add(time.Hour)
					done, told := 0, 0
					err = Run(ctx, source, func(context.Context, *Lease[string]) error {
						done++
						cancel()
						return nil
					}, RunOptions{Drain: drains, OnError: func(id ID, err error) {
						if told++; id != 0 || !errors.Is(err, c.err) {
							t.Errorf("told of job %d: %v", id, err)
						}
					}})
					if c.ends {
						if !errors.Is(err, broken) || done > 0 {
							t.Errorf("%v: ended with %v, %d done", c.err, err, done)
						}
						return
					}
					if err != nil || done != 1 || told == 0 {
						t.Errorf("%v, union %v, drain %v: ended with %v, %d done, told %d times", c.err, unites, drains, err, done, told)
					}
				})
			}
		}
	}
}
