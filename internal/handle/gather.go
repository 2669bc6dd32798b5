package handle

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// meeting has a batch of those who add meet those who take at the other ends of the handle. It
// is what each batch leaves for the next one to know, and is for one batch at a time.
//
// An item that is not handed over is written, and while somebody fetches it he does not wait
// for the next one, which has to be written then, too. So once that has begun all items would
// be written and synced, although enough callers wait for them. Therefore who adds waits a moment
// until they are back; but not if more is in the queue than they can take soon, and the less
// often, the more often it was in vain: nobody came, nor was more taken meanwhile than is added.
// With Always, 16 producers and 16 consumers move 5 times as many items as if nothing were
// handed over, 64 and 64 twice as many, and one and one 30 times as many; to hand over without
// this wait gains nothing. With Interval it is 1.3, 1.5 and 1.0 times, and through a priority
// queue 2.3, 2.7 and 1.0.
type meeting struct {
	hands  []hand
	waits  bool          // there is one batch after the other
	handed bool          // something was, by the last batch
	took   time.Duration // the last batch that was written while somebody was there, or 0
	vain   int           // how often it was, in a row
	rest   int           // how often nobody will be waited for
}

const (
	// A caller who got something is back by then, and no later than a batch takes; or else he is
	// busy with it.
	longestReturn = 80 * time.Microsecond

	// Those who take may need two syncs for what is there, one after the other, each of which
	// waits for others, too.
	longestMeeting, meetingPart = 2 * time.Millisecond, 5 // times what a batch took
	firstMeeting                = 500 * time.Microsecond

	// How many batches of the size of the next one can be taken soon: if the queue holds more,
	// nobody waits. With 4, and each wait in vain after which nobody was there, 64 producers and 64
	// consumers who once had some hundred items between them never got rid of these, and wrote all
	// that followed: with Always that was so in five of six transfers of 1,500,000 items, at 0.2 to
	// 0.45 of the rate of the sixth; with 64, in none of eight. Through a priority queue it never was.
	fewBatches = 64

	freeVain, mostRest = 2, 8 // after more waits in vain than that it skips up to 1<<mostRest - 1

	// To wake somebody for a single item takes longer than to write it, if the last write took
	// less than this, as it need not be on disk: handed over all the same, one producer and one
	// consumer moved 0.9 times as many.
	cheapWrite = 20 * time.Microsecond
)

// meet returns the offer to those who wait for so many payloads, or nil. there tells that there
// may be somebody at the other ends.
func (m *meeting) meet(n int) (o *offer, there bool) {
	if n == 1 && m.took > 0 && m.took < cheapWrite {
		return nil, false
	}
	expected := m.expected(n)
	m.handed = false
	if expected == 0 {
		return nil, false
	}
	m.gather(n, expected)
	for _, h := range m.hands {
		if o := h.hold(n); o != nil {
			return o, true
		}
	}
	return nil, true
}

// met notes what a batch took that meet was called for, and what came of it.
func (m *meeting) met(took time.Duration, handed, written bool) {
	if m.handed = handed; written {
		m.took = took
	}
}

// expected returns for how many it is worth to wait.
func (m *meeting) expected(n int) (expected int) {
	for _, h := range m.hands {
		expected = max(expected, h.expected(n, m.handed))
	}
	return min(expected, n)
}

// gather lets those who take come before n items are added. It counts as well as it looks at
// the clock, which stands still in some tests.
func (m *meeting) gather(n, expected int) {
	free := m.free()
	if free >= expected || !m.waits {
		return
	}
	if m.rest > 0 {
		m.rest--
		return
	}
	const tries = 20_000
	level := m.level()
	long, short := firstMeeting, longestReturn
	if m.took > 0 {
		long, short = min(meetingPart*m.took, longestMeeting), min(m.took, longestReturn)
	}
	began := time.Now()
	last := began // when items were being taken
	for range tries {
		runtime.Gosched()
		if free = m.free(); free >= expected {
			break
		}
		now := time.Now()
		if m.taking() {
			last = now
		}
		if now.Sub(began) > long || now.Sub(last) > short {
			break
		}
	}
	if m.vain++; free > 0 || m.level()+int64(n) < level { // if they go on like that, they will be there
		m.vain = 0
	}
	m.rest = 1<<min(max(m.vain-freeVain, 0), mostRest) - 1
}

func (m *meeting) taking() bool {
	return slices.ContainsFunc(m.hands, func(h hand) bool { return h.taking() })
}

func (m *meeting) level() (level int64) {
	for _, h := range m.hands {
		level = max(level, h.level())
	}
	return level
}

func (m *meeting) free() (free int) {
	for _, h := range m.hands {
		free = max(free, h.free())
	}
	return free
}

// tally is what a handle has added and taken since it has found nothing, or since it was
// opened. Those who add and those who take write to memory of their own.
type tally struct {
	_     [64]byte
	added atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte
}

func (t *tally) empty() { t.taken.Store(t.added.Load()) }

func (t *tally) level() int64 { return t.added.Load() - t.taken.Load() }
