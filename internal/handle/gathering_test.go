package handle

import (
	"fmt"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// fakeConsumers is an end where nobody waits for so many looks, or ever.
type fakeConsumers struct {
	crowd   int  // how many are expected
	comes   int  // after so many looks, when the queue is empty; never if negative
	taking_ bool // items are being taken
	takes   int  // so many, at the second look

	looks, claims, taken int
}

func (h *fakeConsumers) expected(n int, handed bool) int { return h.crowd }
func (h *fakeConsumers) taking() bool                    { return h.taking_ }
func (h *fakeConsumers) level() int64 {
	if h.comes >= 0 && h.looks > h.comes {
		return 0
	}
	return int64(1000 - h.taken)
}

func (h *fakeConsumers) waiting() int {
	if h.looks == 1 {
		h.taken += h.takes
	}
	if h.looks++; h.comes < 0 || h.looks <= h.comes {
		return 0
	}
	return h.crowd
}

func (h *fakeConsumers) claim(int) *claim {
	if h.claims++; h.comes < 0 {
		return nil
	}
	return new(claim)
}

// Who adds looks once if those are there who are expected, waits for them if they come, and
// does so less and less often if they don't.
func TestGather(t *testing.T) {
	testkit.Long(t)
	const batches = 1000
	for _, c := range []struct {
		name       string
		hand       fakeConsumers
		alone      bool
		least      int // looks, in all batches
		most       int
		offered    bool
		mostWaited int // batches in which there was more than one look
	}{
		{"nobody is expected", fakeConsumers{}, false, 0, 0, false, 0},
		{"they are there", fakeConsumers{crowd: 3}, false, batches, batches, true, 0},
		{"they come", fakeConsumers{crowd: 3, comes: 5}, false, 6 * batches, 6 * batches, true, batches},
		{"they never come", fakeConsumers{crowd: 3, comes: -1}, false, batches, 1e9, false, 20},
		{"they never come, and take", fakeConsumers{crowd: 3, comes: -1, taking_: true}, false, batches, 1e9, false, batches/4 + freeVain + 1},
		{"without batches", fakeConsumers{crowd: 3, comes: 5}, true, batches, batches, true, 0},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			h := c.hand
			g := gathering{ends: []consumers{&h}, waits: !c.alone}
			looks, waited := 0, 0
			for range batches {
				h.looks = 0
				o, there := g.claim(10)
				testkit.Equal(t, "offered", o != nil, c.offered)
				testkit.Equal(t, "there", there, c.hand.crowd > 0)
				g.note(cheapWrite, o != nil, o == nil)
				if looks += h.looks; h.looks > 1 {
					waited++
				}
			}
			if looks < c.least || looks > c.most || waited > c.mostWaited {
				t.Errorf("%d looks, want %d to %d; waited %d times, want %d at most", looks, c.least, c.most, waited, c.mostWaited)
			}
		})
	}
}

// They come again after they were long away, and are waited for again.
func TestGatherAgain(t *testing.T) { inBubble(t, "", gatherAgain) }

// inBubble runs a test while the clock stands still, so that only looks count.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { testkit.Bubble(t, test) })
}

func gatherAgain(t *testing.T) {
	h := fakeConsumers{crowd: 1, comes: -1}
	g := gathering{ends: []consumers{&h}, waits: true}
	for range 1000 {
		g.claim(10)
	}
	h.comes = 2
	waited := 0
	for range 1000 {
		h.looks = 0
		if g.claim(10); h.looks > 1 {
			waited++
		}
	}
	if waited < 1000-1<<mostSkip {
		t.Errorf("waited %d times in 1000 batches", waited)
	}
}

// Those who take more than is added will be there in the end, and so are waited for. Those who
// take no more are not.
func TestGatherLess(t *testing.T) {
	const batches, n = 30, 10
	for takes, mostWaited := range map[int]int{n: batches / 2, n + 1: batches} {
		inBubble(t, fmt.Sprintf("taken: %d", takes), func(t *testing.T) {
			h := fakeConsumers{crowd: 3, comes: -1, taking_: true, takes: takes}
			g := gathering{ends: []consumers{&h}, waits: true}
			waited := 0
			for range batches {
				h.looks = 0
				if g.claim(n); h.looks > 1 {
					waited++
				}
			}
			if waited > mostWaited || mostWaited == batches && waited < batches {
				t.Errorf("waited %d times in %d batches, want %d", waited, batches, mostWaited)
			}
		})
	}
}

// Those who were served last are expected: if their items were handed to them, or while they take
// of a queue that they will soon have emptied.
func TestExpected(t *testing.T) {
	h := openTest(t, testkit.NewMemory(t, kv.Limits{}), types.KindQueue)
	const n, served = 10, 3
	front := h.ends[types.Min]
	front.served.Store(served)
	for _, c := range []struct {
		level          int64
		active, handed bool
		want           int
	}{
		{0, false, false, 0}, {0, false, true, served}, {0, true, false, served},
		{soonTaken * n, true, false, served}, {soonTaken*n + 1, true, false, 0}, {soonTaken*n + 1, true, true, served},
	} {
		front.active.Store(c.active)
		h.tally.added.Store(c.level)
		testkit.Equal(t, fmt.Sprintf("level of %d, active %v, handed %v: expected", c.level, c.active, c.handed), front.expected(n, c.handed), c.want)
		testkit.Equal(t, "level", front.level(), c.level)
	}
}

// A single item that is written in no time is not handed over; others are, and so is one of
// which that is not known.
func TestGatherCheap(t *testing.T) {
	for _, c := range []struct {
		n       int
		took    time.Duration
		offered bool
	}{{1, 0, true}, {1, cheapWrite - 1, false}, {1, cheapWrite, true}, {2, cheapWrite - 1, true}} {
		h := fakeConsumers{crowd: 1}
		g := gathering{ends: []consumers{&h}, waits: true, took: c.took}
		o, _ := g.claim(c.n)
		testkit.Equal(t, "offered", o != nil, c.offered)
	}
}

// The level is what was added and not taken since nothing was found.
func TestTally(t *testing.T) {
	var y tally
	y.added.Add(5)
	y.taken.Add(2)
	testkit.Equal(t, "level", y.level(), 3)
	y.taken.Add(9) // of others, too
	y.empty()
	testkit.Equal(t, "level", y.level(), 0)
	y.added.Add(1)
	testkit.Equal(t, "level", y.level(), 1)
}
