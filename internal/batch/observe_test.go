package batch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// If Observe panics, its caller is gone, and perhaps what he was about to get: but nobody else is
// left waiting, nor anybody given what is for others, and the line can be closed.
func TestObservePanics(t *testing.T) {
	for nth := 1; nth <= 16; nth++ {
		for _, hands := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { observePanics(t, nth, hands) })
		}
	}
}

func observePanics(t *testing.T, nth int, hands bool) {
	q := newQueue()
	calls := 0
	r := newWaiters(WaitOptions[int, int]{Take: q.take, Observe: func(int) { // under the lock
		if calls++; calls == nth {
			panic("observed")
		}
	}})
	calmly := func(f func()) {
		defer func() { _ = recover() }()
		f()
	}
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan []int, 100)
	wait := func(ctx context.Context) {
		go calmly(func() {
			if items, err := r.Wait(ctx, 1); err == nil {
				got <- items
			}
		})
		synctest.Wait()
	}
	wait(context.Background())
	wait(ctx)
	wait(context.Background())
	wait(context.Background())
	added := 1
	if p := r.Claim(1); hands && p != nil {
		calmly(func() { p.Deliver([][]int{{0}}, nil) })
	} else {
		q.add(0)
		if p != nil {
			calmly(func() { p.Deliver(nil, nil) })
		}
	}
	synctest.Wait()
	cancel()
	for ; added < 10; added++ {
		q.add(added)
		synctest.Wait()
	}
	for range 3 {
		wait(context.Background())
	}
	if n := r.Len(); n > 0 {
		t.Fatalf("call %d of Observe panics: %d wait, though there are %d items", nth, n, len(q.items))
	}
	n := len(q.items)
	for len(got) > 0 {
		n += len(<-got)
	}
	if n < added-1 {
		t.Errorf("call %d of Observe panics: of %d items %d are there, or with those who waited for them; want all but one", nth, added, n)
	}
	wait(context.Background())
	calmly(func() { r.Close(errors.New("closed")) })
	synctest.Wait()
	if err := r.Drained(context.Background()); err != nil || r.Len() != 0 {
		t.Errorf("call %d of Observe panics: %d wait after Close: %v", nth, r.Len(), err)
	}
}
