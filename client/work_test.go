package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

type workID = work.ID

func newWork(t *testing.T, o ...client.WorkOptions) *client.WorkQueue[string] {
	t.Helper()
	q, err := client.OpenWork(t.Context(), newClient(t), "jobs", queue.String(), o...)
	testkit.NoError(t, err)
	return q
}

func TestWork(t *testing.T) {
	for _, lease := range []time.Duration{-1, work.MaxLease + 1} {
		_, err := client.OpenWork(t.Context(), newClient(t), "jobs", queue.String(), client.WorkOptions{Lease: lease})
		testkit.WantError(t, err, kv.ErrInvalid, "WorkOptions.Lease")
	}
	ctx, q := t.Context(), newWork(t, client.WorkOptions{Lease: time.Minute})
	id, err := q.Put(ctx, "a", work.Job{Priority: 5, Key: "k", Unique: "u", Meta: map[string]string{"m": "1"}, MaxAttempts: 3, Timeout: time.Second})
	testkit.NoError(t, err)
	again, err := q.Put(ctx, "b", work.Job{Unique: "u"})
	testkit.WantError(t, err, work.ErrDuplicate)
	testkit.Equal(t, "id of the duplicate", again, id)
	_, err = q.Put(ctx, "c", work.Job{Delay: -1})
	testkit.WantError(t, err, kv.ErrInvalid)
	for field, j := range map[string]work.Job{"key": {Key: "\xff"}, "unique": {Unique: `\ufffd` + "\xfe"}, "meta": {Meta: map[string]string{"m": "\xff"}}} {
		_, err = q.Put(ctx, "d", j)
		testkit.WantError(t, err, kv.ErrInvalid, "not UTF-8", field)
	}
	later, err := q.Put(ctx, "later", work.Job{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Meta: map[string]string{"m": `\ufffd`}})
	testkit.NoError(t, err)
	_, err = q.Get(ctx, later)
	testkit.NoError(t, err)

	l, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "job", fmt.Sprintf("%v %s %d %d %s %v %v", l.ID == id, l.Value, l.Priority, l.Attempt, l.Key, l.Meta, l.Timeout), "true a 5 1 k map[m:1] 1s")
	if left := time.Until(l.Deadline()); left < 50*time.Second || left > time.Minute {
		t.Errorf("lease of %v, want a minute", left)
	}
	testkit.NoError(t, l.Extend(ctx, time.Hour))
	if left := time.Until(l.Deadline()); left < 50*time.Minute {
		t.Errorf("lease of %v, want an hour", left)
	}
	testkit.NoError(t, l.FailAfter(ctx, 0, errors.New("oh")))
	testkit.WantError(t, l.Ack(ctx), work.ErrLeaseLost)
	testkit.WantError(t, l.Release(ctx, 0), work.ErrLeaseLost)

	l, err = q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "failure", l.Attempt == 2 && l.Failures[0].Error == "oh", true)
	testkit.NoError(t, l.ReleaseAs(ctx, 0, -7))
	info, err := q.Get(ctx, id)
	testkit.NoError(t, err)
	testkit.Equal(t, "info", fmt.Sprintf("%v %s %d %d %s %v", info.State, info.Value, info.Priority, info.MaxAttempts, info.Unique, info.Timeout), "ready a -7 3 u 1s")

	testkit.NoError(t, q.Cancel(ctx, id))
	testkit.NoError(t, q.Kick(ctx, id))
	testkit.NoError(t, q.Reprioritise(ctx, id, 9))
	testkit.NoError(t, q.Bury(ctx, id, "by hand"))
	dead, _, err := q.Page(ctx, work.Filter{State: work.Dead, Key: "k", Contains: "hand", MinAttempts: 1}, nil, 10)
	testkit.NoError(t, err)
	testkit.Equal(t, "dead jobs", len(dead) == 1 && dead[0].ID == id && dead[0].Priority == 9, true)
	stats, err := q.Stats(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "stats", stats, work.Stats{Scheduled: 1, Dead: 1})
	testkit.NoError(t, q.Delete(ctx, id))
	testkit.WantError(t, q.Delete(ctx, id), work.ErrNotFound)
	_, err = q.Get(ctx, id)
	testkit.WantError(t, err, work.ErrNotFound)

	testkit.NoError(t, q.Pause(ctx))
	testkit.WantError(t, testkit.Drop(q.ReserveN(ctx, 5)), queue.ErrEmpty)
	testkit.NoError(t, q.Resume(ctx))
	testkit.NoError(t, q.Clear(ctx))
	n, err := q.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "jobs", n, 0)
}

