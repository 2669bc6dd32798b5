package handle

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// gathering lets callers that take come before a batch is added, so that its items can be handed
// to them. It is what each batch leaves for the next one to know, and is for one batch at a time.
//
// An item that is not handed over is written, and its consumer, while it fetches that one, does
// not wait for the next, which has to be written then, too. So once that has begun all items would
// be written and synced, although there are consumers enough. Therefore a batch waits a moment
// until they are back; but not if the queue holds more than they can take soon, and the less
// often, the more often it waited in vain. With Always, 16 producers and 16 consumers move 5 times
// as many items as without hand-over, one and one 30 times as many; without this wait, hand-over
// gains nothing.
type gathering struct {
	ends   []consumers
	waits  bool          // there is one batch after the other
	handed bool          // the last batch was handed over, in part
	took   time.Duration // the last batch that was written while consumers were there, or 0
	vain   int           // so many batches in a row have waited in vain
	skip   int           // so many batches will not wait
}

const (
	// A consumer that got something is back by then, and no later than a batch takes; or else
	// it is busy with it.
	longestReturn = 80 * time.Microsecond

	// Consumers may need two syncs for what is there, one after the other, each of which waits
	// for others, too.
	longestGather, gatherPart = 2 * time.Millisecond, 5 // times what a batch took
	firstGather               = 500 * time.Microsecond

	// How many batches of the size of the next one can be taken soon: if the queue holds more,
	// no batch waits. With 4, 64 producers and 64 consumers that once had some hundred items
	// between them never got rid of these, and wrote all that followed.
	fewBatches = 64

	// After more than freeVain waits in vain, up to 1<<mostSkip - 1 batches don't wait, or
	// 1<<mostSkipTaking - 1 while items are being taken.
	freeVain, mostSkip, mostSkipTaking = 2, 8, 2

	// To wake a consumer for a single item takes longer than to write it, if the last write took
	// less than this, as it need not be on disk.
	cheapWrite = 20 * time.Microsecond
)

// offer returns the offer of n items to callers that wait, or nil. there tells that there may be
// consumers.
func (g *gathering) offer(n int) (o *offer, there bool) {
	if n == 1 && g.took > 0 && g.took < cheapWrite {
		return nil, false
	}
	expected := g.expected(n)
	g.handed = false
	if expected == 0 {
		return nil, false
	}
	g.gather(n, expected)
	for _, c := range g.ends {
		if o := c.hold(n); o != nil {
			return o, true
		}
	}
	return nil, true
}

// note notes what a batch took that offer was called for, and what came of it.
func (g *gathering) note(took time.Duration, handed, written bool) {
	if g.handed = handed; written {
		g.took = took
	}
}

// expected returns for how many it is worth to wait.
func (g *gathering) expected(n int) (expected int) {
	for _, c := range g.ends {
		expected = max(expected, c.expected(n, g.handed))
	}
	return min(expected, n)
}

// gather lets consumers come before n items are added. It counts as well as it looks at
// the clock, which stands still in some tests.
func (g *gathering) gather(n, expected int) {
	free := g.free()
	if g.enough(free, expected) || !g.waits {
		return
	}
	if g.skip > 0 {
		g.skip--
		return
	}
	const tries = 20_000
	level := g.level()
	long, short := firstGather, longestReturn
	if g.took > 0 {
		long, short = min(gatherPart*g.took, longestGather), min(g.took, longestReturn)
	}
	began := time.Now()
	last := began // when items were being taken
	for range tries {
		runtime.Gosched()
		if free = g.free(); g.enough(free, expected) {
			break
		}
		now := time.Now()
		if g.taking() {
			last = now
		}
		if now.Sub(began) > long || now.Sub(last) > short {
			break
		}
	}
	if g.vain++; free > 0 || g.level()+int64(n) < level { // if they go on like that, they will be there
		g.vain = 0
	}
	most := mostSkip
	if g.taking() { // a take that is being synced is over soon
		most = mostSkipTaking
	}
	g.skip = 1<<min(max(g.vain-freeVain, 0), most) - 1
}

// enough tells whether as many consumers wait as are expected, and not for what the queue holds.
func (g *gathering) enough(free, expected int) bool { return free >= expected && g.level() <= 0 }

func (g *gathering) taking() bool {
	return slices.ContainsFunc(g.ends, func(c consumers) bool { return c.taking() })
}

func (g *gathering) level() (level int64) {
	for _, c := range g.ends {
		level = max(level, c.level())
	}
	return level
}

func (g *gathering) free() (free int) {
	for _, c := range g.ends {
		free = max(free, c.free())
	}
	return free
}

// tally is what a handle has added and taken since it has found nothing, or since it was
// opened. Callers that add and callers that take write to memory of their own.
type tally struct {
	_     [64]byte
	added atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte
}

func (t *tally) empty() { t.taken.Store(t.added.Load()) }

func (t *tally) level() int64 { return t.added.Load() - t.taken.Load() }
