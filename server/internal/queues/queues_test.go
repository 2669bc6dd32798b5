package queues

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSet(t *testing.T, o Options) *Set {
	db := memory.New(memory.Options{})
	s := New(db, o)
	t.Cleanup(func() {
		testkit.NoError(t, s.Close())
		testkit.NoError(t, db.Close())
	})
	return s
}

// Looking at a queue does not make it, and a name has one kind.
func TestKinds(t *testing.T) {
	s, ctx := newSet(t, Options{}), t.Context()
	_, _, err := s.Items(ctx, "q", conq.KindQueue, Existing)
	testkit.WantError(t, err, conq.ErrNoQueue)
	all, err := s.All(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "queues", len(all), 0)

	q, release, err := s.Items(ctx, "q", conq.KindQueue, Create)
	testkit.NoError(t, err)
	testkit.NoError(t, q.Add(ctx, Item{Payload: []byte("a")}))
	release()
	release() // is harmless
	for _, m := range []Mode{Existing, Create} {
		_, _, err = s.Items(ctx, "q", conq.KindPriorityQueue, m)
		testkit.WantError(t, err, conq.ErrKind)
		_, _, err = s.Work(ctx, "q", m)
		testkit.WantError(t, err, conq.ErrKind)
	}
	_, _, err = s.Work(ctx, "", Create)
	testkit.WantError(t, err, conq.ErrName)
	again, release, err := s.Items(ctx, "q", conq.KindQueue, Existing)
	testkit.NoError(t, err)
	testkit.Equal(t, "the same handle", again == q, true)
	release()
}

// Only so many queues are open: those in use stay, and the one that has been idle for longest goes.
func TestLimit(t *testing.T) {
	s, ctx := newSet(t, Options{MaxOpen: 2}), t.Context()
	a, releaseA, err := s.Items(ctx, "a", conq.KindQueue, Create)
	testkit.NoError(t, err)
	b, releaseB, err := s.Items(ctx, "b", conq.KindQueue, Create)
	testkit.NoError(t, err)
	_, _, err = s.Items(ctx, "c", conq.KindQueue, Create)
	testkit.WantError(t, err, ErrTooMany)
	releaseB()
	_, release, err := s.Items(ctx, "c", conq.KindQueue, Create)
	testkit.NoError(t, err)
	release()
	s.closing.Wait()
	testkit.WantError(t, b.Add(ctx, Item{}), conq.ErrClosed)
	testkit.NoError(t, a.Add(ctx, Item{}))
	releaseA()
}

// Whatever callers do at once, each uses an open handle.
func TestConcurrently(t *testing.T) {
	s, ctx := newSet(t, Options{MaxOpen: 8}), t.Context()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 100 {
				name := fmt.Sprint("q", (i*j)%17)
				q, release, err := s.Items(ctx, name, conq.KindQueue, Create)
				testkit.NoError(t, err)
				testkit.NoError(t, q.Add(ctx, Item{Payload: []byte{byte(i), byte(j)}}))
				release()
			}
		})
	}
	group.Wait()
	n := 0
	all, err := s.All(ctx)
	testkit.NoError(t, err)
	for _, info := range all {
		q, release, err := s.Items(ctx, info.Name, conq.KindQueue, Existing)
		testkit.NoError(t, err)
		l, err := q.Len(ctx)
		testkit.NoError(t, err)
		n += l
		release()
	}
	testkit.Equal(t, "items", n, 800)
}

// Closing wakes callers that wait, and refuses those that come later.
func TestClose(t *testing.T) {
	s, ctx := newSet(t, Options{}), t.Context()
	q, release, err := s.Items(ctx, "q", conq.KindQueue, Create)
	testkit.NoError(t, err)
	defer release()
	waits := make(chan error)
	go func() {
		_, err := q.TakeWait(context.Background(), conq.Min, 1)
		waits <- err
	}()
	testkit.NoError(t, s.Close())
	testkit.WantError(t, <-waits, conq.ErrClosed)
	_, _, err = s.Items(ctx, "q", conq.KindQueue, Existing)
	testkit.WantError(t, err, conq.ErrClosed)
}

// Handles of queues that others have deleted are dropped, and the name can be opened as another kind.
func TestReconcile(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	s := New(db, Options{})
	defer s.Close()
	_, release, err := s.Items(t.Context(), "q", conq.KindQueue, Create)
	testkit.NoError(t, err)
	later, releaseLater, err := s.Work(t.Context(), "w", Later)
	testkit.NoError(t, err)
	testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
	kind, err := s.Kind(t.Context(), "q")
	testkit.NoError(t, err)
	testkit.Equal(t, "kind before", kind, conq.KindQueue)
	infos, err := s.All(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "queues", len(infos), 0)
	s.Reconcile(infos)
	_, err = s.Kind(t.Context(), "q")
	testkit.WantError(t, err, conq.ErrNoQueue)
	_, release2, err := s.Items(t.Context(), "q", conq.KindPriorityQueue, Create)
	testkit.NoError(t, err)
	release()
	release2()
	again, releaseAgain, err := s.Work(t.Context(), "w", Later)
	testkit.NoError(t, err)
	testkit.Equal(t, "the handle of a queue that is still to be made is kept", again, later)
	releaseAgain()
	_, releaseMade, err := s.Work(t.Context(), "w", Create)
	testkit.NoError(t, err)
	_, err = s.Lookup(t.Context(), "w")
	testkit.NoError(t, err)
	releaseLater()
	releaseMade()
}
