package memory

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/tidwall/btree"
)

// tx is the state of one attempt of a transaction.
type tx struct {
	db    *DB
	ctx   context.Context
	ended bool

	// Set at the first read, so that it sees all that was committed before.
	data    *tree // nil until then
	version uint64
	began   time.Time

	reads    []*span // the read conflict ranges
	writes   []op    // in order
	size     int     // bytes written
	bad      error   // for the commit, from a method that returns none
	watches  []*watch
	onCommit []func()
}

// Signals implements kvext.Local: they are the store's.
func (t *tx) Signals() *kvext.Signals { return t.db.Signals() }

// op is one write.
type op struct {
	span                // outside of it apply changes nothing
	apply   func(*tree) // does it; nil for a write conflict alone
	decides bool        // what it leaves does not depend on what was there
}

func (w op) applyTo(data *tree) {
	if w.apply != nil {
		w.apply(data)
	}
}

// span is a kv.Range with both bounds given.
type span struct{ begin, end string }

func newSpan(r kv.Range) (span, error) {
	r, err := r.Bounds()
	return span{string(r.Begin), string(r.End)}, err
}

func keySpan(key string) span { return span{key, key + "\x00"} }

func (s span) contains(key string) bool { return s.begin <= key && key < s.end }

func (s span) overlaps(o span) bool { return max(s.begin, o.begin) < min(s.end, o.end) }

// keysIn returns the keys of m in s.
func keysIn[V any](m *btree.Map[string, V], s span) []string {
	var keys []string
	m.Ascend(s.begin, func(key string, _ V) bool {
		if key < s.end {
			keys = append(keys, key)
		}
		return key < s.end
	})
	return keys
}

// err returns the error of a transaction that can't go on.
func (t *tx) err() error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	switch {
	case t.ended || t.db.closed:
		return kv.ErrClosed
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case t.old():
		return kv.ErrTooOld
	}
	return nil
}

func (t *tx) old() bool {
	return t.data != nil && t.db.now().Sub(t.began) > t.db.limits.Age
}

// read makes t ready to be read from.
func (t *tx) read() error {
	if t.data == nil && !t.ended {
		t.begin()
		for _, w := range t.writes {
			w.applyTo(t.data)
		}
	}
	return t.err() // after begin, as Close may have come between
}

// begin gives t its version and its copy of the store.
func (t *tx) begin() {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.version, t.data, t.began = t.db.version, t.db.data.Copy(), t.db.now()
	t.db.open[t.version]++
}

// end makes t unusable and lets go of what it holds.
func (t *tx) end() {
	t.ended = true
	for _, w := range t.watches {
		w.tell(kv.ErrConflict)
	}
	if t.data != nil {
		t.db.release(t)
	}
}

// refused keeps err, from a method that can't return it, for the commit, and
// tells whether the method must not go on.
func (t *tx) refused(err error) bool {
	if t.bad == nil {
		t.bad = err
	}
	return err != nil || t.ended
}

// write adds a write of so many bytes.
func (t *tx) write(w op, size int) {
	if t.data != nil {
		w.applyTo(t.data)
	}
	t.writes = append(t.writes, w)
	t.size += size
}

// decides tells whether t itself has determined the value of key.
func (t *tx) decides(key string) bool {
	return slices.ContainsFunc(t.writes, func(w op) bool { return w.decides && w.contains(key) })
}

// operations counts writes and read conflicts as kv.Limits does.
func (t *tx) operations() int {
	n := len(t.reads) + len(t.writes)
	if t.db.limits.Operations == 0 {
		return n
	}
	written := make(map[span]bool)
	for _, w := range t.writes {
		if w.apply == nil || w.span != keySpan(w.begin) {
			continue
		}
		if written[w.span] {
			n--
		}
		written[w.span] = true
	}
	for _, r := range t.reads {
		if written[*r] {
			n--
		}
	}
	return n
}

// conflict adds a read conflict range, which its owner may change later.
func (t *tx) conflict(s span) *span {
	t.reads = append(t.reads, &s)
	return &s
}

// reader reads through t, with or without read conflicts.
type reader struct {
	*tx
	snapshot bool
}

