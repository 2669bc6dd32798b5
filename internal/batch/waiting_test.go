package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
)

// attempts is a Take of several attempts: before each it asks who is still there,
// and waits to be told whether to go on or to take.
type attempts struct {
	queue *queue
	wants [][]int
	go_   chan bool // false: another attempt
}

func (a *attempts) take(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
	for {
		wants := p.Requests()
		a.wants = append(a.wants, wants)
		if wants == nil {
			return nil, nil, errors.New("the leader has gone")
		}
		if <-a.go_ {
			return a.queue.take(ctx, p)
		}
	}
}

// A caller whose context ends while items are taken leaves at the next attempt, and
// the others get them; if it leads, another one takes them.
func TestLeaveBetweenAttempts(t *testing.T) {
	for which := range 4 {
		t.Run(fmt.Sprint(which), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attempts{queue: newQueue(), go_: make(chan bool)}
				r := newWaiters(WaitOptions[int, int]{Take: a.take})
				got := make([][]int, 4)
				errs := make([]error, 4)
				done := make([]bool, 4)
				var cancels []context.CancelCauseFunc
				for i := range got {
					ctx, cancel := context.WithCancelCause(context.Background())
					cancels = append(cancels, cancel)
					go func() {
						got[i], errs[i] = r.Wait(ctx, 1+i)
						done[i] = true
					}()
					synctest.Wait()
				}
				a.go_ <- true // the leader finds nothing
				synctest.Wait()
				a.queue.add(slices.Repeat([]int{7}, 10)...)
				synctest.Wait() // it takes for all, now
				cancels[which](errGivenUp)
				synctest.Wait()
				if done[which] {
					t.Fatal("it has left in the middle of an attempt")
				}
				a.go_ <- false
				synctest.Wait()
				if !done[which] || !errors.Is(errs[which], errGivenUp) {
					t.Fatalf("at the next attempt: has returned %v, %v", done[which], errs[which])
				}
				a.go_ <- true
				synctest.Wait()
				for i := range got {
					if i != which && (len(got[i]) != 1+i || errs[i] != nil) {
						t.Errorf("caller %d got %v, %v", i, got[i], errs[i])
					}
					cancels[i](nil)
				}
				if r.Len() != 0 {
					t.Errorf("%d still wait", r.Len())
				}
			})
		})
	}
}

// Close has all leave, from whoever leads to who comes later, and loses nothing
// that is being taken.
func TestClose(t *testing.T) {
	for _, taking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			var left atomic.Int32
			r := newWaiters(WaitOptions[int, int]{Take: q.take, Left: func(int64) { left.Add(1) }})
			const callers = 100
			var all []chan error
			for range callers {
				all = append(all, wait(context.Background(), r))
			}
			if taking {
				q.gate = make(chan struct{})
				q.add(1, 2)
				synctest.Wait()
			}
			closed := errors.New("closed")
			r.Close(closed)
			r.Close(errors.New("closed again"))
			if taking {
				close(q.gate)
			}
			synctest.Wait()
			served := 0
			for i, c := range all {
				switch err := <-c; {
				case err == nil && i < 2 && taking:
					served++
				case !errors.Is(err, closed):
					t.Errorf("caller %d got %v", i, err)
				}
			}
			if taking != (served == 2) || len(q.items) > 0 {
				t.Errorf("%d were served, %v are left", served, q.items)
			}
			if r.Len() != 0 || left.Load() == 0 { // some may have left together
				t.Errorf("%d still wait, and the last has left %d times", r.Len(), left.Load())
			}
			testkit.Check(t, r.Drained(context.Background()))
			if err := <-wait(context.Background(), r); !errors.Is(err, closed) {
				t.Errorf("who comes later gets %v", err)
			}
		})
	}
}

// A closed line is drained when the last one has left, and not before. Who waits for that may
// give up.
func TestDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.gate = make(chan struct{})
		r := newWaiters(WaitOptions[int, int]{Take: q.take})
		last := wait(context.Background(), r) // in Take
		r.Close(errors.New("closed"))
		ctx, cancel := context.WithCancelCause(context.Background())
		drained := make(chan error, 1)
		go func() { drained <- r.Drained(ctx) }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("drained, and one waits")
		}
		cancel(errGivenUp)
		if err := <-drained; !errors.Is(err, errGivenUp) {
			t.Errorf("who gives up gets %v", err)
		}
		close(q.gate)
		<-last
		testkit.Check(t, r.Drained(context.Background()))
	})
}

