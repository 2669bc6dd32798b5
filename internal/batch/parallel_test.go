package batch_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/batch"
)

// sizes are how many calls each of the next batches has, which are under way at the same time.
func (g gated) sizes(t *testing.T, n int) (sizes []int) {
	t.Helper()
	for range n {
		synctest.Wait()
		select {
		case got := <-g.began:
			sizes = append(sizes, len(got))
		default:
			t.Fatalf("batches of %v are under way, want %d", sizes, n)
		}
	}
	return sizes
}

// goOn lets so many batches end, one after the other: how many calls the next one gets depends on those that are under way.
func (g gated) goOn(n int) {
	for range n {
		g.open <- double
		synctest.Wait()
	}
}

func ones(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = 1
	}
	return all
}

// While there is room for another batch nobody waits, and a few calls have no room for many.
func TestParallelStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{Parallel: batch.Eager(8)})
		g.startAll(t.Context(), ones(6)...)
		equal(t, "batches", g.sizes(t, 4), ones(4))
		g.idle(t)
		g.goOn(1)
		equal(t, "next batch", g.sizes(t, 1), []int{2})
		g.goOn(4)
		g.idle(t)
	})
}

// Many calls are shared out evenly to as many batches as there may be.
func TestParallelSharesOut(t *testing.T) {
	for _, c := range []struct{ parallel, calls, maxCalls, batches, size int }{
		{8, 256, 1000, 8, 32},
		{8, 256, 20, 8, 20},
		{3, 300, 1000, 3, 100},
		{8, 64, 1000, 4, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := gate(batch.Options[int, int]{Parallel: batch.Eager(c.parallel), MaxCalls: c.maxCalls})
			calls := g.startAll(t.Context(), ones(c.calls)...)
			for range g.sizes(t, c.batches) {
				g.goOn(1)
				left := slices.DeleteFunc(calls, func(c <-chan outcome) bool { return len(c) > 0 })
				calls = append(left, g.startAll(t.Context(), ones(c.calls-len(left))...)...) // in the place of those that were served
			}
			for _, size := range g.sizes(t, c.batches) {
				if size > c.size+1 || size < c.size/2 {
					t.Errorf("a batch of %d of %d calls, want %d at most", size, c.calls, c.size)
				}
			}
			g.idle(t)
			for g.goOn(c.batches); ; g.goOn(1) {
				select {
				case <-g.began:
					continue
				default:
				}
				break
			}
		})
	}
}

// A batch that panics, or a Batcher that is closed, leaves the other batches as they are.
func TestParallelEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{Parallel: batch.Eager(2)})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = g.Do(t.Context(), 1)
		}()
		synctest.Wait()
		second := g.start(t.Context(), 2)
		g.sizes(t, 2)
		late := g.start(t.Context(), 3)
		g.open <- func([]*call) { panic("broken") }
		synctest.Wait()
		equal(t, "panic", <-panicked, any("broken"))
		equal(t, "next batch", g.sizes(t, 1), []int{1})
		waits := g.start(t.Context(), 4)
		g.Close(errOther)
		returns(t, waits, 0, errOther)
		g.goOn(2)
		returns(t, second, 4, nil)
		returns(t, late, 6, nil)
		if _, err := g.Do(t.Context(), 5); !errors.Is(err, errOther) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// With more calls there are more batches at the same time, and larger ones.
func TestParallelOfMany(t *testing.T) {
	var c batch.Batcher[int, int]
	c.Init(batch.Options[int, int]{Run: func([]*batch.Call[int, int]) {}, MaxCalls: 1000, Parallel: batch.Frugal(8)})
	for all, want := range map[int][2]int{1: {1, 1}, 15: {1, 15}, 16: {2, 8}, 36: {3, 12}, 64: {4, 16}, 256: {8, 32}, 1024: {8, 128}} {
		if batches, calls := c.Shared(all); [2]int{batches, calls} != want {
			t.Errorf("%d calls are %d batches of %d; want %v", all, batches, calls, want)
		}
	}
}
