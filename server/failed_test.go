package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// failing is a store that fails as it is told to.
type failing struct {
	kv.DB
	writes, reads atomic.Pointer[error]
}

func (f *failing) Transact(ctx context.Context, do func(kv.Tx) error) error {
	if err := f.writes.Load(); err != nil {
		return *err
	}
	return f.DB.Transact(ctx, do)
}

func (f *failing) ReadTransact(ctx context.Context, do func(kv.Reader) error) error {
	if err := f.reads.Load(); err != nil {
		return *err
	}
	return f.DB.ReadTransact(ctx, do)
}

// A full disk is told as such, a store that can't be read is not ready, and one that has failed ends the server.
func TestStoreFails(t *testing.T) {
	db := &failing{DB: testkit.NewMemory(t, kv.Limits{})}
	s, err := New(db, Options{})
	testkit.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- s.Serve(t.Context(), l) }()
	full := fmt.Errorf("disk: %w", kv.ErrFull)
	db.writes.Store(&full)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/queues/q/items", strings.NewReader(`{"text":"a"}`))
	r.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(w, r)
	if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "urn:conq:full") {
		t.Errorf("of a full disk: %d %s", w.Code, w.Body)
	}
	ready := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
		return w.Code
	}
	testkit.Equal(t, "ready on a full disk", ready(), http.StatusOK)
	unreachable := fmt.Errorf("cluster: %w", kv.ErrTooOld)
	db.reads.Store(&unreachable)
	for now := s.history.Latest(); now.Err == nil; now = s.history.Latest() {
		<-now.Next()
	}
	testkit.Equal(t, "ready without a store", ready(), http.StatusServiceUnavailable)
	failed := fmt.Errorf("disk: %w: %w", kv.ErrFailed, full)
	db.reads.Store(&failed)
	testkit.WantError(t, <-ended, kv.ErrFailed)
	testkit.NoError(t, s.Close())
}
