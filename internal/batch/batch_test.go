package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/batch"
)

type call = batch.Call[int, int]

var (
	errMine  = errors.New("my own reason")
	errOther = errors.New("closed for another reason")
)

// gated is a Batcher whose Run tells which requests it got, and waits to be let on.
type gated struct {
	*batch.Batcher[int, int]
	began chan []int
	open  chan func([]*call) // what Run does then
}

// gate returns one where a request's size is the request.
func gate(o batch.Options[int, int]) gated {
	g := gated{began: make(chan []int), open: make(chan func([]*call))}
	o.Size = func(q int) int { return q }
	o.Run = func(calls []*call) {
		g.began <- requests(calls)
		(<-g.open)(calls)
	}
	g.Batcher = batch.New(o)
	return g
}

func requests(calls []*call) []int {
	got := make([]int, len(calls))
	for i, c := range calls {
		got[i] = c.Request
	}
	return got
}

// double is what serving a batch is in these tests.
func double(calls []*call) {
	for _, c := range calls {
		c.Result = 2 * c.Request
	}
}

type outcome struct {
	result int
	err    error
}

// start calls Do in another goroutine, and returns when that is blocked, or over.
func (g gated) start(ctx context.Context, request int) <-chan outcome {
	returned := make(chan outcome, 1)
	go func() {
		r, err := g.Do(ctx, request)
		returned <- outcome{r, err}
	}()
	synctest.Wait()
	return returned
}

// startAll starts calls one after the other.
func (g gated) startAll(ctx context.Context, requests ...int) (all []<-chan outcome) {
	for _, q := range requests {
		all = append(all, g.start(ctx, q))
	}
	return all
}

// batch waits for a Run, checks what it got, and lets it do what it should.
func (g gated) batch(t *testing.T, then func([]*call), want ...int) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-g.began:
		equal(t, "batch", got, want)
	default:
		t.Fatalf("no batch runs, want %v", want)
	}
	g.open <- then
	synctest.Wait()
}

// idle checks that no batch runs.
func (g gated) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-g.began:
		t.Fatalf("batch %v runs, want none", got)
	default:
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// returns checks that a call has returned, and what.
func returns(t *testing.T, c <-chan outcome, result int, err error) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got.result != result || !errors.Is(got.err, err) {
			t.Fatalf("got %d, %v, want %d, %v", got.result, got.err, result, err)
		}
	default:
		t.Fatalf("the call has not returned, want %d, %v", result, err)
	}
}

func pending(t *testing.T, calls ...<-chan outcome) {
	t.Helper()
	synctest.Wait()
	for i, c := range calls {
		select {
		case got := <-c:
			t.Fatalf("call %d has returned %d, %v", i, got.result, got.err)
		default:
		}
	}
}

func goroutine() string {
	stack := make([]byte, 64)
	id, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), " [")
	return id
}

// A lone call is served at once, alone, in its caller's own goroutine.
func TestLone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, ran := time.Now(), ""
		l := batch.New(batch.Options[int, int]{Run: func(calls []*call) {
			ran = goroutine()
			double(calls)
		}})
		for i := range 3 {
			r, err := l.Do(t.Context(), i)
			equal(t, "result", outcome{r, err}, outcome{2 * i, nil})
			equal(t, "goroutine", ran, goroutine())
		}
		equal(t, "time that passed", time.Since(begin), 0)
	})
}

// What comes while a batch runs is the next batch, in order of arrival.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{})
		first := g.start(t.Context(), 1)
		second := g.startAll(t.Context(), 4, 2, 3)
		pending(t, append(second, first)...)
		g.batch(t, double, 1)
		returns(t, first, 2, nil)
		third := g.startAll(t.Context(), 6, 5)
		pending(t, append(second, third...)...)
		g.batch(t, double, 4, 2, 3)
		for i, want := range []int{8, 4, 6} {
			returns(t, second[i], want, nil)
		}
		g.batch(t, double, 6, 5)
		returns(t, third[0], 12, nil)
		returns(t, third[1], 10, nil)
		g.idle(t)
		again := g.start(t.Context(), 7)
		g.batch(t, double, 7)
		returns(t, again, 14, nil)
	})
}

// Calls that Run requeues are in the next batch, before those that came since, and in their
// order; or get the error of a Batcher that was closed.
func TestRequeue(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := gate(batch.Options[int, int]{})
			g.start(t.Context(), 1)
			calls := g.startAll(t.Context(), 4, 2, 3, 5)
			g.batch(t, double, 1)
			late := g.start(t.Context(), 0)
			if closes {
				g.Close(errOther)
			}
			g.batch(t, func(calls []*call) {
				double(calls[:2])
				calls[0].Finish()
				batch.Live(calls[2:])
			}, 4, 2, 3, 5)
			returns(t, calls[0], 8, nil)
			returns(t, calls[1], 4, nil)
			if closes {
				for _, c := range append(calls[2:], late) {
					returns(t, c, 0, errOther)
				}
				return
			}
			pending(t, append(calls[2:], late)...)
			g.batch(t, double, 3, 5, 0)
			returns(t, calls[2], 6, nil)
			returns(t, calls[3], 10, nil)
			returns(t, late, 0, nil)
			g.idle(t)
		})
	}
}

