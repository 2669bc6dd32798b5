package faulty

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
)

// txn is the state of one attempt of a transaction, or of a ReadTransact.
type txn struct {
	db     *DB
	ctx    context.Context
	cancel context.CancelCauseFunc // ends ctx
	ended  bool
	old    bool // made too old

	// Of a transaction that may write.
	session   *session        // nil once it is decided, or left to others
	conflict  bool            // it has read what others may write
	writes    overlay.Overlay // to know of them: the store below does them
	conflicts int             // write conflict ranges
	pairs     int             // read by ranges, but for the first of each
	ranges    int             // with a read conflict
	single    map[string]bool // keys with a read conflict
	bad       error
	unknowing bool // of the value of a key that it watches
	watches   []*watch
	onCommit  []func()
	back      time.Duration // that the answer to the commit takes from the store

	below kv.Reader // the transaction of the store below
	fixed bool      // its version was asked for

	asked   []kv.Read // by Prefetch
	fetched []kv.Read // of those, answered and not made yet
}

// begin starts an attempt.
func (db *DB) begin(ctx context.Context, cancel context.CancelCauseFunc) (*txn, error) {
	t := &txn{db: db, ctx: ctx, cancel: cancel}
	err := t.start()
	if err == nil {
		t.session, err = open(ctx, db.inner)
	}
	if err == nil {
		t.below = t.session.tx
	}
	return t, err
}

// fixVersion has the store below fix the version of the transaction before its
// first read.
func (t *txn) fixVersion() error {
	if t.fixed {
		return nil
	}
	t.fixed = true
	a := t.db.ask(askVersion, 0)
	defer a.done()
	if a.before+a.after <= 0 {
		return nil
	}
	if err := t.pause(a.before); err != nil {
		return err
	}
	if _, err := t.below.Snapshot().Get([]byte{0}); err != nil {
		return err
	}
	return t.pause(a.after)
}

// start is what comes before a transaction of any kind.
func (t *txn) start() error {
	t.db.count(func(s *Stats) { s.Attempts++ })
	t.db.tick()
	t.mayCancel()
	return t.pause(0)
}

// mayCancel ends the context, by chance.
func (t *txn) mayCancel() {
	if t.ctx.Err() == nil && t.db.chance(t.db.o.Cancel) {
		t.cancel(ErrCanceled)
		t.db.count(func(s *Stats) { s.Canceled++ })
	}
}

// pause waits for d, and by chance for longer. It fails when the context ends.
func (t *txn) pause(d time.Duration) error {
	if t.db.chance(t.db.o.Delay) {
		d += time.Duration(t.db.intN(int64(cmp.Or(max(t.db.o.MaxDelay, 0), defaultMaxDelay))))
		t.db.count(func(s *Stats) { s.Delays++ })
	}
	return t.sleep(d)
}

