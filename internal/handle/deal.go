package handle

import (
	"context"
	"errors"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// share is what one of several callers gets: an error, or at least one item.
type share struct {
	items []Item
	err   error
}

// gotten returns what the first callers got, and the error of the next one unless
// it is that there is nothing.
func gotten(shares []share) (got [][]Item, err error) {
	got = make([][]Item, 0, len(shares))
	for _, s := range shares {
		switch {
		case isEmpty(s.err):
			return got, nil
		case s.err != nil:
			return got, s.err
		}
		got = append(got, s.items)
	}
	return got, nil
}

func count(shares []share) (n int) {
	for _, s := range shares {
		n += len(s.items)
	}
	return n
}

// deal gives items to callers in order.
type deal struct {
	q      *queue
	reader kv.Reader // of what the store has of items; nil if they are whole
	copies bool      // payloads, as they are not the caller's own
	items  []Item

	taken  int   // items that were given away: the first ones
	empty  bool  // a caller was told that there is nothing
	failed error // of the first item that is left: it does not decode
}

// deal returns the shares of the first callers. With all, the items are all that
// there are, and callers for whom none is left get ErrEmpty. A caller whose first item
// does not decode gets that error, and so do those behind it; one that has got items
// before it keeps these.
func (d *deal) deal(wants []int, all bool) ([]share, error) {
	shares := make([]share, 0, len(wants))
	for _, want := range wants {
		s := share{items: d.next(want)}
		switch {
		case d.failed != nil && !errors.Is(d.failed, types.ErrDecode):
			return nil, d.failed
		case len(s.items) > 0:
		case d.failed != nil:
			s.err = d.failed
		case all:
			s.err, d.empty = types.ErrEmpty, true
		default:
			return shares, nil // the others need another transaction
		}
		shares = append(shares, s)
	}
	return shares, nil
}

// next gives away up to want items.
func (d *deal) next(want int) []Item {
	from := d.taken
	for d.failed == nil && d.taken < len(d.items) && d.taken-from < want {
		if d.failed = d.decode(&d.items[d.taken]); d.failed == nil {
			d.taken++
		}
	}
	return d.items[from:d.taken:d.taken]
}

// decode fills in an item, or returns why it has to stay.
func (d *deal) decode(item *Item) error {
	if d.copies {
		item.Payload = copied(item.Payload)
	}
	if d.reader != nil {
		if err := d.q.read(d.reader, item); err != nil {
			return err
		}
	}
	return d.q.decoded(item)
}

// strictness is what has to be true at the commit when a transaction returns fewer items
// than were wanted.
type strictness int

const (
	loose strictness = iota // that the queue was empty, if a caller is told so
	exact                   // also that there were no more than those
	waits                   // neither: callers who get nothing have no share, and wait on
)

// removesOnly tells whether a transaction that takes conflicts on the items that it removes, and on
// nothing else. It counts as done at the version that it has read, then, and it is no matter what is
// added before it commits: docs/internals/concurrency.md has the argument. Where one process has the store,
// what lies between is over in microseconds, and takes agree with peeks, too.
func (q *queue) removesOnly(how strictness) bool { return q.limits.Shared && how != exact }

// takeIn is the recipe's Dequeue or pop for several items: find, and clear what was found.
func (t *taker) takeIn(tx kv.Tx, wants []int, how strictness, a *attempt) ([]share, error) {
	shares, taken, err := t.find(tx, wants, how, a)
	if err != nil {
		return nil, err
	}
	for _, item := range taken {
		if t.q.removesOnly(how) {
			tx.AddReadConflict(kv.KeyRange(item.Key))
		}
		t.q.space.Clear(tx, item.Key)
	}
	return shares, nil
}

// find reads the first items through a snapshot, and adds the conflicts by hand, since what it
// returns may depend on less than it has read. It serves the first of the callers, each of which
// wants so many items: as many as fit into a transaction, and at least one.
func (t *taker) find(tx kv.Tx, wants []int, how strictness, a *attempt) (shares []share, taken []Item, err error) {
	b := t.q.limit(a.wanted(wants), how)
	pairs, err := t.q.firstItems(tx.Snapshot(), t.side, &b)
	if err != nil {
		return nil, nil, err
	}
	a.found = len(pairs)
	d := &deal{q: t.q, reader: tx, items: raw(pairs)}
	shares, err = d.deal(wants, b.left() && how != waits)
	if err != nil {
		return nil, nil, err
	}
	if !t.q.removesOnly(how) {
		t.dependOn(tx, d, b.left(), how)
	}
	return shares, d.items[:d.taken], nil
}

// dependOn conflicts on what was found; all tells that there is no more. A caller that is told that
// there is nothing must be right at the commit, and with exact also one that gets fewer than it wanted.
// Otherwise it is as if the transaction had run just before the item that came meanwhile. So consumers
// of a queue that is nearly empty do not conflict with its producers.
func (t *taker) dependOn(tx kv.Tx, d *deal, all bool, how strictness) {
	covered := []kv.Range{t.q.space.Items}
	switch {
	case len(d.items) == 0 && how == waits:
		return
	case len(d.items) > 0 && !d.empty && (how != exact || !all || d.failed != nil):
		covered = t.q.orders[t.side].Covered(d.items[max(d.taken, 1)-1].Key)
	}
	for _, r := range covered {
		tx.AddReadConflict(r)
	}
}

// sum is how many items are wanted, or as many as a batch can be.
func sum(wants []int) (n int) {
	for _, want := range wants {
		if n += want; n < 0 || n > maxBatchItems {
			return maxBatchItems
		}
	}
	return n
}

// attempt is one of a transaction that takes items.
type attempt struct {
	nth   int
	found int // how many items there were
	most  int // how many to look for, after more were too large for a transaction; 0 for all
}

func (a *attempt) wanted(wants []int) int {
	if n := sum(wants); a.most == 0 || n < a.most {
		return n
	}
	return a.most
}

// attempts runs a transaction that takes items for a batch, and runs it again for half of those that
// it has found if they are too large for one: an engine may count more than a budget knows of, as
// FoundationDB counts keys.
func attempts[R any](ctx context.Context, b *takeBatch, take func(kv.Tx) (R, error)) (R, error) {
	b.attempt = attempt{}
	for {
		r, err := outcome.Do(ctx, b.taker.q.lanes, take)
		if b.attempt.found < 2 || !errors.Is(err, kv.ErrTooLarge) {
			return r, err
		}
		b.attempt = attempt{most: b.attempt.found / 2}
	}
}
