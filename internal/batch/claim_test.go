package batch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/kv"
)

// handed is what a caller has got.
type handed struct {
	items []int
	err   error
	done  bool
}

// enter starts a caller that wants so many items, and waits until it waits.
func enter(ctx context.Context, r *Waiters[int, int], want int) *handed {
	h := new(handed)
	go func() {
		h.items, h.err = r.Wait(ctx, want)
		h.done = true
	}()
	synctest.Wait()
	return h
}

// Callers get what is handed to them in the order in which they came. The others wait on,
// without a look at the queue if its news is lasting; if not, with one of who leads them.
func TestHand(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			r := newWaiters(WaitOptions[int, int]{Take: q.take, Lasting: lasting, Max: 3})
			if r.Claim(100) != nil || r.Claimable() != 0 {
				t.Error("somebody is held in an empty line")
			}
			callers := []*handed{}
			for i := range 4 {
				callers = append(callers, enter(t.Context(), r, i+1))
				if n := r.Claimable(); n != min(i+1, 3) {
					t.Errorf("%d of %d are free: at most 3, as many as Take serves", n, i+1)
				}
			}
			p := r.Claim(100)
			if wants := p.Requests(); !slices.Equal(wants, []int{1, 2, 3}) {
				t.Errorf("they want %v", wants)
			}
			if r.Claim(100) != nil || r.Claimable() != 0 {
				t.Error("who is held can be held again")
			}
			p.Deliver(nil, nil)
			synctest.Wait()
			p = r.Claim(2)
			if wants := p.Requests(); !slices.Equal(wants, []int{1, 2}) {
				t.Errorf("for 2 items those are held who want %v", wants)
			}
			before := q.takes
			p.Deliver([][]int{{10}, {20, 21}}, nil)
			synctest.Wait()
			for i, want := range [][]int{{10}, {20, 21}, nil, nil} {
				if got := callers[i]; got.err != nil || got.done != (want != nil) || !slices.Equal(got.items, want) {
					t.Errorf("caller %d: %+v, want %v", i, *got, want)
				}
			}
			later := enter(t.Context(), r, 1)
			if looks := q.takes - before; looks != map[bool]int{false: 1, true: 0}[lasting] {
				t.Errorf("lasting news %v: %d looks at the queue without news", lasting, looks)
			}
			q.add(30, 40, 50)
			synctest.Wait()
			q.add(60)
			synctest.Wait()
			for _, h := range append(callers[2:], later) {
				if h.done != (len(h.items) > 0) || h.err != nil {
					t.Errorf("%+v", *h)
				}
			}
			if got := slices.Concat(callers[2].items, callers[3].items); !slices.Equal(got, []int{30, 40, 50, 60}) {
				t.Errorf("got %v", got)
			}
			r.Close(errGivenUp)
			synctest.Wait()
			if !errors.Is(later.err, errGivenUp) || r.Len() != 0 {
				t.Errorf("closed, and %d wait: %v", r.Len(), later.err)
			}
		})
	}
}

// Who gives up, or whose line is closed, while somebody has items for him, gets these,
// or leaves when it turns out that there are none for him. Others are not kept.
func TestLeavingWhileHeld(t *testing.T) {
	for leaver := range 3 {
		for dealt := range 4 {
			for _, closed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					q := newQueue()
					r := newWaiters(WaitOptions[int, int]{Take: q.take, Lasting: true})
					ctx, cancel := context.WithCancelCause(t.Context())
					callers := []*handed{}
					for i := range 3 {
						c := t.Context()
						if i == leaver {
							c = ctx
						}
						callers = append(callers, enter(c, r, 1))
					}
					p := r.Claim(100)
					p.Requests()
					cancel(errGivenUp)
					if closed {
						r.Close(errGivenUp)
					}
					synctest.Wait()
					if callers[leaver].done {
						t.Fatal("who is held has left")
					}
					p.Deliver([][]int{{0}, {1}, {2}}[:dealt], nil)
					synctest.Wait()
					for i, h := range callers {
						switch leaves := closed || i == leaver; {
						case i < dealt:
							if h.err != nil || !slices.Equal(h.items, []int{i}) {
								t.Errorf("caller %d of %d who were dealt to, %d leaves: %+v", i, dealt, leaver, *h)
							}
						case h.done != leaves || leaves && !errors.Is(h.err, errGivenUp):
							t.Errorf("caller %d gets nothing, %d leaves: %+v", i, leaver, *h)
						}
					}
					r.Close(errGivenUp)
					synctest.Wait()
					if r.Len() != 0 {
						t.Errorf("%d wait in a closed line", r.Len())
					}
				})
			}
		}
	}
}

// News is lasting only if there was nothing: who comes later looks for what others have left.
func TestLastingNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		r := newWaiters(WaitOptions[int, int]{Take: q.take, Lasting: true})
		q.add(1, 2)
		for i := range 2 {
			if h := enter(t.Context(), r, 1); !slices.Equal(h.items, []int{i + 1}) {
				t.Errorf("caller %d: %+v", i, *h)
			}
		}
		q.fail = errGivenUp
		if h := enter(t.Context(), r, 1); !errors.Is(h.err, errGivenUp) {
			t.Errorf("%+v", *h)
		}
		waits := enter(t.Context(), r, 1)
		q.add(3)
		synctest.Wait()
		if !slices.Equal(waits.items, []int{3}) {
			t.Errorf("%+v", *waits)
		}
	})
}

