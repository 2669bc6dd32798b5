package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
)

// counted counts the transactions of a page.
type counted struct {
	kv.DB
	n atomic.Int64
}

type ofPage struct{}

func (c *counted) count(ctx context.Context) {
	if ctx.Value(ofPage{}) != nil {
		c.n.Add(1)
	}
}

func (c *counted) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	c.count(ctx)
	return c.DB.ReadTransact(ctx, f)
}

func (c *counted) Transact(ctx context.Context, f func(kv.Tx) error) error {
	c.count(ctx)
	return c.DB.Transact(ctx, f)
}

// The page of periodic jobs opens the queues that have some, and no others.
func TestPeriodicOfMany(t *testing.T) {
	const many = 400
	db := &counted{DB: memory.New(memory.Options{})}
	s := newSiteOf(t, db)
	for i := range many {
		q, err := work.Open(t.Context(), db, fmt.Sprintf("queue%03d", i), conq.Bytes())
		testkit.NoError(t, err)
		if i%200 == 7 {
			testkit.NoError(t, q.Every(t.Context(), "nightly", "0 3 * * *", nil))
		}
		testkit.NoError(t, q.Close())
	}
	s.history.Queue("unknown") // is news, for which the catalogue is read
	s.sampler.Sample(t.Context())
	testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "queue207")) // the snapshot has it
	ctx := context.WithValue(t.Context(), ofPage{}, true)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/periodic", nil))
	testkit.Equal(t, "status", w.Code, http.StatusOK)
	has(t, w.Body.String(), "nightly</th>", ">queue007</a>")
	hasNot(t, w.Body.String(), "queue207")
	if n := db.n.Load(); n > many/10 {
		t.Errorf("the page took %d transactions", n)
	}
}

// A queue that was deleted, or made anew as another kind, after the snapshot is none that a page fails for.
func TestGoneSinceSnapshot(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"stays", "vanishes", "becomes"} {
		q, err := work.Open(t.Context(), s.db, name, conq.Bytes())
		testkit.NoError(t, err)
		testkit.NoError(t, testkit.Drop(q.Put(t.Context(), nil)))
		testkit.NoError(t, testkit.Drop(q.ReserveWait(t.Context())))
		defer func() { testkit.NoError(t, q.Close()) }()
	}
	s.history.Queue("unknown") // is news, for which the catalogue is read
	s.sampler.Sample(t.Context())
	testkit.NoError(t, conq.DeleteQueue(t.Context(), s.db, "vanishes"))
	testkit.NoError(t, conq.DeleteQueue(t.Context(), s.db, "becomes"))
	fifo, err := conq.OpenQueue(t.Context(), s.db, "becomes", conq.Bytes())
	testkit.NoError(t, err)
	testkit.NoError(t, fifo.Close())
	for _, path := range []string{"/workers", "/periodic"} {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		testkit.Equal(t, path, w.Code, http.StatusOK)
		if path == "/workers" {
			has(t, w.Body.String(), ">stays</a>")
		}
	}
}
