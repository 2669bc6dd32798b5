package layout

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// Entry is the entry of a queue in the catalogue, for transactions that add to the queue. It never changes, and may be
// used concurrently.
type Entry struct {
	name  string
	kind  queue.Kind
	value []byte   // what it should be
	key   kv.Range // of it alone
	far   bool     // the store is asked over a network

	// Where one process has the store, its deletions suspend these signals. So the entry is there if it was in the epoch that is
	// known, and is the same now: then it need not be read. Zero is none.
	signals *kvext.Signals
	known   atomic.Int64

	missed atomic.Bool // it was missing when a transaction looked last that had no earlier attempt whose outcome is unknown
}

// NewEntry returns that of a queue.
func NewEntry(db kv.DB, name string, kind queue.Kind) *Entry {
	limits := db.Limits()
	return &Entry{
		name: name, kind: kind, value: entryValue(kind), key: kv.KeyRange(EntryKey(name)),
		far: limits.Shared || limits.UnknownCommits, signals: kvext.SignalsOf(db),
	}
}

// Prefetch has Enlist's read asked for with the next one, which has to come before Enlist.
func (e *Entry) Prefetch(tx kv.Tx) {
	if e.far {
		kv.Prefetch(tx.Snapshot(), kv.Read{Key: e.key.Begin})
	}
}

// Check returns a queue.ErrKind if the name is another queue's by now. It conflicts with deletion alone.
func (e *Entry) Check(r kv.Reader) error {
	value, err := e.read(r)
	if err != nil || value == nil || bytes.Equal(value, e.value) {
		return err
	}
	if err = e.refuse(value); errors.Is(err, queue.ErrDeleting) {
		return nil
	}
	return err
}

// refuse returns why nothing can be added to the queue that has another entry.
func (e *Entry) refuse(value []byte) error {
	info, err := ParseEntry(kv.KeyValue{Key: e.key.Begin, Value: value})
	if err != nil {
		return err
	}
	return info.check(e.kind)
}

// Enlist makes sure that the catalogue has the queue once tx has committed: it may have been deleted since its handle was opened. So
// each transaction that adds to a queue calls it. It conflicts with deletion alone.
//
// The error is a queue.ErrKind if the name is another queue's by now, a queue.ErrDeleting while it is being deleted, or a
// kv.ErrCommitUnknown if the queue was deleted while it was unknown whether an earlier attempt has committed: what tells that is
// deleted, too.
func (e *Entry) Enlist(tx kv.Tx) error {
	if e.signals == nil {
		return e.enlist(tx)
	}
	tx.AddReadConflict(e.key) // so that the version of tx is before the epoch
	epoch := e.signals.Epoch()
	if epoch != 0 && epoch == e.known.Load() {
		return nil
	}
	err := e.enlist(tx)
	if err == nil {
		tx.OnCommit(func() { e.known.Store(epoch) })
	}
	return err
}

func (e *Entry) enlist(tx kv.Tx) error {
	value, err := e.read(tx)
	if err != nil {
		return err
	}
	unsettled := kv.Unsettled(tx)
	if !unsettled {
		e.missed.Store(value == nil)
	}
	switch {
	case bytes.Equal(value, e.value):
		return nil
	case value != nil:
		return e.refuse(value)
	case unsettled && !e.missed.Load():
		return fmt.Errorf("%w: queue %q was deleted meanwhile", kv.ErrCommitUnknown, e.name)
	}
	Enter(tx, e.name, e.kind)
	return nil
}

// read returns the stored entry, with a conflict. Where one process has the store that is by a range read, as the engine keeps what
// that has found in memory.
func (e *Entry) read(r kv.Reader) ([]byte, error) {
	if e.far {
		return r.Get(e.key.Begin)
	}
	for pair, err := range r.Range(e.key, kv.RangeOptions{Limit: 1}) {
		return pair.Value, err
	}
	return nil, nil
}

// MarkDeleting has the entry say that the queue is being deleted: nothing is added any more.
func MarkDeleting(tx kv.Tx, info Info) {
	tx.Set(EntryKey(info.Name), tuple.AppendInt(entryValue(info.Kind), 1))
}

func entryValue(kind queue.Kind) []byte {
	return tuple.AppendInt(tuple.AppendString(nil, string(kind)), QueueFormat)
}
