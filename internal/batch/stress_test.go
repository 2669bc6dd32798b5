package batch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq/internal/batch"
)

const (
	stressGoroutines = 64
	stressCalls      = 300
	stressMaxCalls   = 24
	stressMaxBytes   = 200
)

// ledger is what the batches of a stress test did.
type ledger struct {
	t        *testing.T
	parallel int
	running  atomic.Int32
	served   []int // of each request, by the leaders in turn: the Batcher orders them
	let      []int // of each request, that Run let go before it served it
}

// run serves the calls that are still wanted, some of them only at a second look.
func (l *ledger) run(calls []*call) {
	if n := int(l.running.Add(1)); n > l.parallel {
		l.t.Errorf("%d batches run at once", n)
	}
	defer l.running.Add(-1)
	if len(calls) > stressMaxCalls {
		l.t.Errorf("a batch of %d calls", len(calls))
	}
	if bytes := sum(calls); bytes > stressMaxBytes && len(calls) > 1 {
		l.t.Errorf("a batch of %d calls with %d bytes", len(calls), bytes)
	}
	runtime.Gosched()
	wanted := batch.Unended(calls)
	l.count(l.let, calls, 1)
	l.count(l.let, wanted, -1)
	for i, c := range wanted {
		l.served[c.Request]++
		c.Result = result(c.Request)
		if i%3 == 1 {
			c.Finish()
		}
	}
}

func (l *ledger) count(in []int, calls []*call, by int) {
	for _, c := range calls {
		in[c.Request] += by
	}
}

// size is from 0 to a third over the bound.
func size(q int) int { return q * 7919 % (stressMaxBytes * 4 / 3) }

func sum(calls []*call) (bytes int) {
	for _, c := range calls {
		bytes += size(c.Request)
	}
	return bytes
}

func result(q int) int { return 3*q + 1 }

// Each call is served once and gets its own result, or is not and gets the cause
// of its own context, whatever ends when.
func TestStress(t *testing.T) { stress(t, 1) }

func TestStressParallel(t *testing.T) { stress(t, 5) }

func stress(t *testing.T, parallel int) {
	const n = stressGoroutines * stressCalls
	book := &ledger{t: t, parallel: parallel, served: make([]int, n), let: make([]int, n)}
	l := batch.New(batch.Options[int, int]{
		Run: book.run, Size: size, MaxCalls: stressMaxCalls, MaxBytes: stressMaxBytes,
		Parallel: map[bool]func(int) int{true: batch.Eager(parallel)}[parallel > 1],
	})
	succeeded := make([]bool, n)
	together := new(shared)
	var wg sync.WaitGroup
	for g := range stressGoroutines {
		random := rand.New(rand.NewPCG(1, uint64(g)))
		wg.Go(func() {
			for i := range stressCalls {
				q := g*stressCalls + i
				succeeded[q] = stressCall(t, l, q, random, together)
			}
		})
	}
	wg.Wait()
	var served, left, let int
	for q := range n {
		switch {
		case book.served[q]+book.let[q] > 1:
			t.Errorf("call %d was served %d times, and let go %d times", q, book.served[q], book.let[q])
		case (book.served[q] == 1) != succeeded[q]:
			t.Errorf("call %d was served %d times, succeeded: %t", q, book.served[q], succeeded[q])
		case succeeded[q]:
			served++
		case book.let[q] == 1:
			let++
		default:
			left++
		}
	}
	equal(t, "some calls were served, and some left", served > 0 && left > 0, true)
	t.Logf("%d calls: %d served, %d left, %d let go", n, served, left, let)
}

// shared is a context that calls have together, now and then another one.
type shared struct {
	sync.Mutex
	context.Context
	cancel context.CancelCauseFunc
}

func (s *shared) get(t *testing.T, random *rand.Rand) context.Context {
	s.Lock()
	defer s.Unlock()
	if s.Context == nil || random.IntN(64) == 0 {
		if s.cancel != nil {
			s.cancel(errors.New("all of ours"))
		}
		s.Context, s.cancel = context.WithCancelCause(t.Context())
	}
	return s.Context
}

// stressCall makes a call that may be cancelled before, while, or after it runs.
func stressCall(t *testing.T, l *batch.Batcher[int, int], q int, random *rand.Rand, together *shared) (ok bool) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	switch random.IntN(12) {
	case 0:
		cancel(errors.New("mine alone"))
	case 1, 2, 3:
		steps := random.IntN(20)
		go func() {
			for range steps {
				runtime.Gosched()
			}
			cancel(errors.New("mine alone"))
		}()
	case 4, 5, 6, 7, 8, 9:
		ctx = together.get(t, random)
	}
	switch got, err := l.Do(ctx, q); {
	case err == nil && got == result(q):
		return true
	case err == nil || err != context.Cause(ctx):
		t.Errorf("call %d returned %d, %v", q, got, err)
	}
	return false
}

// A call that is requeued is served by a later batch, and not finished by the one that it was in, though that ends meanwhile.
func TestRequeuedAreServed(t *testing.T) {
	b := batch.New(batch.Options[int, int]{Run: func(calls []*call) {
		calls[0].Result = result(calls[0].Request)
		calls[0].Finish() // it leads
		batch.Live(calls[1:])
	}})
	var group sync.WaitGroup
	for q := range stressGoroutines {
		group.Go(func() {
			for range stressCalls {
				if got, err := b.Do(t.Context(), q); err != nil || got != result(q) {
					t.Errorf("call %d got %d, %v", q, got, err)
				}
			}
		})
	}
	group.Wait()
}
