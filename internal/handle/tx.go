package handle

import (
	"fmt"
	"iter"

	types "github.com/conq-go/conq/queue"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
)

// Tx is a handle within a transaction of the caller. Its methods see what that has done before, and
// take effect when it commits. It is as valid as the transaction, and not safe for concurrent use.
type Tx struct {
	h  *Handle
	tx kv.Tx
}

// Ready returns the error that each of the methods would return, or nil.
func (t Tx) Ready() error {
	if err := t.h.Ready(); err != nil {
		return err
	}
	switch {
	case t.tx == nil:
		return errNoTx
	case kvext.Foreign(t.h.db, t.tx):
		return fmt.Errorf("conq: queue %q: In was given a transaction of another store: %w", t.h.name, kv.ErrInvalid)
	}
	return nil
}

// Add adds items: Payload and Priority.
func (t Tx) Add(items ...Item) error {
	if err := t.Ready(); err != nil || len(items) == 0 {
		return err
	}
	if err := t.h.checkSizes(items); err != nil {
		return err
	}
	err := t.h.add(t.tx, items)
	if err == nil {
		t.observe(Added, len(items))
	}
	return err
}

// observe tells the observer, once the transaction has committed.
func (t Tx) observe(kind EventKind, items int) {
	if t.h.observer != nil {
		t.tx.OnCommit(func() { t.h.observe(Event{Kind: kind, Calls: 1, Items: items}) })
	}
}

// Take removes up to n items from an end, or there is an ErrEmpty. It conflicts with what
// changes the items up to the last one that it takes; when it took all there were and that are
// fewer than n, or none, with any that is added: it misses nothing, as the caller may go on to
// Clear what is left.
func (t Tx) Take(e types.End, n int) ([]Item, error) {
	from, err := t.end(e)
	if err == nil {
		err = t.h.checkCount(n)
	}
	if err != nil {
		return nil, err
	}
	results, _, err := from.takeIn(t.tx, []int{n}, n, ofAll)
	if err != nil {
		return nil, err
	}
	if n := len(results[0].items); n > 0 {
		t.observe(Taken, n)
	}
	return results[0].items, results[0].err
}

// Peek returns the item that Take would and leaves it. It conflicts as Take of one does.
func (t Tx) Peek(e types.End) (Item, error) {
	from, err := t.end(e)
	if err != nil {
		return Item{}, err
	}
	results, _, _, err := from.find(t.tx, []int{1}, 1, ofAll)
	if err == nil {
		err = results[0].err
	}
	if err != nil {
		return Item{}, err
	}
	return results[0].items[0], nil
}

func (t Tx) end(e types.End) (*taker, error) {
	if err := t.Ready(); err != nil {
		return nil, err
	}
	return t.h.end(e)
}

// Len counts the items. It conflicts with all that changes the queue.
func (t Tx) Len() (n int, err error) {
	if err := t.Ready(); err != nil {
		return 0, err
	}
	if n, err = reads.Count(t.tx, t.h.space.Items); err != nil {
		return 0, err
	}
	return n, nil
}

// Clear removes all items, also those that are staged and not collected.
func (t Tx) Clear() error {
	if err := t.Ready(); err != nil {
		return err
	}
	err := t.h.entry.Check(t.tx)
	if err == nil {
		t.h.space.ClearAll(t.tx)
	}
	return err
}

// All returns the items in the order of their keys and leaves them. It conflicts with what
// changes the items up to the last one that the loop was given; if it ran out, with all that
// changes the queue.
func (t Tx) All() iter.Seq2[Item, error] {
	if err := t.Ready(); err != nil {
		return failing(err)
	}
	return t.h.sequence(t.visit)
}

// visit walks over the items of the queue.
func (t Tx) visit(f func(kv.Reader, kv.KeyValue) error) error {
	if err := t.Ready(); err != nil {
		return err
	}
	return reads.Each(t.tx, t.h.space.Items, f)
}