// A handle that is closed reserves nothing, which it could not acknowledge.
func TestClosedWork(t *testing.T) {
	ctx, q := t.Context(), newWork(t)
	_, err := q.Put(ctx, "a")
	testkit.NoError(t, err)
	testkit.NoError(t, q.Close())
	_, err = q.ReserveN(ctx, 1)
	testkit.WantError(t, err, queue.ErrClosed)
	_, err = q.ReserveWait(ctx)
	testkit.WantError(t, err, queue.ErrClosed)
	_, err = q.Put(ctx, "b")
	testkit.WantError(t, err, queue.ErrClosed)
}

// A job that does not decode, and cannot be given back either, keeps no other from its worker.
func TestUndecodable(t *testing.T) {
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	c := dial(t, url, client.Options{Transport: failless{http.DefaultTransport}, Patience: time.Nanosecond})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	texts, err := client.OpenWork(t.Context(), c, "q", queue.String())
	testkit.NoError(t, err)
	numbers, err := client.OpenWork(t.Context(), c, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	_, _, err = texts.PutAll(t.Context(), []work.New[string]{{Value: "none"}, {Value: "1"}})
	testkit.NoError(t, err)
	got, err := numbers.ReserveN(t.Context(), 2)
	testkit.NoError(t, err)
	testkit.Equal(t, "leases", len(got) == 1 && got[0].Value == 1, true)
	_, err = texts.Put(t.Context(), "none")
	testkit.NoError(t, err)
	_, err = numbers.ReserveWait(t.Context())
	testkit.WantError(t, err, errLost)
}

// failless is a network on which no job is buried.
type failless struct{ http.RoundTripper }

func (f failless) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/bury") {
		return nil, errLost
	}
	return f.RoundTripper.RoundTrip(r)
}

func TestPeriodic(t *testing.T) {
	ctx, q := t.Context(), newWork(t)
	testkit.NoError(t, q.Every(ctx, "night/ly", "0 3 * * *", "go", work.EveryOptions{MaxLate: time.Hour, Overlap: work.Skip, Job: work.Job{Unique: "u", Meta: map[string]string{"m": "v"}, Timeout: time.Minute}}))
	testkit.WantError(t, q.Every(ctx, "n", "@daily", "go", work.EveryOptions{Job: work.Job{Delay: 1}}), kv.ErrInvalid, "Delay")
	all, err := q.Periodics(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "periodic job", len(all) == 1 && all[0].Name == "night/ly" && all[0].MaxLate == time.Hour && all[0].Overlap == work.Skip && all[0].Unique == "u" && string(all[0].Payload) == "go" && all[0].Next.After(time.Now()), true)
	id, err := q.RunPeriodic(ctx, "night/ly")
	testkit.NoError(t, err)
	l, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "job", l.ID == id && l.Value == "go" && l.Meta["m"] == "v" && l.Timeout == time.Minute, true)
	_, err = q.RunPeriodic(ctx, "night/ly")
	testkit.WantError(t, err, work.ErrDuplicate)
	testkit.NoError(t, q.RemovePeriodic(ctx, "night/ly"))
	testkit.WantError(t, q.RemovePeriodic(ctx, "night/ly"), work.ErrNotFound)
	testkit.WantError(t, q.Every(ctx, "n", "no cron", "go"), kv.ErrInvalid)
}