// Observe is told when somebody comes or leaves, also in the middle of a Take.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{queue: newQueue(), go_: make(chan bool)}
		var told []int
		r := newWaiters(WaitOptions[int, int]{Take: a.take, Observe: func(n int) { told = append(told, n) }})
		ctx, cancel := context.WithCancel(context.Background())
		first, second := wait(context.Background(), r), wait(ctx, r)
		a.go_ <- true // nothing is there
		synctest.Wait()
		a.queue.add(1)
		synctest.Wait() // it is taken, for both
		cancel()
		synctest.Wait()
		a.go_ <- false // another attempt
		<-second
		synctest.Wait()
		if told = slices.Compact(told); !slices.Equal(told, []int{1, 2, 1}) || r.Len() != 1 {
			t.Errorf("told %v, and %d wait", told, r.Len())
		}
		a.go_ <- true
		<-first
		if told = slices.Compact(told); !slices.Equal(told, []int{1, 2, 1, 0}) {
			t.Errorf("told %v", told)
		}
	})
}

// A Take that finds nothing, and has no news to wait for, is an error: nobody would look again.
func TestNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWaiters(WaitOptions[int, int]{Take: func(context.Context, *Waiting[int, int]) ([][]int, <-chan error, error) { return nil, nil, nil }})
		if err := <-wait(context.Background(), r); err == nil || !strings.Contains(err.Error(), "no watch") {
			t.Errorf("error %v", err)
		}
	})
}

// Next tells when the first of those came who still have to wait, and Left is called
// when there is none.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var clock int64
		var next []string
		left := 0
		r := newWaiters(WaitOptions[int, int]{
			Max:   3,
			Stamp: func() int64 { clock += 10; return clock },
			Left: func(stamp int64) {
				if left++; stamp != clock {
					t.Errorf("the last one has left at %d, want %d", stamp, clock)
				}
			},
			Take: func(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
				got, news, err := q.take(ctx, p)
				stamp, ok := p.Next(len(got))
				next = append(next, fmt.Sprint(len(got), ": ", stamp, " ", ok))
				return got, news, err
			},
		})
		ctx, cancel := context.WithCancel(context.Background())
		wait(ctx, r)
		for range 4 {
			wait(context.Background(), r)
		}
		q.add(1, 2)
		synctest.Wait()
		q.add(3)
		synctest.Wait()
		if left != 0 {
			t.Error("nobody had left with an error")
		}
		last := wait(ctx, r) // behind two
		q.add(4, 5)
		synctest.Wait()
		cancel()
		<-last
		want := []string{"0: 10 true", "2: 30 true", "0: 30 true", "1: 40 true", "0: 40 true", "2: 60 true", "0: 60 true"}
		if !slices.Equal(next, want) {
			t.Errorf("got %q, want %q", next, want)
		}
		if left != 1 {
			t.Errorf("the last one has left %d times", left)
		}
	})
}

// A leader who does not come back from Take, as that has panicked or ended its goroutine, is not
// waited for: the next one leads, and nobody is left after all have gone.
func TestTakeNeverReturns(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("in Take") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				var ended atomic.Bool
				r := newWaiters(WaitOptions[int, int]{Take: func(ctx context.Context, p *Waiting[int, int]) ([][]int, <-chan error, error) {
					if ended.CompareAndSwap(false, true) {
						end()
					}
					return q.take(ctx, p)
				}})
				go func() {
					defer func() { _ = recover() }()
					_, _ = r.Wait(context.Background(), 1)
				}()
				synctest.Wait()
				q.add(1)
				if got, err := r.Wait(context.Background(), 1); err != nil || !slices.Equal(got, []int{1}) {
					t.Errorf("the next one got %v, %v", got, err)
				}
				r.Close(errors.New("closed"))
				if err := r.Drained(context.Background()); err != nil || r.Len() != 0 {
					t.Errorf("%d wait after Close: %v", r.Len(), err)
				}
			})
		})
	}
}

// Left is called by the last one, also if he has got items: who left before that, while these were
// taken, could not tell.
func TestLeftWithItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.gate = make(chan struct{})
		var stamp, left int64
		r := newWaiters(WaitOptions[int, int]{
			Take: q.take, Left: func(at int64) { left = at },
			Stamp: func() int64 { stamp++; return stamp },
		})
		q.add(1)
		got := make(chan []int, 1)
		go func() { items, _ := r.Wait(context.Background(), 1); got <- items }()
		synctest.Wait() // it is in Take
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() { _, err := r.Wait(ctx, 1); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || left != 0 {
			t.Fatalf("the second one left with %v, and Left was called: %d", err, left)
		}
		close(q.gate)
		if items := <-got; len(items) != 1 || left <= 2 {
			t.Errorf("the first one got %v, and Left was called with %d", items, left)
		}
	})
}