// Who has just been told to lead is held at once, and gives up before it has seen either: it
// gets what it is dealt.
func TestLeadHeldAndLeaving(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			r := newWaiters(WaitOptions[int, int]{Take: newQueue().take, Lasting: true})
			enter(t.Context(), r, 1)
			ctx, cancel := context.WithCancel(t.Context())
			h := enter(ctx, r, 1)
			p := r.Claim(100)
			cancel()
			p.Deliver([][]int{{1}}, nil)
			p = r.Claim(100)
			synctest.Wait()
			if p == nil { // it has left before
				if !errors.Is(h.err, context.Canceled) {
					t.Errorf("%+v", *h)
				}
				return
			}
			left := h.done
			p.Deliver([][]int{{2}}, nil)
			synctest.Wait()
			if left || h.err != nil || !slices.Equal(h.items, []int{2}) {
				t.Fatalf("left while it was held: %v; %+v", left, *h)
			}
		})
	}
}

// Nobody is held while items are taken for him, and no items are taken for whom somebody holds.
func TestHoldOrTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		r := newWaiters(WaitOptions[int, int]{Take: q.take, Lasting: true})
		a := enter(t.Context(), r, 1)
		p := r.Claim(100)
		looks := q.takes
		q.add(1)
		synctest.Wait()
		if q.takes != looks || a.done {
			t.Error("items are taken for somebody who is held")
		}
		q.gate = make(chan struct{})
		p.Deliver(nil, nil)
		synctest.Wait()
		if r.Claim(100) != nil || r.Claimable() != 0 {
			t.Error("somebody is held for whom items are taken")
		}
		close(q.gate)
		synctest.Wait()
		if !slices.Equal(a.items, []int{1}) {
			t.Errorf("%+v", *a)
		}
	})
}

// Who was served takes no more for those who wait on, even if it does not know yet.
func TestServedLeader(t *testing.T) {
	q := newQueue()
	r := newWaiters(WaitOptions[int, int]{Take: q.take})
	calls := []*Call[int, []int]{}
	for range 2 {
		c := &Call[int, []int]{Context: t.Context(), Request: 1, wake: make(chan struct{}, 1)}
		r.batches.enter(c)
		calls = append(calls, c)
	}
	r.Claim(1).Deliver([][]int{{1}}, nil)
	if r.batches.form(calls[0]) != nil {
		t.Error("who has left leads those who wait on")
	}
	if all := r.batches.form(calls[1]); len(all) != 1 {
		t.Errorf("the next one does not lead: %v", all)
	}
}

// An error after which items may be lost is that of all who were held.
func TestLostWhileHeld(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			r := newWaiters(WaitOptions[int, int]{Take: q.take, Max: 2})
			a, b, c := enter(t.Context(), r, 1), enter(t.Context(), r, 1), enter(t.Context(), r, 1)
			p := r.Claim(100)
			p.Requests()
			failed := map[bool]error{false: errGivenUp, true: kv.ErrCommitUnknown}[lost]
			p.Deliver(nil, failed)
			synctest.Wait()
			for i, h := range []*handed{a, b} {
				if h.done != lost || lost && !errors.Is(h.err, failed) {
					t.Errorf("lost %v: caller %d: %+v", lost, i, *h)
				}
			}
			if c.done {
				t.Errorf("who was not held: %+v", *c)
			}
			r.Close(errGivenUp)
			synctest.Wait()
		})
	}
}

// Callers come and leave at random, while items are put in the queue, or handed to some of
// them: each item goes to one caller.
func TestNothingHandedIsLost(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		const callers, producers, items = 16, 4, 2000
		q := newQueue()
		r := newWaiters(WaitOptions[int, int]{Take: q.take, Lasting: lasting, Max: 5})
		var mu sync.Mutex
		seen := map[int]int{}
		ctx, stop := context.WithCancel(t.Context())
		var consumers, adders sync.WaitGroup
		for c := range callers {
			consumers.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(c)))
				for ctx.Err() == nil {
					ctx, cancel := context.WithCancel(ctx)
					if rng.IntN(3) == 0 {
						go cancel()
					}
					got, err := r.Wait(ctx, 1+rng.IntN(3))
					cancel()
					if (err == nil) == (len(got) == 0) {
						t.Errorf("got %v and %v", got, err)
					}
					mu.Lock()
					for _, item := range got {
						seen[item]++
					}
					mu.Unlock()
				}
			})
		}
		for a := range producers {
			adders.Go(func() {
				rng := rand.New(rand.NewPCG(2, uint64(a)))
				for i := range items / producers {
					item := a*items/producers + i
					if p := r.Claim(100); p == nil {
						q.add(item)
					} else if len(p.Requests()) == 0 || rng.IntN(4) == 0 {
						p.Deliver(nil, nil)
						q.add(item)
					} else {
						p.Deliver([][]int{{item}}, nil)
					}
				}
			})
		}
		adders.Wait()
		stop()
		consumers.Wait()
		for _, item := range q.items {
			seen[item]++
		}
		for i := range items {
			if seen[i] != 1 {
				t.Errorf("lasting %v: item %d went to %d callers", lasting, i, seen[i])
			}
		}
		if r.Len() != 0 {
			t.Errorf("%d wait and there is nobody", r.Len())
		}
	}
}
