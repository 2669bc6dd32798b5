package budget

import (
	"errors"
	"iter"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
)

// Tx is a transaction that counts what it does, as the strictest engine would: each write, and each read that conflicts
// of a key that it does not write.
type Tx struct {
	kv.Tx
	used *used
	most Budget // of all that was used
	last *fit
}

// fit is whether anything was found to fit.
type fit struct{ any bool }

// used is what a transaction has done.
type used struct {
	Budget
	reads map[string]int  // how often keys were read that were not written
	known map[string]bool // that were written, or added to
}

// Room is how much goes into each transaction of a handle. It is safe for concurrent use.
type Room struct {
	limits kv.Limits
	parts  atomic.Int64 // into how many the budget is divided, as an engine takes less than it says; 0 is one
}

// Init makes r, a zero Room, that of an engine.
func (r *Room) Init(l kv.Limits) { r.limits = l }

// Tx returns tx, counted from now on if the engine has limits.
func (r *Room) Tx(tx kv.Tx) kv.Tx {
	if r.limits.Operations == 0 && r.limits.Transaction == 0 {
		return tx
	}
	most := Of(r.limits)
	if r.limits.Transaction > 0 {
		most.Bytes = r.limits.Transaction - r.limits.Transaction/8 // keys are counted
	}
	u := &used{}
	if r.limits.Operations > 0 {
		u.reads, u.known = make(map[string]int), make(map[string]bool)
	}
	return &Tx{tx, u, most.Part(int(max(1, r.parts.Load()))), &fit{}}
}

// Refused tells whether a transaction that tx returned, and that has failed with err, is to be tried again, as it was
// too large: from now on transactions do less. A server may take less than its engine says.
func (r *Room) Refused(tx kv.Tx, err error) bool {
	t, ok := tx.(*Tx)
	if !ok || !t.last.any || !errors.Is(err, kv.ErrTooLarge) {
		return false
	}
	r.parts.Store(2 * max(1, r.parts.Load()))
	return true
}

// Half returns tx with half of what is left to it: so much may be done by what comes first. A transaction that does not
// count is returned as it is.
func Half(tx kv.Tx) kv.Tx {
	t, ok := tx.(*Tx)
	if !ok {
		return tx
	}
	half := t.left().Part(2)
	return &Tx{t.Tx, t.used, Budget{t.used.Operations + half.Operations, t.used.Bytes + half.Bytes}, t.last}
}

// Fits tells whether something still fits into tx that takes no more than so many operations, and bytes of keys and
// values. In a transaction that does not count everything does.
func Fits(tx kv.Tx, operations, bytes int) bool {
	t, ok := tx.(*Tx)
	if !ok {
		return true
	}
	fits := t.left().Fits(operations, bytes)
	t.last.any = t.last.any || fits
	return fits
}

// Count returns how many of n things fit into tx that take so many operations each, at least one.
func Count(tx kv.Tx, operations, n int) int {
	if t, ok := tx.(*Tx); ok {
		return t.left().Times(operations, n)
	}
	return n
}

// Wrote tells whether tx, which counts, has written anything.
func Wrote(tx kv.Tx) bool {
	t, ok := tx.(*Tx)
	return ok && t.used.Bytes > 0
}

// left is what may still be done.
func (t *Tx) left() Budget {
	return Budget{t.most.Operations - t.used.Operations, t.most.Bytes - t.used.Bytes}
}

// wrote counts a write.
func (t *Tx) wrote(operations, bytes int) { t.used.Spend(-operations, -bytes) }

// writes counts a write of a key, once, and its reads no more.
func (t *Tx) writes(key []byte, size int) {
	t.wrote(0, len(key)+size)
	if t.used.reads == nil || t.used.known[string(key)] {
		return
	}
	t.wrote(1-t.used.reads[string(key)], 0)
	delete(t.used.reads, string(key))
	t.used.known[string(key)] = true
}

// Unwrap returns the transaction that is counted.
func (t *Tx) Unwrap() kv.Tx { return t.Tx }

// Get implements kv.Tx.
func (t *Tx) Get(key []byte) ([]byte, error) {
	if t.used.reads != nil && !t.used.known[string(key)] {
		t.used.reads[string(key)]++
		t.wrote(1, 0)
	}
	return t.Tx.Get(key)
}

// Range implements kv.Tx.
func (t *Tx) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		t.wrote(1, 0)
		t.Tx.Range(r, o)(yield)
	}
}

// Set implements kv.Tx.
func (t *Tx) Set(key, value []byte) {
	t.writes(key, len(value))
	t.Tx.Set(key, value)
}

// Clear implements kv.Tx.
func (t *Tx) Clear(key []byte) {
	t.writes(key, 0)
	t.Tx.Clear(key)
}

// ClearRange implements kv.Tx.
func (t *Tx) ClearRange(r kv.Range) {
	t.wrote(1, len(r.Begin)+len(r.End))
	t.Tx.ClearRange(r)
}

// Add implements kv.Tx. Some engines read the key, too.
func (t *Tx) Add(key []byte, delta int64) {
	if t.used.known != nil && !t.used.known[string(key)] {
		t.wrote(1, 0)
	}
	t.writes(key, 8)
	t.Tx.Add(key, delta)
}

// AddReadConflict implements kv.Tx.
func (t *Tx) AddReadConflict(r kv.Range) {
	t.wrote(1, 0)
	t.Tx.AddReadConflict(r)
}

// AddWriteConflict implements kv.Tx.
func (t *Tx) AddWriteConflict(r kv.Range) {
	t.wrote(1, 0)
	t.Tx.AddWriteConflict(r)
}

// Lazily is kv.Lazily.
func (t *Tx) Lazily() { kv.Lazily(t.Tx) }

// NoSync is kv.NoSync.
func (t *Tx) NoSync() { kv.NoSync(t.Tx) }

// Prefetch is kv.Prefetch.
func (t *Tx) Prefetch(reads []kv.Read) { kv.Prefetch(t.Tx, reads...) }
