package client_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

// bad is a network on which some requests, and some answers, get lost.
type bad struct {
	http.RoundTripper
	mu   sync.Mutex
	rand *rand.Rand
	lost int
}

var errLost = errors.New("the network is bad")

func (b *bad) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return b.RoundTripper.RoundTrip(r)
	}
	b.mu.Lock()
	dice := b.rand.IntN(4)
	if dice < 2 {
		b.lost++
	}
	b.mu.Unlock()
	switch dice {
	case 0:
		return nil, &net.OpError{Op: "dial", Err: errLost}
	case 1:
		answer, err := b.RoundTripper.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		answer.Body.Close()
		return nil, errLost
	}
	return b.RoundTripper.RoundTrip(r)
}

// What is added on a bad network is there once, whoever shares a request with whom.
func TestNothingTwice(t *testing.T) {
	ctx := t.Context()
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	network := &bad{RoundTripper: transport, rand: rand.New(rand.NewPCG(5, 6))}
	c, err := client.Dial(ctx, url, client.Options{Transport: network})
	testkit.NoError(t, err)
	q, err := client.OpenQueue(ctx, c, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	jobs, err := client.OpenWork(ctx, c, "w", queue.JSON[int]())
	testkit.NoError(t, err)
	const n, callers = 40, 8
	var ids sync.Map
	testkit.Together(callers, func(k int) {
		for i := range n / callers {
			testkit.Check(t, q.Enqueue(ctx, k*100+i))
			id, err := jobs.Put(ctx, k*100+i)
			testkit.Check(t, err)
			ids.Store(id, k*100+i)
		}
	})
	got := testkit.List(t, q.All(ctx))
	slices.Sort(got)
	testkit.Equal(t, "items", len(got), n)
	testkit.Equal(t, "different items", len(slices.Compact(got)), n)
	found := 0
	for id, v := range ids.Range {
		info, err := jobs.Get(ctx, id.(workID))
		testkit.NoError(t, err)
		testkit.Equal(t, "job's value", info.Value, v.(int))
		found++
	}
	testkit.Equal(t, "jobs", found, n)
	s, err := jobs.Stats(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "ready jobs", s.Ready, n)
	if network.lost == 0 {
		t.Error("nothing got lost")
	}
}

// A dequeue whose answer gets lost says so.
func TestLostAnswer(t *testing.T) {
	ctx := t.Context()
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	plain := dial(t, url)
	q, err := client.OpenQueue(ctx, plain, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	all := make([]int, 100)
	testkit.NoError(t, q.EnqueueAll(ctx, all))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.Dial(ctx, url, client.Options{Transport: &bad{RoundTripper: transport, rand: rand.New(rand.NewPCG(7, 8))}})
	testkit.NoError(t, err)
	lossy, err := client.OpenQueue(ctx, c, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	taken, unknown := 0, 0
	for taken+unknown < len(all) {
		switch _, err := lossy.Dequeue(ctx); {
		case errors.Is(err, kv.ErrCommitUnknown) && errors.Is(err, errLost):
			unknown++
		default:
			testkit.NoError(t, err)
			taken++
		}
	}
	if unknown == 0 {
		t.Error("no answer got lost")
	}
	n, err := q.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "items left", n, 0)
}

// Calls that wait go on when the server is started again.
func TestWaitSurvivesRestart(t *testing.T) {
	ctx, db := t.Context(), testkit.NewMemory(t, kv.Limits{})
	url, stop := serve(t, db, "127.0.0.1:0", server.Options{})
	q, err := client.OpenQueue(ctx, dial(t, url, client.Options{Patience: time.Millisecond}), "q", queue.String())
	testkit.NoError(t, err)
	got := make(chan string, 3)
	for range cap(got) {
		go func() {
			v, err := q.DequeueWait(ctx)
			testkit.Check(t, err)
			got <- v
		}()
	}
	testkit.NoError(t, q.Enqueue(ctx, "before"))
	testkit.Equal(t, "first", <-got, "before")
	stop()
	if q.Enqueue(ctx, "down") == nil {
		t.Error("a server that is down has taken an item")
	}
	_, stop = serve(t, db, strings.TrimPrefix(url, "http://"), server.Options{})
	defer stop()
	for _, v := range []string{"after", "restart"} {
		testkit.NoError(t, q.Enqueue(ctx, v))
	}
	all := []string{<-got, <-got}
	slices.Sort(all)
	testkit.EqualSlices(t, "others", all, []string{"after", "restart"})
}

// A bad value of one caller is not for others to suffer.
func TestOneBadCall(t *testing.T) {
	ctx := t.Context()
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{Transaction: 20_000}), "127.0.0.1:0", server.Options{})
	c := dial(t, url)
	q, err := client.OpenQueue(ctx, c, "q", queue.Bytes())
	testkit.NoError(t, err)
	var mu sync.Mutex
	refused := 0
	testkit.Together(30, func(i int) {
		size := 10
		if i%10 == 0 {
			size = 15_000
		}
		err := q.Enqueue(ctx, make([]byte, size))
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, kv.ErrTooLarge) && size > 10 {
			refused++
		} else {
			testkit.Check(t, err)
		}
	})
	testkit.Equal(t, "refused", refused, 3)
	n, err := q.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", n, 27)

	jobs, err := client.OpenWork(ctx, c, "jobs", queue.Bytes())
	testkit.NoError(t, err)
	testkit.Together(30, func(i int) { // refused before it is sent
		if i%10 == 0 {
			_, err := jobs.Put(ctx, nil, work.Job{Key: "\xff"})
			testkit.Equal(t, "refused", errors.Is(err, kv.ErrInvalid), true)
		} else {
			_, err := jobs.Put(ctx, nil)
			testkit.Check(t, err)
		}
	})
	n, err = jobs.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "jobs", n, 27)
}

// Requests go to any of several servers of one store.
func TestSeveralServers(t *testing.T) {
	ctx, db := t.Context(), testkit.NewMemory(t, kv.Limits{})
	first, stop := serve(t, db, "127.0.0.1:0", server.Options{})
	second, _ := serve(t, db, "127.0.0.1:0", server.Options{})
	q, err := client.OpenQueue(ctx, dial(t, first+","+strings.TrimPrefix(second, "http://")), "q", queue.JSON[int]())
	testkit.NoError(t, err)
	for i := range 20 {
		if i == 10 {
			stop()
		}
		testkit.NoError(t, q.Enqueue(ctx, i))
	}
	n, err := q.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", n, 20)
}