// work.Run does jobs of a server: those that fail are tried again, and results are kept by it.
func TestRun(t *testing.T) {
	q := newWork(t)
	const n = 200
	var news []work.New[string]
	for i := range n {
		news = append(news, work.New[string]{Value: fmt.Sprint(i)})
	}
	ids, duplicates, err := q.PutAll(t.Context(), news)
	testkit.NoError(t, err)
	testkit.Equal(t, "ids", len(ids)-duplicates, n)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	tries, done := make(map[string]int), 0
	err = work.Run(ctx, q, func(ctx context.Context, l *work.Lease[string]) error {
		mu.Lock()
		defer mu.Unlock()
		if tries[l.Value]++; tries[l.Value] == 1 && len(l.Value) == 1 {
			return work.Snooze(0)
		}
		if done++; done == n {
			stop()
		}
		return nil
	}, work.RunOptions{Workers: 16, OnError: func(id work.ID, err error) { t.Errorf("job %d: %v", id, err) }})
	testkit.NoError(t, err)
	s, err := q.Stats(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "stats", s, work.Stats{})
	testkit.Equal(t, "tries", tries["1"]+tries["100"], 3)
}

// The limit of a job, or of its queue, comes with it, and Run keeps it.
func TestTimeout(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	q := newWork(t)
	testkit.NoError(t, q.Configure(ctx, work.Settings{Timeout: 50 * time.Millisecond, MaxAttempts: 1}))
	id, err := q.Put(ctx, "a")
	testkit.NoError(t, err)
	ended := make(chan work.ID, 1)
	done := make(chan error)
	go func() {
		done <- work.Run(ctx, q, func(ctx context.Context, l *work.Lease[string]) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, work.RunOptions{OnError: func(job work.ID, _ error) { ended <- job }})
	}()
	testkit.Equal(t, "job", <-ended, id)
	info, err := q.Get(ctx, id)
	testkit.NoError(t, err)
	testkit.Equal(t, "state, failure", fmt.Sprint(info.State, " ", info.Failures[0].Error), "dead timed out")
	stop()
	testkit.NoError(t, <-done)
}

// TestNoTimeout: a job of a queue with a limit may have none, put once or periodically.
func TestNoTimeout(t *testing.T) {
	ctx := t.Context()
	q := newWork(t)
	testkit.NoError(t, q.Configure(ctx, work.Settings{Timeout: time.Minute}))
	_, err := q.Put(ctx, "a", work.Job{Timeout: work.NoTimeout})
	testkit.NoError(t, err)
	testkit.NoError(t, q.Every(ctx, "p", "@daily", "b", work.EveryOptions{Job: work.Job{Timeout: work.NoTimeout}}))
	_, err = q.RunPeriodic(ctx, "p")
	testkit.NoError(t, err)
	_, err = q.Put(ctx, "c")
	testkit.NoError(t, err)
	got, err := q.ReserveWaitN(ctx, 3)
	testkit.NoError(t, err)
	for i, want := range []time.Duration{0, 0, time.Minute} {
		testkit.Equal(t, "limit of "+got[i].Value, got[i].Timeout, want)
	}
}

// A worker whose context ends while it waits holds no job.
func TestCancelledReserve(t *testing.T) {
	q := newWork(t)
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := q.ReserveWait(ctx)
		waits <- err
	}()
	cancel()
	testkit.WantError(t, <-waits, context.Canceled)
	_, err := q.Put(t.Context(), "a")
	testkit.NoError(t, err)
	l, err := q.ReserveWait(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "attempt", l.Attempt, 1)
	testkit.NoError(t, l.Ack(t.Context()))
}

// Each part of a filter arrives.
func TestFilters(t *testing.T) {
	ctx, q := t.Context(), newWork(t)
	first, err := q.Put(ctx, "a")
	testkit.NoError(t, err)
	last, err := q.Put(ctx, "b")
	testkit.NoError(t, err)
	for _, c := range []struct {
		name   string
		filter work.Filter
		want   []work.ID
	}{
		{"holder", work.Filter{Holder: "somebody"}, nil},
		{"before", work.Filter{Before: time.Now().Add(-time.Hour)}, nil},
		{"before a later time", work.Filter{Before: time.Now().Add(time.Hour)}, []work.ID{first, last}},
		{"reverse", work.Filter{Reverse: true}, []work.ID{last, first}},
	} {
		var got []work.ID
		for info, err := range q.List(ctx, c.filter) {
			testkit.NoError(t, err)
			got = append(got, info.ID)
		}
		testkit.Equal(t, c.name, fmt.Sprint(got), fmt.Sprint(c.want))
	}
}

