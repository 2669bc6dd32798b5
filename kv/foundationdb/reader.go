package foundationdb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// txn is one attempt of a transaction, or a ReadTransact.
type txn struct {
	*call
	readOnly bool

	hasRead bool // so that the version is fixed
	asked   []asked
	epoch   int // how often the library's transaction was made as new

	writes  overlay.Writer
	reads   []kv.Range // read conflicts, in keys of the store
	watches []*watch
	outcome error // of an attempt that did not commit: nil is kv.ErrConflict
}

func (c *call) newTxn() *txn {
	return &txn{call: c, writes: overlay.Writer{Limits: &c.db.limits}}
}

// alive returns the error with which a read, or the commit, has to fail now.
func (t *txn) alive() error {
	switch {
	case t.writes.Ended || t.db.closed():
		return kv.ErrClosed
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	}
	return nil
}

// end makes the attempt unusable.
func (t *txn) end() {
	t.writes.Ended = true
	for _, w := range t.watches {
		w.tell(cmp.Or(t.outcome, kv.ErrConflict))
	}
	t.watches = nil
}

// conflict adds a read conflict range, and returns what changes it.
func (t *txn) conflict(r kv.Range) (change func(kv.Range)) {
	i := len(t.reads)
	t.reads = append(t.reads, r)
	return func(r kv.Range) { t.reads[i] = r }
}

// get reads a key of the store.
func (t *txn) get(key []byte) ([]byte, error) {
	for {
		if err := t.alive(); err != nil {
			return nil, err
		}
		epoch := t.epoch
		value, err := await(t.ctx, t.ask(key))
		if err == nil {
			t.hasRead = true
			return value, nil
		}
		if err := t.renew(epoch, err); err != nil {
			return nil, err
		}
	}
}

// fixVersion makes sure that all that is read from now on is of one version, and
// that what others commit from now on can be a conflict.
func (t *txn) fixVersion() error {
	if err := t.alive(); err != nil || t.hasRead {
		return err
	}
	_, err := await(t.ctx, t.tr.readVersion())
	if err != nil {
		return t.fault(err)
	}
	t.hasRead = true
	return nil
}

// renew gets ready to repeat a read of the given epoch that has failed, or returns
// the error. In a transaction that may write, it is the function that is run again.
// But that of ReadTransact runs once, so there reads are repeated that fail for a
// reason that passes, at the same version.
func (t *txn) renew(epoch int, failed error) error {
	err := t.fault(failed)
	var e *Error
	switch {
	case !t.readOnly || !errors.As(err, &e):
		return err
	case epoch != t.epoch: // it was cancelled when another one was repeated
		return nil
	case e.Code == codeTransactionTooOld && (t.hasRead || t.tooOld == kv.MaxTooOld):
		return err
	case e.Code == codeTransactionTooOld:
		t.tooOld++
	}
	var version int64
	if t.hasRead {
		if version, failed = await(t.ctx, t.tr.readVersion()); failed != nil {
			return forgotten(t.fault(failed))
		}
	}
	if err := t.pause(t.tr, err); err != nil {
		return err
	}
	if t.epoch++; t.hasRead {
		t.tr.setReadVersion(version)
	}
	return nil
}

// forgotten returns the error for a version that the library does not tell any more, since the
// cluster's own has changed: nothing else can be read at it.
func forgotten(err error) error {
	if errors.Is(err, kv.ErrConflict) {
		return fmt.Errorf("%w: %v", kv.ErrTooOld, err)
	}
	return err
}

// reader implements kv.Reader on an attempt.
type reader struct {
	t        *txn
	snapshot bool
}

func (r reader) Context() context.Context { return r.t.caller }

func (r reader) Snapshot() kv.Reader { return reader{r.t, true} }

func (r reader) Get(key []byte) ([]byte, error) {
	t := r.t
	if err := cmp.Or(t.alive(), t.db.limits.CheckKey(key)); err != nil {
		return nil, err
	}
	if value, own := t.writes.Own(key); own {
		return value, nil
	}
	value, err := t.get(key)
	if err != nil {
		return nil, err
	}
	if !r.snapshot {
		t.conflict(kv.KeyRange(bytes.Clone(key)))
	}
	return t.writes.Added(key, value), nil
}

func (r reader) Range(span kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return overlay.Pairs(span, o.Limit, func(span kv.Range, yield func(kv.KeyValue) bool) error {
		if err := r.t.alive(); err != nil {
			return err
		}
		var cover func(kv.Range)
		if !r.snapshot {
			cover = r.t.conflict(kv.Range{})
		}
		c := r.cursor(span, o)
		return r.t.writes.Over(c, span, o.Reverse).Scan(o.Limit, cover, r.t.alive, yield)
	})
}

// asked is a read that was asked for before it is made.
type asked struct {
	epoch int
	key   []byte
	value future[[]byte] // of a Get
	pairs *cursor        // of a Range
}

// Prefetch implements kv.Prefetch. The library does not wait for the version before it returns, so the
// version and all reads are one wait.
func (r reader) Prefetch(reads []kv.Read) {
	t := r.t
	for _, read := range reads {
		if t.alive() != nil || len(t.asked) == mostAhead {
			return
		}
		if read.Key != nil {
			if t.db.limits.CheckKey(read.Key) == nil {
				key := bytes.Clone(read.Key)
				t.asked = append(t.asked, asked{epoch: t.epoch, key: key, value: t.tr.get(t.db.key(key))})
			}
			continue
		}
		if span, err := read.Range.Bounds(); err == nil && read.Options.Limit >= 0 {
			c := r.cursor(overlay.Clone(span), read.Options)
			c.ask()
			t.asked = append(t.asked, asked{epoch: t.epoch, pairs: c})
		}
	}
}