// handle is the kv.Tx of a transaction.
type handle struct{ reader }

func (r reader) Context() context.Context { return r.ctx }

func (r reader) Snapshot() kv.Reader { return reader{r.tx, true} }

func (r reader) Get(key []byte) ([]byte, error) {
	if err := r.read(); err != nil {
		return nil, err
	}
	if err := r.db.limits.CheckKey(key); err != nil {
		return nil, err
	}
	k := string(key)
	if !r.snapshot && !r.decides(k) {
		r.conflict(keySpan(k))
	}
	if value, ok := r.data.Get(k); ok {
		return []byte(value), nil
	}
	return nil, nil
}

func (r reader) Range(rng kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	s, invalid := newSpan(rng)
	if opts.Limit < 0 {
		invalid = fmt.Errorf("%w: limit %d is negative", kv.ErrInvalid, opts.Limit)
	}
	return func(yield func(kv.KeyValue, error) bool) {
		err := cmp.Or(r.read(), invalid)
		if err == nil {
			err = r.scan(s, opts, func(pair kv.KeyValue) bool { return yield(pair, nil) })
		}
		if err != nil {
			yield(kv.KeyValue{}, err)
		}
	}
}

// scan calls yield for the pairs of s until it returns false. It reads a copy,
// so that what yield writes does not disturb it, and lets the conflict range
// grow with each pair, as a caller that uses iter.Pull may never come back.
func (r reader) scan(s span, opts kv.RangeOptions, yield func(kv.KeyValue) bool) error {
	covered := new(span)
	if !r.snapshot {
		covered = r.conflict(span{})
	}
	var err error
	left, n := false, 0
	visit := func(key, value string) bool {
		if !s.contains(key) {
			return key == s.end && opts.Reverse // which begins there
		}
		if err = r.err(); err != nil {
			return false
		}
		if *covered = (span{s.begin, key + "\x00"}); opts.Reverse {
			*covered = span{key, s.end}
		}
		n++
		left = !yield(kv.KeyValue{Key: []byte(key), Value: []byte(value)}) || n == opts.Limit
		return !left
	}
	if data := r.data.Copy(); opts.Reverse {
		data.Descend(s.end, visit)
	} else {
		data.Ascend(s.begin, visit)
	}
	if !left && err == nil {
		*covered = s
	}
	return err
}

func (h handle) Set(key, value []byte) {
	if h.refused(h.db.limits.CheckSet(key, value)) {
		return
	}
	k, v := string(key), string(value)
	h.write(op{keySpan(k), func(data *tree) { data.Set(k, v) }, true}, len(k)+len(v))
}

func (h handle) Clear(key []byte) {
	if h.refused(h.db.limits.CheckKey(key)) {
		return
	}
	k := string(key)
	h.write(op{keySpan(k), func(data *tree) { data.Delete(k) }, true}, len(k))
}

func (h handle) ClearRange(r kv.Range) {
	s, err := newSpan(r)
	if h.refused(err) {
		return
	}
	h.write(op{s, func(data *tree) {
		for _, key := range keysIn(data, s) {
			data.Delete(key)
		}
	}, true}, len(r.Begin)+len(r.End))
}

func (h handle) Add(key []byte, delta int64) {
	if h.refused(h.db.limits.CheckKey(key)) {
		return
	}
	k := string(key)
	h.write(op{keySpan(k), func(data *tree) {
		var sum [8]byte
		old, _ := data.Get(k)
		copy(sum[:], old)
		binary.LittleEndian.PutUint64(sum[:], binary.LittleEndian.Uint64(sum[:])+uint64(delta))
		data.Set(k, string(sum[:]))
	}, false}, len(k)+8)
}

func (h handle) AddReadConflict(r kv.Range) {
	s, err := newSpan(r)
	if h.refused(cmp.Or(err, h.read())) {
		return
	}
	h.conflict(s)
}

func (h handle) AddWriteConflict(r kv.Range) {
	s, err := newSpan(r)
	if h.refused(err) {
		return
	}
	h.write(op{s, nil, false}, 0)
}

func (h handle) OnCommit(f func()) {
	if f != nil {
		h.onCommit = append(h.onCommit, f)
	}
}
