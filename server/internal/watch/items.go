package watch

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// Bounds of counting, which reads all keys of a queue: it takes at most one part in countShare of the time of one
// processor, and a queue is not counted again before countAfter.
const (
	countAtOnce = 5000
	countFirst  = 500 // by the sampler itself, the first time
	countShare  = 20
	countAfter  = 5 * time.Second
	countAgain  = 10 * time.Minute // also if nothing seems to have changed
	countRest   = 100              // of a queue: so many times as long as it took to count it
)

// maxTails is how many times an items remembers. When there are more, every second one is forgotten.
const maxTails = 512

// items is what a sampler knows of a queue or priority queue. Items carry no time, and nobody counts them, so both are
// inferred: how many there are from a count and what has happened since; how old the first is, in a queue, from
// where the end of the queue was at what time.
type items struct {
	span     kv.Range
	integers int // in a key: 1 is a queue, 2 a priority queue

	mu          sync.Mutex
	looked      bool
	first, last []byte // keys at the last look
	tails       []tail
	counted     int64 // at the last count
	balance     int64 // of what was added and taken, then
	at          time.Time
	next        time.Time // when it may be counted again
	changed     bool      // since it was counted
}

// tail says that the last item of a queue had an index at a time.
type tail struct {
	index  int64
	at     time.Time
	before bool // it may have had it before
}

func newItems(q *sampled) *items {
	i := &items{span: subspace.Named(q.name).Range(), integers: 1}
	if q.kind == conq.KindPriorityQueue {
		i.integers = 2
	}
	return i
}

// read looks at both ends. balance is how many more items were added than taken since the history began.
func (i *items) read(r kv.Reader, now time.Time, balance int64, c *Counts) error {
	first, err := firstKey(r, i.span)
	if err != nil {
		return err
	}
	last, err := kvext.LastKey(r.Snapshot(), i.span, i.span)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !bytes.Equal(first, i.first) || !bytes.Equal(last, i.last) || balance != i.balance {
		i.changed = true
	}
	i.first, i.last = first, bytes.Clone(last)
	if first == nil {
		i.set(0, balance, now)
		i.tails, i.looked = nil, true
		return nil
	}
	if bytes.Equal(first, last) {
		i.set(1, balance, now)
	}
	if i.at.IsZero() {
		if err := i.countSome(r, balance, now); err != nil {
			return err
		}
	}
	c.Depth = max(1, i.counted+balance-i.balance)
	c.Estimated = i.changed
	if i.integers == 1 {
		err = i.age(now, c)
	}
	i.looked = true
	return err
}

// countSome counts a queue that was never counted, if it is short.
func (i *items) countSome(r kv.Reader, balance int64, now time.Time) error {
	n := int64(0)
	for _, err := range r.Snapshot().Range(i.span, kv.RangeOptions{Limit: countFirst, KeysOnly: true}) {
		if err != nil {
			return err
		}
		n++
	}
	i.set(n, balance, now)
	if n == countFirst { // there are more
		i.counted, i.at, i.changed = max(n, balance), time.Time{}, true
	}
	return nil
}

// set notes how many items there are.
func (i *items) set(n, balance int64, now time.Time) {
	i.counted, i.balance, i.at, i.changed = n, balance, now, false
}

func firstKey(r kv.Reader, span kv.Range) ([]byte, error) {
	for item, err := range r.Snapshot().Range(span, kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		return item.Key, err
	}
	return nil, nil
}

// age infers since when the first item is there: since the end of the queue has passed its index.
func (i *items) age(now time.Time, c *Counts) error {
	head, err := i.index(i.first)
	if err != nil {
		return err
	}
	end, err := i.index(i.last)
	if err != nil {
		return err
	}
	if n := len(i.tails); n > 0 && end < i.tails[n-1].index {
		i.tails = nil // it was emptied, and began again
	}
	if n := len(i.tails); n == 0 || end > i.tails[n-1].index {
		i.tails = append(i.tails, tail{end, now, n == 0 && !i.looked})
	}
	for len(i.tails) > 1 && i.tails[0].index < head {
		i.tails = i.tails[1:]
	}
	if len(i.tails) > maxTails {
		i.tails = thinned(i.tails)
	}
	c.Oldest, c.AtLeast = i.tails[0].at, i.tails[0].before
	return nil
}

// thinned returns every second one, the first and the last included.
func thinned(all []tail) (some []tail) {
	for i, t := range all {
		if i%2 == 0 || i == len(all)-1 {
			some = append(some, t)
		}
	}
	return some
}

func (i *items) index(key []byte) (int64, error) {
	k, err := layout.Parse(key[len(i.span.Begin)-1:], i.integers)
	return k.Integers[0], err
}

// runCounts counts queues, one after the other, until ctx ends.
func (s *Sampler) runCounts(ctx context.Context) {
	for {
		rest := period
		if name, i := s.toCount(); i != nil {
			began := s.now()
			if err := s.count(ctx, name, i); err != nil && ctx.Err() == nil {
				i.rest(s.now().Add(countAgain)) // the snapshot says what is wrong
			}
			rest = s.now().Sub(began)
		}
		if !pause(ctx, rest) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// toCount returns a queue that should be counted, the one that was counted longest ago.
func (s *Sampler) toCount() (name string, i *items) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var longest time.Time
	for _, candidate := range s.order {
		if candidate.items == nil {
			continue
		}
		if at, due := candidate.items.due(now); due && (i == nil || at.Before(longest)) {
			name, i, longest = candidate.name, candidate.items, at
		}
	}
	return name, i
}

func (i *items) due(now time.Time) (at time.Time, due bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	empty := i.looked && i.first == nil
	return i.at, !empty && !now.Before(i.next) && (i.changed || now.Sub(i.at) > countAgain)
}

func (i *items) rest(until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next = until
}

// count counts the items of a queue, part by part. Items that are taken meanwhile are mostly such as were counted
// before that; when nothing happens meanwhile it is exact.
func (s *Sampler) count(ctx context.Context, name string, i *items) error {
	history := s.history.Queue(name)
	in, out := history.in.Load(), history.out.Load()
	n, worked, over := int64(0), time.Duration(0), i.span
	for more := true; more; {
		began := s.now()
		part, end, err := s.countPart(ctx, over)
		if err != nil {
			return err
		}
		took := s.now().Sub(began)
		n, worked = n+part, worked+took
		if more = part == countAtOnce; more {
			over.Begin = kv.After(end)
			if !pause(ctx, countShare*took) {
				return context.Cause(ctx)
			}
		}
	}
	i.recount(n, in, out, history, worked, s.now())
	return nil
}

// recount sets how many items there are after a count that began when so many had been added and taken.
func (i *items) recount(n, in, out int64, h *Queue, worked time.Duration, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	newIn, newOut := h.in.Load(), h.out.Load()
	i.set(n-(newOut-out), newIn-newOut, now)
	i.changed = newIn != in || newOut != out
	i.next = now.Add(max(countAfter, countRest*worked))
}

func (s *Sampler) countPart(ctx context.Context, over kv.Range) (n int64, last []byte, err error) {
	err = s.db.ReadTransact(ctx, func(r kv.Reader) error {
		n, last = 0, nil
		for item, err := range r.Snapshot().Range(over, kv.RangeOptions{Limit: countAtOnce, KeysOnly: true}) {
			if err != nil {
				return err
			}
			n, last = n+1, item.Key
		}
		return nil
	})
	return n, last, err
}