// ask asks for a key, unless it was asked for.
func (t *txn) ask(key []byte) future[[]byte] {
	i := slices.IndexFunc(t.asked, func(a asked) bool { return a.value != nil && bytes.Equal(a.key, key) && a.epoch == t.epoch })
	if i < 0 {
		return t.tr.get(t.db.key(key))
	}
	value := t.asked[i].value
	t.asked = slices.Delete(t.asked, i, i+1)
	return value
}

// cursor returns one over a range, which may have been asked for.
func (r reader) cursor(span kv.Range, o kv.RangeOptions) *cursor {
	t := r.t
	c := &cursor{t: t, span: span, limit: min(o.Limit, math.MaxInt32), reverse: o.Reverse} // the library gets an int of C
	i := slices.IndexFunc(t.asked, func(a asked) bool { return a.pairs != nil && a.pairs.reads(c) && a.epoch == t.epoch })
	if i >= 0 {
		c = t.asked[i].pairs
		t.asked = slices.Delete(t.asked, i, i+1)
	}
	return c
}

// mostAsked is how many reads of LastKeys are under way at once.
const mostAsked = 100

// mostAhead is how many reads are asked for ahead, by Prefetch.
const mostAhead = 2000

// LastKeys implements kvext.LastKeys: it asks for all before it waits for the first, so that several
// take as long as one.
func (r reader) LastKeys(spans []kv.Range, _ kv.Range, to [][]byte) ([][]byte, error) {
	for part := range slices.Chunk(spans, mostAsked) {
		cursors, err := r.askForLast(part)
		if err != nil {
			return nil, err
		}
		for _, c := range cursors {
			merged := r.t.writes.Over(c, c.span, true)
			last, ok, err := merged.Next()
			if err != nil {
				return nil, err
			}
			to = append(to, last.Key)
			if read := c.span; !r.snapshot {
				if ok {
					read = overlay.Covered(c.span, last.Key, true)
				}
				r.t.conflict(read)
			}
		}
	}
	return to, nil
}

// askForLast asks for the last pair of each range.
func (r reader) askForLast(spans []kv.Range) ([]*cursor, error) {
	cursors := make([]*cursor, len(spans))
	for i, span := range spans {
		span, err := span.Bounds()
		if err := cmp.Or(r.t.alive(), err); err != nil {
			return nil, err
		}
		cursors[i] = &cursor{t: r.t, span: overlay.Clone(span), limit: 1, reverse: true}
		cursors[i].ask()
	}
	return cursors, nil
}

// cursor reads the pairs of a range that are stored. It implements overlay.Cursor.
type cursor struct {
	t       *txn
	span    kv.Range // in keys of the store, as all are
	limit   int      // pairs that are wanted at most, 0 for all
	reverse bool

	rest  kv.Range // of the span, still to be read
	page  pairs    // nil to begin with rest
	got   int      // pairs of the page
	epoch int      // of the page
}

// reads tells whether c reads the same as another one.
func (c *cursor) reads(other *cursor) bool {
	return c.limit == other.limit && c.reverse == other.reverse &&
		bytes.Equal(c.span.Begin, other.span.Begin) && bytes.Equal(c.span.End, other.span.End)
}

func (c *cursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	rest := c.span
	if c.reverse {
		rest.End = bytes.Clone(key)
	} else {
		rest.Begin = bytes.Clone(key)
	}
	if c.got > 0 || !bytes.Equal(rest.Begin, c.rest.Begin) || !bytes.Equal(rest.End, c.rest.End) {
		c.page = nil // it was not asked for ahead
	}
	c.rest = rest
	return c.Next()
}

// ask asks for the whole range, ahead of the first Seek.
func (c *cursor) ask() {
	if c.rest = c.span; !empty(c.rest) {
		c.open()
	}
}

func (c *cursor) Next() (kv.KeyValue, bool, error) {
	prefix := len(c.t.db.prefix)
	for !empty(c.rest) {
		c.open()
		key, value, ok, err := c.page.next()
		switch {
		case err != nil:
			c.page = nil
			if err := c.t.renew(c.epoch, err); err != nil {
				return kv.KeyValue{}, false, err
			}
		case ok:
			c.got++
			c.t.hasRead = true
			c.rest = less(c.rest, key[prefix:], c.reverse)
			return kv.KeyValue{Key: key[prefix:], Value: value}, true, nil
		case c.limit > 0 && c.got == c.limit: // and the transaction hides some of them
			c.page = nil
		default:
			c.t.hasRead = true
			c.rest = kv.Range{}
		}
	}
	return kv.KeyValue{}, false, nil
}

// open asks for what is left of the range, unless it was asked for.
func (c *cursor) open() {
	if c.page != nil {
		return
	}
	c.t.cancelLater()
	c.got, c.epoch = 0, c.t.epoch
	begin, end := c.t.db.bounds(c.rest)
	c.page = c.t.tr.getRange(begin, end, c.limit, c.reverse)
}

// cancelLater has the library's transaction cancelled at the end of the context, if
// that is not so yet: a range read can't be cancelled by itself.
func (c *call) cancelLater() {
	if c.uncancel == nil {
		c.uncancel = context.AfterFunc(c.ctx, c.tr.cancel)
	}
}