// TestRecalled: a handler's context ends at once when its job is cancelled or deleted through the server, however long its lease is.
func TestRecalled(t *testing.T) {
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	for name, c := range map[string]struct {
		do   func(q *client.WorkQueue[string], id work.ID) error
		want error
	}{
		"cancel": {func(q *client.WorkQueue[string], id work.ID) error { return q.Cancel(t.Context(), id) }, work.ErrCancelled},
		"delete": {func(q *client.WorkQueue[string], id work.ID) error { return q.Delete(t.Context(), id) }, work.ErrLeaseLost},
		"clear":  {func(q *client.WorkQueue[string], _ work.ID) error { return q.Clear(t.Context()) }, work.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			beats := make(chan struct{}, 1000)
			var told atomic.Int64
			holds := dial(t, url, client.Options{Transport: extending{http.DefaultTransport, beats, &told}})
			t.Cleanup(http.DefaultClient.CloseIdleConnections)
			q, err := client.OpenWork(t.Context(), holds, name, queue.String(), client.WorkOptions{Lease: time.Hour})
			testkit.NoError(t, err)
			defer q.Close()
			operator, err := client.OpenWork(t.Context(), dial(t, url), name, queue.String())
			testkit.NoError(t, err)
			id, err := q.Put(t.Context(), "a")
			testkit.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var cause error
			testkit.NoError(t, work.Run(ctx, q, func(ctx context.Context, l *work.Lease[string]) error {
				<-beats // the first answer of what tells of recalls: from here on it waits for news
				testkit.NoError(t, c.do(operator, id))
				<-ctx.Done()
				cause = context.Cause(ctx)
				stop()
				return nil
			}, work.RunOptions{OnError: func(work.ID, error) {}}))
			testkit.WantError(t, cause, c.want)
			testkit.Equal(t, "heartbeats besides", len(beats), 1)
			testkit.Equal(t, "told", told.Load(), 2)
		})
	}
}

// extending is a network that tells of each heartbeat that was answered.
type extending struct {
	http.RoundTripper
	beats chan<- struct{}
	told  *atomic.Int64 // answers to who asks for recalls
}

func (e extending) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := e.RoundTripper.RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/extend") {
		e.beats <- struct{}{}
	} else if strings.HasSuffix(r.URL.Path, "/recalls") && err == nil {
		e.told.Add(1)
	}
	return answer, err
}

// Workers have names over a server: of the process, unless the program gives one. Jobs, their failures and filters have them.
func TestHolder(t *testing.T) {
	c := newClient(t)
	for given, want := range map[string]string{"": work.DefaultHolder(), "mailer 7": "mailer 7"} {
		q, err := client.OpenWork(t.Context(), c, "q "+given, queue.String(), client.WorkOptions{Holder: given})
		testkit.NoError(t, err)
		id, err := q.Put(t.Context(), "a")
		testkit.NoError(t, err)
		l, err := q.ReserveWait(t.Context())
		testkit.NoError(t, err)
		held, _, err := q.Page(t.Context(), work.Filter{State: work.Leased, Holder: want}, nil, 10)
		testkit.NoError(t, err)
		testkit.Equal(t, "held by "+want, len(held) == 1 && held[0].Holder == want, true)
		testkit.NoError(t, l.Fail(t.Context(), errors.New("oh")))
		info, err := q.Get(t.Context(), id)
		testkit.NoError(t, err)
		testkit.Equal(t, "attempt by", info.Failures[0].Holder, want)
	}
	for _, bad := range []string{strings.Repeat("x", work.MaxText+1), "\xff"} {
		_, err := client.OpenWork(t.Context(), c, "q", queue.String(), client.WorkOptions{Holder: bad})
		testkit.WantError(t, err, kv.ErrInvalid, "WorkOptions.Holder")
	}
}