// sleep waits for d. It fails when the context ends.
func (t *txn) sleep(d time.Duration) error {
	if d > 0 {
		retry.Sleep(t.ctx, d)
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// alive returns the error of a transaction that can't be read from.
func (t *txn) alive() error {
	switch {
	case t.ended:
		return kv.ErrClosed
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case t.old:
		return kv.ErrTooOld
	}
	return nil
}

// read is what comes before a read.
func (t *txn) read(what kv.Read) error {
	if err := t.alive(); err != nil {
		return err
	}
	t.mayFail()
	if i := slices.IndexFunc(t.fetched, func(r kv.Read) bool { return same(r, what) }); i >= 0 {
		t.fetched = slices.Delete(t.fetched, i, i+1)
		return t.alive()
	}
	return cmp.Or(t.fixVersion(), t.fetch(what), t.alive())
}

// fetch waits for a read, and for all that were asked for.
func (t *txn) fetch(what kv.Read) error {
	longest := time.Duration(0)
	asked := t.asked
	t.asked = nil
	if i := slices.IndexFunc(asked, func(r kv.Read) bool { return same(r, what) }); i >= 0 {
		asked = slices.Delete(asked, i, i+1)
	}
	for range 1 + len(asked) {
		a := t.db.ask(askRead, 0)
		defer a.done()
		longest = max(longest, a.before+a.after)
	}
	t.fetched = append(t.fetched, asked...)
	return t.pause(longest)
}

// same tells whether two reads get the same from the store.
func same(a, b kv.Read) bool {
	if a.Key != nil || b.Key != nil {
		return a.Key != nil && bytes.Equal(a.Key, b.Key)
	}
	return a.Options.Limit == b.Options.Limit && a.Options.Reverse == b.Options.Reverse &&
		bytes.Equal(a.Range.Begin, b.Range.Begin) && bytes.Equal(a.Range.End, b.Range.End)
}

func copied(r kv.Read) kv.Read {
	r.Key, r.Range.Begin, r.Range.End = bytes.Clone(r.Key), bytes.Clone(r.Range.Begin), bytes.Clone(r.Range.End)
	return r
}

// mayFail ends the context, or makes the transaction too old, by chance.
func (t *txn) mayFail() {
	t.mayCancel()
	if t.db.chance(t.db.o.TooOld) {
		t.old = true
		t.db.count(func(s *Stats) { s.TooOld++ })
	}
}

// wait waits for the answer to a request.
func (t *txn) wait(r request) error {
	a := t.db.ask(r, 0)
	defer a.done()
	return t.pause(a.before + a.after)
}

// reads notes n reads that others can conflict with.
func (t *txn) reads(n int) {
	t.conflict = t.conflict || n > 0
	t.ranges += n
}

// readsKey notes a read of a key that others can conflict with.
func (t *txn) readsKey(key []byte) {
	t.conflict = true
	if t.single == nil {
		t.single = make(map[string]bool)
	}
	t.single[string(key)] = true
}

// operations is how many there are, as kv.Limits counts them.
func (t *txn) operations() int {
	if t.db.limits.Operations == 0 {
		return 0
	}
	n := t.ranges + t.written()
	for key := range t.single {
		if !t.owns([]byte(key)) {
			n++
		}
	}
	return n
}

// owns tells whether the transaction has itself set or cleared key.
func (t *txn) owns(key []byte) bool {
	_, own := t.writes.Own(key)
	return own
}

// refused keeps err, from a method that can't return it, for the commit, and
// tells whether the method must not go on.
func (t *txn) refused(err error) bool {
	if t.ended {
		return true
	}
	t.mayCancel()
	if t.bad == nil {
		t.bad = err
	}
	return err != nil
}

// written is how many writes there are, with write conflict ranges.
func (t *txn) written() int { return t.writes.Ops() + t.conflicts }

// commit ends the attempt as fate has it.
func (t *txn) commit() error {
	t.ended = true
	t.mayCancel()
	if err := t.ready(); err != nil {
		return err
	}
	if err := t.look(); err != nil {
		return err
	}
	answered, err := t.send()
	defer answered()
	if err != nil {
		return err
	}
	t.db.tick()
	var fate Fate
	if t.written() > 0 {
		fate = t.db.fate()
	}
	if err := t.decide(fate); err != nil {
		return err
	}
	retry.Committed(t.onCommit)
	return nil
}

// ready returns the error of a transaction that can't commit.
func (t *txn) ready() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if t.bad != nil || t.written() == 0 {
		return t.bad
	}
	if err := t.db.limits.CheckTransaction(t.writes.Bytes(), t.operations()); err != nil {
		return err
	}
	if t.old && t.conflict {
		return kv.ErrTooOld
	}
	return nil
}

// look reads the values of the keys that are watched, at the same time.
func (t *txn) look() error {
	if t.db.o.Cluster == nil || !t.unknowing {
		return nil
	}
	return cmp.Or(t.fixVersion(), t.wait(askRead))
}

// send brings what was written to where the store decides.
func (t *txn) send() (answered func(), err error) {
	if t.written() == 0 {
		return func() {}, nil
	}
	if err := t.fixVersion(); err != nil {
		return func() {}, err
	}
	a := t.db.ask(askCommit, t.pairs+t.written())
	t.back = a.after
	return a.done, t.pause(a.before)
}

// decide commits or does not, and says so or does not.
func (t *txn) decide(fate Fate) error {
	s := t.session
	switch fate.Outcome {
	case Conflicted:
		if t.conflict {
			t.db.count(func(s *Stats) { s.Conflicts++ })
			t.comeBack()
			return kv.ErrConflict
		}
	case Dropped:
		t.db.count(func(s *Stats) { s.Dropped++ })
		t.answer()
		return t.unknown()
	case Late:
		t.answer()
		t.session = nil
		t.db.hold(s, fate.After) // now, as steps are counted from when the caller knows
		return t.unknown()
	}
	t.session = nil
	if err := s.finish(nil); err != nil {
		t.comeBack()
		if errors.Is(err, kv.ErrCommitUnknown) {
			t.tellWatches(err)
		}
		return err
	}
	t.answer()
	if fate.Outcome == Applied {
		t.db.count(func(s *Stats) { s.Applied++ })
		return t.unknown()
	}
	t.db.count(func(s *Stats) { s.Commits++ })
	t.tellWatches(nil)
	return nil
}

// answer is the way of the answer back from the store.
func (t *txn) answer() {
	t.comeBack()
	t.db.tick()
}

func (t *txn) comeBack() {
	if t.back > 0 {
		<-time.NewTimer(t.back).C
	}
}

// unknown ends the attempt for the caller, who learns nothing more of it.
func (t *txn) unknown() error {
	err := fmt.Errorf("faulty: %w", kv.ErrCommitUnknown)
	t.tellWatches(err)
	return err
}

// end aborts the attempt if it is still open.
func (t *txn) end() {
	t.ended = true
	if t.session != nil {
		_ = t.session.finish(errAbort) // which is what it returns
		t.session = nil
	}
	t.tellWatches(kv.ErrConflict)
}
