package handle

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
)

// What is added while the queue is empty and callers of the same handle wait for items is handed to them, in the transaction
// that adds it. It is as if they had taken it just after it was added. So it is never written, nor does a call wait for the
// disk. That is elimination, as in Shavit and Touitou's trees. No caller of another handle may wait, as it may have come
// before.

// consumers are the callers that take at one end of a queue.
type consumers interface {
	// expected returns how many may wait here in a moment, or 0 if it is not worth while to let them come before n items are
	// added. handed tells that the last batch was handed over.
	expected(n int, handed bool) int
	// taking tells whether items are being taken.
	taking() bool
	// level returns how many items there are to take, as far as the handle knows.
	level() int64
	// waiting returns how many wait to whom items could be handed at this moment.
	waiting() int
	// claim keeps up to n callers that wait until deliver, or returns nil if no items may be handed to any.
	claim(n int) *claim
}

// gathering lets consumers come before a batch is added, so that its items can be handed to them. It is what each batch
// leaves for the next one to know, and is for one batch at a time.
//
// An item that is not handed over is written. Its consumer fetches it, and does not wait for the next item meanwhile, so that
// one has to be written, too. Once that has begun, all items would be written and synced, although there are consumers
// enough. Therefore a batch waits a moment until they are back. It does not wait if the queue holds more than they can take
// soon, and it waits the less often, the more often it has waited in vain. With Always, 16 producers and 16
// consumers move 5 times as many items as without hand-over, and one and one 30 times as many; without this wait, hand-over
// gains nothing.
type gathering struct {
	ends   []consumers
	waits  bool          // one batch runs after the other
	handed bool          // the last batch was handed over, in part
	took   time.Duration // the last batch that was written while consumers were there, or 0
	vain   int           // so many batches in a row have waited in vain
	skip   int           // so many batches will not wait
}

const (
	// A batch waits for so many times what the last one took: consumers may need two syncs, each of which waits for
	// others, too. In between it waits for batch.ForCallers since items were last being taken.
	gatherTimes = 5

	// So many batches of the size of the next one can be taken soon. If the queue holds more, no batch waits. With 4,
	// 64 producers and 64 consumers that once had some hundred items between them never got rid of these, and wrote
	// all that followed.
	soonTaken = 64

	// After more than freeVain waits in vain, up to 1<<mostSkip - 1 batches don't wait, or 1<<mostSkipTaking - 1 while items
	// are being taken.
	freeVain, mostSkip, mostSkipTaking = 2, 8, 2

	// To wake a consumer for a single item takes longer than to write it, if the last write took less than this, as it
	// need not be on disk.
	cheapWrite = 20 * time.Microsecond
)

// claim returns waiters to whom n items can be handed, or nil. there tells that there may be consumers.
func (g *gathering) claim(n int) (c *claim, there bool) {
	if n == 1 && g.took > 0 && g.took < cheapWrite {
		return nil, false
	}
	expected := g.expected(n)
	g.handed = false
	if expected == 0 {
		return nil, false
	}
	g.gather(n, expected)
	for _, end := range g.ends {
		if c := end.claim(n); c != nil {
			return c, true
		}
	}
	return nil, true
}

// note notes what a batch took that claim was called for, and what came of it.
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

// gather lets consumers come before n items are added.
func (g *gathering) gather(n, expected int) {
	waiting := g.waiting()
	if g.isEnough(waiting, expected) || !g.waits {
		return
	}
	if g.skip > 0 {
		g.skip--
		return
	}
	level := g.level()
	long, short := batch.ForSync, batch.ForCallers // before any batch was written
	if g.took > 0 {
		long, short = min(gatherTimes*g.took, batch.ForHandOver), min(g.took, batch.ForCallers)
	}
	taken := time.Now() // when items were last being taken
	batch.Gather(long, func() bool {
		if waiting = g.waiting(); g.isEnough(waiting, expected) {
			return true
		}
		now := time.Now()
		if g.taking() {
			taken = now
		}
		return now.Sub(taken) > short
	})
	if g.vain++; waiting > 0 || g.level()+int64(n) < level { // if they go on like that, they will be there
		g.vain = 0
	}
	most := mostSkip
	if g.taking() { // a take that is being synced is over soon
		most = mostSkipTaking
	}
	g.skip = 1<<min(max(g.vain-freeVain, 0), most) - 1
}

