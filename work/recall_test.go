package work

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	removal "github.com/conq-go/conq/internal/remove"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// recallers end what a handler does, through another handle.
var recallers = map[string]struct {
	do   func(ctx context.Context, q *Queue[string], id ID) error
	want error
}{
	"Cancel": {func(ctx context.Context, q *Queue[string], id ID) error { return q.Cancel(ctx, id) }, ErrCancelled},
	"CancelAll": {func(ctx context.Context, q *Queue[string], _ ID) error {
		return second2(q.CancelAll(ctx, Filter{}, nil))
	}, ErrCancelled},
	"Delete": {func(ctx context.Context, q *Queue[string], id ID) error { return q.Delete(ctx, id) }, ErrLeaseLost},
	"DeleteAll": {func(ctx context.Context, q *Queue[string], _ ID) error {
		return second2(q.DeleteAll(ctx, Filter{}, nil))
	}, ErrLeaseLost},
	"Bury":     {func(ctx context.Context, q *Queue[string], id ID) error { return q.Bury(ctx, id, "bad") }, ErrLeaseLost},
	"EndLease": {func(ctx context.Context, q *Queue[string], id ID) error { return q.EndLease(ctx, id) }, ErrLeaseLost},
	"EndLeases": {func(ctx context.Context, q *Queue[string], _ ID) error {
		return second2(q.EndLeases(ctx, Filter{State: Leased}, nil))
	}, ErrLeaseLost},
	"Clear":       {func(ctx context.Context, q *Queue[string], _ ID) error { return q.Clear(ctx) }, ErrLeaseLost},
	"DeleteQueue": {func(ctx context.Context, q *Queue[string], _ ID) error { return removal.Queue(ctx, q.db, "jobs") }, ErrLeaseLost},
}

func second2(_ int, err error) error { return err }

// TestRecall: a handler's context ends at once when another handle of this process takes its job away or cancels it, and within
// recalledWithin if it is another process.
func TestRecall(t *testing.T) {
	for name, c := range recallers {
		for _, where := range []string{"one process", "a wrapper of the store", "a store that processes share", "another process"} {
			t.Run(fmt.Sprint(name, " through ", where), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { recallBy(t, where, c.do, c.want) })
			})
		}
	}
}

func recallBy(t *testing.T, where string, do func(context.Context, *Queue[string], ID) error, want error) {
	within := time.Duration(0)
	limits := kv.Limits{Age: time.Hour, Shared: where != "one process" && where != "a wrapper of the store"}
	db := memory.New(memory.Options{Limits: limits})
	defer db.Close()
	var mine, others kv.DB = db, db
	switch where {
	case "a wrapper of the store":
		others = faulty.New(db, 1, faulty.Options{})
	case "another process":
		mine, others, within = &foreign{db}, &foreign{db}, recalledWithin
	}
	ctx, stop := context.WithCancel(t.Context())
	q, err := Open(ctx, mine, "jobs", queue.String(), Options{Settings: &Settings{Lease: 10 * time.Minute}})
	noError(t, err)
	other, err := Open(ctx, others, "jobs", queue.String())
	noError(t, err)
	id, err := q.Put(ctx, "a")
	noError(t, err)
	began, ended, done := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		done <- Run(ctx, q, func(ctx context.Context, l *Lease[string]) error {
			if l.Attempt > 1 {
				return nil // it came back
			}
			began <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		}, RunOptions{OnError: func(ID, error) {}})
	}()
	<-began
	time.Sleep(time.Minute)
	at := time.Now()
	noError(t, do(ctx, other, id))
	select {
	case err = <-ended:
		isError(t, err, want)
	case <-time.After(time.Hour):
		t.Fatal("its context has not ended")
	}
	if took := time.Since(at); took > within+100*time.Millisecond {
		t.Errorf("it took %v, want at most %v", took, within)
	}
	stop()
	noError(t, <-done)
	noError(t, q.Close())
	noError(t, other.Close())
}

// foreign is a store as another process has it: nobody tells it of what others do. It is another one each time.
type foreign struct{ kv.DB }
