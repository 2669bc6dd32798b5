package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// slow is a cluster whose commits are answered late: after the gate is open, and never to who has given up.
type slow struct {
	kv.DB
	gate atomic.Pointer[chan struct{}]
}

func (s *slow) Limits() kv.Limits {
	l := s.DB.Limits()
	l.Shared, l.UnknownCommits = true, true
	return l
}

func (s *slow) Transact(ctx context.Context, f func(kv.Tx) error) error {
	err := s.DB.Transact(ctx, f)
	if gate := s.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, context.Cause(ctx))
		}
	}
	return err
}

// What is taken while the time of a request ends is in its answer, though the store answers later.
func TestTakenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Options{})
		db, other := &slow{DB: inner}, &slow{DB: inner}
		f := newFixtureOn(t, db)
		f.ok("PUT /v1/queues/q", `{"kind":"queue"}`, nil)
		q, err := conq.OpenQueue(t.Context(), other, "q", conq.String())
		testkit.NoError(t, err)
		var w *httptest.ResponseRecorder
		done := make(chan struct{})
		go func() {
			defer close(done)
			w = f.call("POST /v1/queues/q/take?wait=10s", "")
		}()
		synctest.Wait()
		time.Sleep(9*time.Second + 500*time.Millisecond) // between two looks
		gate := make(chan struct{})
		db.gate.Store(&gate)
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		time.Sleep(20 * time.Second)
		db.gate.Store(nil)
		close(gate)
		<-done
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"a"`) {
			t.Errorf("%d %s, want the item", w.Code, w.Body)
		}
		testkit.NoError(t, q.Close())
	})
}
