package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/codec"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server"
)

// late ends the context of a request when the server has answered, before the client knows.
type late struct {
	http.RoundTripper
	end context.CancelFunc
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if l.end != nil {
		l.end()
	}
	if err == nil && r.Context().Err() != nil {
		answer.Body.Close()
		return nil, r.Context().Err()
	}
	return answer, err
}

// TestTakenAtTheEnd: what the server has given away when a caller's context ends is not lost on its way.
func TestTakenAtTheEnd(t *testing.T) {
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	network := &late{RoundTripper: transport}
	c, err := client.Dial(t.Context(), url, client.Options{Transport: network})
	testkit.NoError(t, err)
	q, err := client.OpenQueue(t.Context(), c, "q", codec.String())
	testkit.NoError(t, err)
	jobs, err := client.OpenWork(t.Context(), c, "w", codec.String(), client.WorkOptions{})
	testkit.NoError(t, err)
	for _, take := range []func(ctx context.Context) (string, error){
		q.Dequeue, q.DequeueWait,
		func(ctx context.Context) (string, error) {
			l, err := jobs.Reserve(ctx)
			if err != nil {
				return "", err
			}
			return l.Value, l.Ack(t.Context())
		},
	} {
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		testkit.NoError(t, testkit.Drop(jobs.Put(t.Context(), "a")))
		ctx, cancel := context.WithCancel(t.Context())
		network.end = cancel
		got, err := take(ctx)
		network.end = nil
		testkit.NoError(t, err)
		testkit.Equal(t, "value", got, "a")
		testkit.NoError(t, q.Clear(t.Context()))
		testkit.NoError(t, jobs.Clear(t.Context()))
		if _, err := take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended the error is %v", err)
		}
	}
}

// asked is a transport that notes how long the server was asked to wait.
type asked struct {
	http.RoundTripper
	wait time.Duration
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.wait, _ = time.ParseDuration(r.URL.Query().Get("wait"))
	return a.RoundTripper.RoundTrip(r)
}

// The server waits no longer than the caller does, so that it takes nothing when that has gone.
func TestWaitsUntilDeadline(t *testing.T) {
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	network := &asked{RoundTripper: transport}
	c := dial(t, url, client.Options{Transport: network})
	q, err := client.OpenQueue(t.Context(), c, "q", codec.String())
	testkit.NoError(t, err)
	jobs, err := client.OpenWork(t.Context(), c, "w", codec.String(), client.WorkOptions{})
	testkit.NoError(t, err)
	for _, take := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := q.DequeueWait(ctx); return err },
		func(ctx context.Context) error { _, err := jobs.Reserve(ctx); return err },
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