// isEnough tells whether as many consumers wait as are expected, and not for what the queue holds.
func (g *gathering) isEnough(waiting, expected int) bool {
	return waiting >= expected && g.level() <= 0
}

func (g *gathering) taking() bool {
	return slices.ContainsFunc(g.ends, func(c consumers) bool { return c.taking() })
}

func (g *gathering) level() (level int64) {
	for _, c := range g.ends {
		level = max(level, c.level())
	}
	return level
}

func (g *gathering) waiting() (waiting int) {
	for _, c := range g.ends {
		waiting = max(waiting, c.waiting())
	}
	return waiting
}

// tally is what a handle has added and taken since it has found nothing, or since it was opened. Callers that add and callers
// that take write to memory of their own.
type tally struct {
	_     [64]byte
	added atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte
}

func (t *tally) empty() { t.taken.Store(t.added.Load()) }

func (t *tally) level() int64 { return t.added.Load() - t.taken.Load() }

func (t *taker) expected(n int, handed bool) int {
	waiting := t.waiters.Len()
	switch {
	case t.q.signals == nil: // other processes may share the store
		return 0
	case waiting == 0 && !handed && !(t.active.Load() && t.level() <= int64(soonTaken*n)):
		return 0
	}
	return max(waiting, int(t.served.Load()))
}

func (t *taker) taking() bool { return t.active.Load() }

func (t *taker) level() int64 { return t.q.tally.level() }

func (t *taker) waiting() int { return t.waiters.Claimable() }

func (t *taker) claim(n int) *claim {
	if t.q.signals.Others(t.q.name, t) {
		return nil
	}
	w := t.waiters.Claim(n)
	if w == nil {
		return nil
	}
	return &claim{taker: t, waiting: w}
}

// claim is callers that wait at an end, and are about to get items.
type claim struct {
	*taker
	waiting *waiting // nil once they were told
	got     [][]Item
}

// give decides what they get of items, and returns the rest, in its order.
func (c *claim) give(tx kv.Tx, items []Item) (rest []Item, err error) {
	wants := c.waiting.Requests()
	empty, err := c.q.isEmpty(tx)
	if err != nil || !empty || len(wants) == 0 {
		c.deliver(err) // so that they can take items
		return items, err
	}
	b := c.q.limit(sum(wants), ofTaken)
	order := asTaken(c.side, items)
	s := &splitter{q: c.q, copies: true}
	for _, i := range order {
		s.items = append(s.items, items[i])
	}
	s.items = s.items[:b.affordPayloads(s.items)]
	results, err := s.split(wants, false)
	if err != nil {
		return nil, err
	}
	c.got, _ = gotten(results) // the error is of a caller that got nothing: its items are added
	return without(items, order[:s.taken]), nil
}

// without returns the items that are not at some indices.
func without(items []Item, at []int) []Item {
	gone := make([]bool, len(items))
	for _, i := range at {
		gone[i] = true
	}
	rest := make([]Item, 0, len(items)-len(at))
	for i, item := range items {
		if !gone[i] {
			rest = append(rest, item)
		}
	}
	return rest
}

// deliver gives them what give has decided, unless err is the error of the transaction. It counts once.
func (c *claim) deliver(err error) {
	if c.waiting == nil {
		return
	}
	if len(c.got) == 0 {
		err = nil // it does not concern them
	} else if err != nil {
		c.got = nil
	}
	waiting := c.waiting
	c.waiting = nil
	defer waiting.Deliver(c.got, err) // also if the observer panics
	n := 0
	for _, items := range c.got {
		n += len(items)
	}
	if n > 0 {
		c.served.Store(int32(len(c.got)))
		c.q.observe(Event{Kind: Taken, Calls: len(c.got), Items: n, Attempts: 1})
	}
}

// isEmpty tells whether there are no items, which is then what tx depends on.
func (q *queue) isEmpty(tx kv.Tx) (bool, error) {
	_, found, err := q.first(tx.Snapshot(), staging.Front)
	if err != nil || found {
		return false, err
	}
	tx.AddReadConflict(q.space.Items)
	return true, nil
}

// first returns the first item of a side.
func (q *queue) first(r kv.Reader, side staging.Side) (item Item, found bool, err error) {
	items, err := q.firstItems(r, side, &limit{items: 1})
	if err != nil || len(items) == 0 {
		return item, false, err
	}
	return items[0], true, nil
}
