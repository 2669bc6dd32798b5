package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

// through calls a function around each request.
type through func(r *http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func workThrough(t *testing.T, f through, o client.WorkOptions) *client.WorkQueue[string] {
	t.Helper()
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	c := dial(t, url, client.Options{Transport: f})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	q, err := client.OpenWork(t.Context(), c, "q", queue.String(), o)
	testkit.NoError(t, err)
	return q
}

// A lease counts from when the request was sent, whenever the answer comes: one that is over by then is not handed out.
func TestStaleLease(t *testing.T) {
	const lease = 300 * time.Millisecond
	var late atomic.Bool
	late.Store(true)
	q := workThrough(t, func(r *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(r)
		if strings.HasSuffix(r.URL.Path, "/reserve") && late.Swap(false) {
			time.Sleep(lease)
		}
		return answer, err
	}, client.WorkOptions{Lease: lease})
	_, err := q.Put(t.Context(), "a")
	testkit.NoError(t, err)
	l, err := q.ReserveWait(t.Context())
	testkit.NoError(t, err)
	if l.Attempt < 2 {
		t.Errorf("attempt %d was handed out, which was over", l.Attempt)
	}
}

// How long a request has waited for a job does not count, and what it took to get there and back does.
func TestLeaseAfterWait(t *testing.T) {
	asked := make(chan struct{}, 1)
	var answered wire.LeasedList
	var sent time.Time
	q := workThrough(t, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/reserve") {
			return http.DefaultTransport.RoundTrip(r)
		}
		asked <- struct{}{}
		sent = time.Now()
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(body))
		return answer, errors.Join(err, json.Unmarshal(body, &answered))
	}, client.WorkOptions{Lease: time.Minute})
	for took := time.Duration(0); took == 0; { // until a request was there before its job
		began := time.Now()
		got := make(chan *work.Lease[string])
		go func() {
			l, err := q.ReserveWait(t.Context())
			testkit.Check(t, err)
			got <- l
		}()
		<-asked
		time.Sleep(10 * time.Millisecond)
		_, err := q.Put(t.Context(), "a")
		testkit.NoError(t, err)
		l, j := <-got, answered.Jobs[0]
		took = j.Took.Duration
		if least, most := began.Add(took+j.Lease.Duration), sent.Add(took+j.Lease.Duration); l.Deadline().Before(least) || l.Deadline().After(most) {
			t.Errorf("the lease ends %v after it was asked for, want %v to %v", l.Deadline().Sub(began), least.Sub(began), most.Sub(began))
		}
	}
}

// A handler ends before its lease does, also if the server does not answer, and the network tells nothing.
func TestServerHangs(t *testing.T) {
	hangs, free := make(chan struct{}), make(chan struct{})
	q := workThrough(t, func(r *http.Request) (*http.Response, error) {
		select {
		case <-hangs:
			<-free
		default:
		}
		return http.DefaultTransport.RoundTrip(r)
	}, client.WorkOptions{Lease: time.Second})
	_, err := q.Put(t.Context(), "a")
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	err = work.Run(ctx, q, func(ctx context.Context, l *work.Lease[string]) error {
		defer close(free)
		close(hangs)
		select {
		case <-ctx.Done():
			testkit.WantError(t, context.Cause(ctx), work.ErrLeaseLost)
		case <-time.After(30 * time.Second):
			t.Error("the handler goes on")
		}
		stop()
		return nil
	}, work.RunOptions{OnError: func(work.ID, error) {}})
	testkit.NoError(t, err)
}
