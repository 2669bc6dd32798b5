package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// New returns an empty line.
func newWaiters[V any](o WaitOptions[int, V]) *Waiters[int, V] {
	r := new(Waiters[int, V])
	r.Init(o)
	return r
}

// queue is what is waited for: numbers, and a channel that is closed when one is
// added.
type queue struct {
	mu    sync.Mutex
	items []int
	news  chan error
	takes int
	fail  error
	gate  chan struct{} // if not nil, Take waits for it
}

func newQueue() *queue { return &queue{news: make(chan error)} }

func (q *queue) add(items ...int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
	close(q.news)
	q.news = make(chan error)
}

func (q *queue) take(_ context.Context, p *Waiting[int, int]) (got [][]int, news <-chan error, err error) {
	wants := p.Requests()
	if q.gate != nil {
		<-q.gate
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes++
	if err := q.fail; err != nil {
		q.fail = nil
		return nil, nil, err
	}
	for _, want := range wants {
		if len(q.items) == 0 {
			break
		}
		n := min(want, len(q.items))
		got = append(got, q.items[:n:n])
		q.items = q.items[n:]
	}
	return got, q.news, nil
}

func TestOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		r := newWaiters(WaitOptions[int, int]{Take: q.take})
		got := make([][]int, 64)
		for i := range got {
			go func() { got[i], _ = r.Wait(context.Background(), 1+i%2) }()
			synctest.Wait()
		}
		if r.Len() != len(got) {
			t.Fatalf("%d wait, want %d", r.Len(), len(got))
		}
		for i := 1; i <= 96; i++ { // a trickle
			if q.add(i); i%7 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		all := slices.Concat(got...)
		if !slices.IsSorted(all) || slices.Contains(all, 0) {
			t.Errorf("items went to callers out of the order of their arrival: %v", got)
		}
		for i := range got {
			if len(got[i]) == 0 {
				t.Errorf("caller %d got nothing", i)
			}
		}
	})
}

var errGivenUp = errors.New("given up")

// wait starts a caller and waits until it waits.
func wait(ctx context.Context, r *Waiters[int, int]) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.Wait(ctx, 1)
		done <- err
	}()
	synctest.Wait()
	return done
}

// Take's context lives as long as anybody whom it takes for: the leader alone does
// not end it.
func TestContextOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first, cancelFirst := context.WithCancelCause(context.Background())
		second, cancelSecond := context.WithCancelCause(context.Background())
		var of context.Context
		r := newWaiters(WaitOptions[int, int]{Take: func(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
			if len(p.calls) < 2 {
				return q.take(ctx, p)
			}
			of = ctx
			<-ctx.Done()
			return nil, nil, context.Cause(ctx)
		}})
		leader := wait(first, r)
		other := wait(second, r)
		q.add() // nothing, but the leader looks
		synctest.Wait()
		cancelFirst(errors.New("first"))
		synctest.Wait()
		if of.Err() != nil {
			t.Error("the leader's context has ended what it does for the other one")
		}
		cancelSecond(errGivenUp)
		if err := <-leader; err == nil || err.Error() != "first" {
			t.Errorf("the leader got %v, want the cause of its own context", err)
		}
		if err := <-other; !errors.Is(err, errGivenUp) {
			t.Errorf("the other got %v, want the cause of its own context", err)
		}
		if context.Cause(of) != errGivenUp || r.Len() != 0 {
			t.Errorf("Take's context ended with %v, and %d wait", context.Cause(of), r.Len())
		}
	})
}

// The context ends, too, before Take is called again: so do watches.
func TestContextOfNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var all []context.Context
		r := newWaiters(WaitOptions[int, int]{Take: func(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
			for _, before := range all {
				if before.Err() == nil {
					t.Error("the context of an earlier call goes on")
				}
			}
			all = append(all, ctx)
			return q.take(ctx, p)
		}})
		done := wait(context.Background(), r)
		for range 3 {
			if last := all[len(all)-1]; last.Err() != nil {
				t.Error("the context has ended while its news is waited for")
			}
			q.add()
			synctest.Wait()
		}
		q.add(1)
		if err := <-done; err != nil || len(all) != 5 {
			t.Errorf("%v after %d calls of Take, want 5", err, len(all))
		}
	})
}

// An error after which anybody's items may be gone is everybody's who has got
// nothing; another one is the leader's.
func TestLost(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			fails, failed := false, map[bool]error{false: errGivenUp, true: kv.ErrCommitUnknown}[lost]
			r := newWaiters(WaitOptions[int, int]{
				Take: func(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
					if fails {
						fails = false
						return [][]int{{7}}, nil, failed
					}
					return q.take(ctx, p)
				},
			})
			first, second := wait(context.Background(), r), wait(context.Background(), r)
			fails = true
			q.add()
			if err := <-first; err != nil {
				t.Errorf("who got an item got %v", err)
			}
			synctest.Wait()
			if got := len(second) == 1; got != lost {
				t.Fatalf("lost %v: the other has returned: %v", lost, got)
			}
			q.add(1)
			if err := <-second; errors.Is(err, failed) != lost {
				t.Errorf("lost %v: the other got %v", lost, err)
			}
		})
	}
}

// Who gives up softly gets what is being taken at that moment, unless it takes too long, or there is no point in it any more.
func TestSoftly(t *testing.T) {
	for _, end := range []string{"taken", "late", "hard"} {
		synctest.Test(t, func(t *testing.T) {
			takes := make(chan struct{})
			r := newWaiters(WaitOptions[int, int]{Take: func(ctx context.Context, _ *Waiting[int, int]) ([][]int, <-chan error, error) {
				select {
				case <-takes:
					return [][]int{{7}}, nil, nil
				case <-ctx.Done():
					return nil, nil, context.Cause(ctx)
				}
			}})
			soft, giveUp := context.WithCancelCause(t.Context())
			hard, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			var got []int
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, err = r.Wait(Softly(soft, hard, time.Minute), 1)
			}()
			synctest.Wait()
			began, gone, stopped := time.Now(), errors.New("gone"), errors.New("stopped")
			giveUp(gone)
			time.Sleep(30 * time.Second)
			switch end {
			case "taken":
				close(takes)
			case "hard":
				stop(stopped)
			}
			<-done
			switch {
			case end == "taken" && (len(got) != 1 || err != nil):
				t.Errorf("taken: %v, %v", got, err)
			case end != "taken" && !errors.Is(err, gone):
				t.Errorf("%s: %v, %v", end, got, err)
			}
			if took := time.Since(began); (end == "late") != (took == time.Minute) {
				t.Errorf("%s: it took %v", end, took)
			}
		})
	}
}