// A call that does not fit into two batches, as one before it was requeued, is in the third.
func TestRequeueBeforeLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{MaxBytes: 10})
		g.start(t.Context(), 1)
		calls := g.startAll(t.Context(), 4, 5, 9)
		g.batch(t, double, 1)
		g.batch(t, func(calls []*call) {
			double(calls[:1])
			calls[0].Finish()
			batch.Live(calls[1:])
		}, 4, 5)
		g.batch(t, double, 5)
		pending(t, calls[2])
		g.batch(t, double, 9)
		for i, want := range []int{8, 10, 18} {
			returns(t, calls[i], want, nil)
		}
		g.idle(t)
	})
}

// A batch is run by the caller of its first call, who returns when it is over,
// with others waiting.
func TestLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		leaders, callers := map[int]string{}, map[int]string{}
		gate := make(chan bool)
		l := batch.New(batch.Options[int, int]{MaxCalls: 2, Run: func(calls []*call) {
			mu.Lock()
			leaders[calls[0].Request] = goroutine()
			mu.Unlock()
			<-gate
		}})
		returned := make(chan int, 5)
		for i := range 5 {
			go func() {
				mu.Lock()
				callers[i] = goroutine()
				mu.Unlock()
				_, err := l.Do(t.Context(), i)
				equal(t, "error", err, nil)
				returned <- i
			}()
			synctest.Wait()
		}
		for _, want := range [][]int{{0}, {1, 2}, {3, 4}} {
			gate <- true
			synctest.Wait()
			got := []int{}
			for range len(returned) {
				got = append(got, <-returned)
			}
			slices.Sort(got)
			equal(t, "returned", got, want)
		}
		equal(t, "leaders", leaders, map[int]string{0: callers[0], 1: callers[1], 3: callers[3]})
	})
}

// Batches keep to the bounds, and nothing overtakes what does not fit.
func TestBounds(t *testing.T) {
	const large = math.MaxInt
	for _, c := range []struct {
		name         string
		calls, bytes int
		requests     []int
		batches      [][]int
	}{
		{"calls", 3, 100, []int{1, 1, 1, 1, 1, 1, 1}, [][]int{{1, 1, 1}, {1, 1, 1}, {1}}},
		{"bytes", 100, 10, []int{5, 5, 1, 9, 1}, [][]int{{5, 5}, {1, 9}, {1}}},
		{"no overtaking", 100, 10, []int{5, 6, 5, 1}, [][]int{{5}, {6}, {5, 1}}},
		{"too large", 100, 10, []int{0, 11, 0, 0}, [][]int{{0}, {11}, {0, 0}}},
		{"huge", 100, 10, []int{large, large, 1}, [][]int{{large}, {large}, {1}}},
		{"less than nothing", 100, 10, []int{-7, 10, -1, 1}, [][]int{{-7, 10, -1}, {1}}},
		{"one byte", 100, 1, []int{1, 1}, [][]int{{1}, {1}}},
		{"one by one", 1, 10, []int{1, 2}, [][]int{{1}, {2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gate(batch.Options[int, int]{MaxCalls: c.calls, MaxBytes: c.bytes})
				g.start(t.Context(), 3)
				calls := g.startAll(t.Context(), c.requests...)
				g.batch(t, double, 3)
				for _, want := range c.batches {
					g.batch(t, double, want...)
				}
				g.idle(t)
				for i, q := range c.requests {
					returns(t, calls[i], 2*q, nil)
				}
			})
		})
	}
}

// Without bounds in the options, there are some.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ n, size, batch int }{
			{1001, 0, 1000},
			{5, 1 << 18, 4},
		} {
			g := gate(batch.Options[int, int]{MaxCalls: -1, MaxBytes: -1})
			g.start(t.Context(), 0)
			g.startAll(t.Context(), slices.Repeat([]int{c.size}, c.n)...)
			g.batch(t, double, 0)
			g.batch(t, double, slices.Repeat([]int{c.size}, c.batch)...)
			g.batch(t, double, c.size)
		}
	})
}

// What can't work is an error, before anything runs.
func TestBadInput(t *testing.T) {
	_, err := new(batch.Batcher[int, int]).Do(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), "Run is nil") {
		t.Errorf("without Run: %v", err)
	}
	l := batch.New(batch.Options[int, int]{Run: func([]*call) { t.Error("it ran") }})
	var none context.Context
	if _, err := l.Do(none, 1); err == nil || !strings.Contains(err.Error(), "ctx is nil") {
		t.Errorf("without context: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errMine)
	if _, err := l.Do(ctx, 1); !errors.Is(err, errMine) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
