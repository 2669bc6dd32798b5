package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
)

// direct is a transport to a server of the same process, so that on the clock of a bubble what busy machines take does not count.
type direct struct {
	*server.Server
	wait     time.Duration      // that the last request has asked for
	answered context.CancelFunc // ends the context of a request before the client knows that the server has answered
	slowness time.Duration      // of each answer
}

func newDirect(t *testing.T) *direct {
	s, err := server.New(testkit.NewMemory(t, kv.Limits{}), server.Options{})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return &direct{Server: s}
}

func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	d.wait, _ = time.ParseDuration(r.URL.Query().Get("wait"))
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	d.ServeHTTP(w, in)
	if d.answered != nil {
		d.answered()
	}
	select {
	case <-time.After(d.slowness):
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestTakenAtTheEnd: what the server has given away when a caller's context ends is not lost on its way.
func TestTakenAtTheEnd(t *testing.T) { testkit.Bubble(t, takenAtTheEnd) }

func takenAtTheEnd(t *testing.T) {
	network := newDirect(t)
	c := dial(t, "http://127.0.0.1", client.Options{Transport: network})
	q, err := client.OpenQueue(t.Context(), c, "q", queue.String())
	testkit.NoError(t, err)
	jobs, err := client.OpenWork(t.Context(), c, "w", queue.String())
	testkit.NoError(t, err)
	for _, take := range []func(ctx context.Context) (string, error){
		q.Dequeue, q.DequeueWait,
		func(ctx context.Context) (string, error) {
			l, err := jobs.ReserveWait(ctx)
			if err != nil {
				return "", err
			}
			return l.Value, l.Ack(t.Context())
		},
	} {
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		testkit.NoError(t, testkit.Drop(jobs.Put(t.Context(), "a")))
		ctx, cancel := context.WithCancel(t.Context())
		network.answered = cancel
		got, err := take(ctx)
		network.answered = nil
		testkit.NoError(t, err)
		testkit.Equal(t, "value", got, "a")
		testkit.NoError(t, q.Clear(t.Context()))
		testkit.NoError(t, jobs.Clear(t.Context()))
		if _, err := take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended the error is %v", err)
		}
	}
}

// What a slow server has taken until the deadline of a call arrives, or is told to be lost.
func TestTakenAtTheDeadline(t *testing.T) { testkit.Bubble(t, takenAtTheDeadline) }

func takenAtTheDeadline(t *testing.T) {
	network := newDirect(t)
	q, err := client.OpenQueue(t.Context(), dial(t, "http://127.0.0.1", client.Options{Transport: network}), "q", queue.String())
	testkit.NoError(t, err)
	for slowness, lost := range map[time.Duration]bool{2 * time.Second: false, time.Hour: true} {
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		network.slowness = slowness
		got, err := q.DequeueWait(ctx)
		network.slowness = 0
		cancel()
		if !lost && (err != nil || got != "a") || lost && !(errors.Is(err, kv.ErrCommitUnknown) && errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("%v: %q, %v", slowness, got, err)
		}
	}
}

// The server waits no longer than the caller does, so that it takes nothing when that has gone.
func TestWaitsUntilDeadline(t *testing.T) { testkit.Bubble(t, waitsUntilDeadline) }

func waitsUntilDeadline(t *testing.T) {
	network := newDirect(t)
	c := dial(t, "http://127.0.0.1", client.Options{Transport: network})
	q, err := client.OpenQueue(t.Context(), c, "q", queue.String())
	testkit.NoError(t, err)
	jobs, err := client.OpenWork(t.Context(), c, "w", queue.String())
	testkit.NoError(t, err)
	for _, take := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := q.DequeueWait(ctx); return err },
		func(ctx context.Context) error { _, err := jobs.ReserveWait(ctx); return err },
	} {
		const patience = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		testkit.WantError(t, take(ctx), context.DeadlineExceeded)
		cancel()
		if network.wait <= 0 || network.wait > patience {
			t.Errorf("the server waits for %v", network.wait)
		}
	}
}

// A call whose context ends while it waits takes nothing.
func TestCancelledWaitTakesNothing(t *testing.T) { testkit.Bubble(t, cancelledWaitTakesNothing) }

func cancelledWaitTakesNothing(t *testing.T) {
	c := dial(t, "http://127.0.0.1", client.Options{Transport: newDirect(t)})
	q, err := client.OpenQueue(t.Context(), c, "q", queue.String())
	testkit.NoError(t, err)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := q.DequeueWait(ctx)
		cancel()
		testkit.WantError(t, err, context.DeadlineExceeded)
	}
	testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"a", "b"}))
	n, err := q.Len(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "items", n, 2)
}
