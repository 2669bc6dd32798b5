package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/subspace"
	"pgregory.net/rapid"
)

// bench is a queue with items and an app that writes to out.
type bench struct {
	app   *app
	db    kv.DB
	queue *stored
	out   *bytes.Buffer
}

func newBench(t *testing.T, values ...string) *bench {
	out := new(bytes.Buffer)
	b := &bench{app: &app{stdout: out, codec: "bytes"}, db: memory.New(memory.Options{}), out: out}
	q, err := openQueue(b.db, conq.KindQueue, "q", conq.Bytes(), ends{})
	testkit.NoError(t, err)
	b.queue = q
	b.put(t, values...)
	return b
}

func (b *bench) put(t *testing.T, values ...string) {
	var batch []item
	for _, v := range values {
		batch = append(batch, item{Value: []byte(v)})
	}
	testkit.NoError(t, b.queue.PushAll(t.Context(), batch))
}

// delivery takes from the queue through a store.
func (b *bench) delivery(t *testing.T, db kv.DB) *delivery {
	return &delivery{db: db, source: b.through(t, db), sink: b.app.sink(printFlags{})}
}

func (b *bench) through(t *testing.T, db kv.DB) *stored {
	q, err := openQueue(db, conq.KindQueue, "q", conq.Bytes(), ends{})
	testkit.NoError(t, err)
	return q
}

// left returns what is still in the queue.
func (b *bench) left(t *testing.T) []string {
	var left []string
	items, _, err := b.queue.Page(t.Context(), conq.Min, nil, 10_000)
	testkit.NoError(t, err)
	for _, it := range items {
		left = append(left, string(it.Value))
	}
	return left
}

func letters(s string) []string { return strings.Split(s, "") }

func TestDelivery(t *testing.T) {
	for _, commitFirst := range []bool{false, true} {
		b := newBench(t, letters("abcde")...)
		d := b.delivery(t, b.db)
		d.commitFirst = commitFirst
		for _, want := range []struct {
			n, done int
			out     string
		}{{2, 2, "a\nb\n"}, {9, 3, "c\nd\ne\n"}, {1, 0, ""}} {
			done, err := d.run(t.Context(), want.n)
			if err != nil || done != want.done || b.out.String() != want.out {
				t.Errorf("%d wanted: %d done, %q, %v", want.n, done, b.out, err)
			}
			b.out.Reset()
		}
	}
}

// reclaiming is a source in which items go back that others were given: some each time it is asked.
type reclaiming struct {
	*stored
	reclaimed [][]item
}

func (r *reclaiming) Reclaim(ctx context.Context) error {
	if len(r.reclaimed) == 0 {
		return nil
	}
	batch := r.reclaimed[0]
	r.reclaimed = r.reclaimed[1:]
	return r.PushAll(ctx, batch)
}

// What others were given and did not collect is delivered too, also if its time is only over when
// all else is.
func TestDeliveryReclaims(t *testing.T) {
	b := newBench(t, "a")
	d := b.delivery(t, b.db)
	d.source = &reclaiming{b.queue, [][]item{{{Value: []byte("b")}}, {{Value: []byte("c")}}}}
	if done, err := d.run(t.Context(), 9); err != nil || done != 3 || b.out.String() != "a\nb\nc\n" {
		t.Errorf("%d done, %q, %v", done, b.out, err)
	}
}

func TestDeliveryInManyBatches(t *testing.T) {
	var values []string
	for i := range 2500 {
		values = append(values, fmt.Sprint(i))
	}
	b := newBench(t, values...)
	if done, err := b.delivery(t, b.db).run(t.Context(), 2400); err != nil || done != 2400 {
		t.Fatal(done, err)
	}
	if got := strings.Fields(b.out.String()); !slices.Equal(got, values[:2400]) {
		t.Errorf("%d lines came out", len(got))
	}
	if left := b.left(t); !slices.Equal(left, values[2400:]) {
		t.Errorf("%d are left", len(left))
	}
}

// rerunning is a store in which each transaction runs once in vain, as after a
// conflict or when it has become too old, and something happens before it runs
// again.
type rerunning struct {
	kv.DB
	between func()
}

func (r *rerunning) Transact(ctx context.Context, f func(kv.Tx) error) error {
	undo := errors.New("conflict")
	err := r.DB.Transact(ctx, func(tx kv.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		return err
	}
	r.between()
	return r.DB.Transact(ctx, f)
}

func TestRerunWritesNothingTwice(t *testing.T) {
	b := newBench(t, letters("aabca")...)
	done, err := b.delivery(t, &rerunning{b.db, func() {}}).run(t.Context(), 4)
	if err != nil || done != 4 || b.out.String() != "a\na\nb\nc\n" {
		t.Errorf("%d done, %q, %v", done, b.out, err)
	}
	if left := b.left(t); !slices.Equal(left, []string{"a"}) {
		t.Errorf("left %q", left)
	}
}

// Who interrupts a delivery is told how many items are gone, and which may come again.
func TestDeliveryInterrupted(t *testing.T) {
	for commitFirst, want := range map[bool]string{
		false: "0 items removed before that; the last 2 items written out may still be in the queue",
		true:  "2 items removed before that",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBench(t, letters("ab")...)
		b.app.stdout = &interrupter{interrupt: cancel}
		d := b.delivery(t, b.db)
		d.commitFirst = commitFirst
		done, err := d.run(ctx, 9)
		if !errors.Is(err, context.Canceled) || err.Error() != "context canceled; "+want {
			t.Errorf("%d done, error %v, want %s", done, err, want)
		}
		if left := b.left(t); len(left) != 2-done {
			t.Errorf("%d done, %q left", done, left)
		}
	}
}

// Another process takes two of the items that were written and adds one of the
// same value: that one is not the one that was written.
func TestRerunWritesNewItems(t *testing.T) {
	b := newBench(t, letters("aab")...)
	db := &rerunning{b.db, func() {
		if _, err := b.queue.PopN(t.Context(), conq.Min, 2); err != nil {
			t.Error(err)
		}
		b.put(t, "a")
	}}
	done, err := b.delivery(t, db).run(t.Context(), 3)
	if err != nil || done != 2 || b.out.String() != "a\na\nb\na\n" {
		t.Errorf("%d done, %q, %v", done, b.out, err)
	}
	if left := b.left(t); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

// An item that was written for an attempt that came to nothing, as another was pushed in front of it, is not written again when
// a later batch removes it.
func TestWrittenInAnEarlierBatch(t *testing.T) {
	b := newBench(t)
	push := func(value string, priority int64) {
		q, err := openQueue(b.db, conq.KindPriorityQueue, "p", conq.Bytes(), ends{})
		testkit.NoError(t, err)
		testkit.NoError(t, q.PushAll(t.Context(), []item{{Value: []byte(value), Priority: priority}}))
	}
	push("a", 1)
	between := func() { push("x", 0) }
	q, err := openQueue(&rerunning{b.db, func() { between(); between = func() {} }}, conq.KindPriorityQueue, "p", conq.Bytes(), ends{})
	testkit.NoError(t, err)
	d := b.delivery(t, b.db)
	d.source = q
	for range 2 {
		if done, err := d.run(t.Context(), 1); err != nil || done != 1 || b.out.String() != "a\nx\n" {
			t.Errorf("%d done, %q, %v", done, b.out, err)
		}
	}
}

// failing fails when it is to write past a size.
type failing struct {
	bytes.Buffer
	after int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.after {
		return 0, io.ErrShortWrite
	}
	return f.Buffer.Write(b)
}

func TestFailedWrite(t *testing.T) {
	tests := []struct {
		commitFirst bool
		left        int
		lost        string
	}{{false, 1500, ""}, {true, 500, "; 1,000 items lost: removed from the queue, and not written"}} // of 2,500, in batches of 1,000
	for _, test := range tests {
		var values []string
		for i := range 2500 {
			values = append(values, fmt.Sprintf("%04d", i))
		}
		b := newBench(t, values...)
		out := &failing{after: 5 * 1000}
		b.app.stdout = out
		d := b.delivery(t, b.db)
		d.commitFirst = test.commitFirst
		done, err := d.run(t.Context(), 2500)
		if !errors.Is(err, io.ErrShortWrite) || done != 1000 || !strings.HasSuffix(err.Error(), test.lost) {
			t.Errorf("%d done, error %v", done, err)
		}
		if left := b.left(t); !slices.Equal(left, values[2500-test.left:]) {
			t.Errorf("commit first %v: %d items are left", test.commitFirst, len(left))
		}
		if out.Len() != 5*1000 {
			t.Errorf("commit first %v: %d bytes written", test.commitFirst, out.Len())
		}
	}
}

func TestItemThatDoesNotDecode(t *testing.T) {
	b := newBench(t, "a", "b", "\xff", "c")
	b.app.codec = "string"
	q, err := openQueue(b.db, conq.KindQueue, "q", b.app.itemCodec(), ends{})
	testkit.NoError(t, err)
	d := b.delivery(t, b.db)
	d.source = q
	done, err := d.run(t.Context(), 9)
	if !errors.Is(err, conq.ErrDecode) || done != 2 || b.out.String() != "a\nb\n" {
		t.Errorf("%d done, %q, %v", done, b.out, err)
	}
	if left := b.left(t); !slices.Equal(left, []string{"\xff", "c"}) {
		t.Errorf("left %q", left)
	}
}

// What became of a commit whose outcome is unknown is found out: nothing is lost, nor written twice, whichever comes first.
func TestUnknownOutcome(t *testing.T) {
	for _, commitFirst := range []bool{false, true} {
		for seed := range uint64(20) {
			var values []string
			for i := range 100 {
				values = append(values, fmt.Sprint(i))
			}
			b := newBench(t, values...)
			db := faulty.New(b.db, seed, faulty.Options{Dropped: 0.2, Applied: 0.2, Late: 0.2, Limits: kv.Limits{Operations: 64}})
			d := b.delivery(t, db)
			d.commitFirst = commitFirst
			done, err := d.run(t.Context(), math.MaxInt)
			if got := strings.Fields(b.out.String()); err != nil || done != len(values) || !slices.Equal(got, values) {
				t.Errorf("commit first %v, seed %d: %d done, %d written, %v", commitFirst, seed, done, len(got), err)
			}
			if left := b.left(t); len(left) > 0 {
				t.Errorf("commit first %v, seed %d: %d left", commitFirst, seed, len(left))
			}
			if s := db.Stats(); s.Dropped+s.Applied+s.Late == 0 {
				t.Errorf("seed %d: no outcome was unknown", seed)
			}
		}
	}
}

// Who ends a command while an outcome is unknown is told what that means.
func TestUnknownOutcomeAtTheEnd(t *testing.T) {
	for commitFirst, want := range map[bool]string{false: "1 item written out may", true: "may be lost"} {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBench(t, "a")
		d := b.delivery(t, unsure{b.db})
		d.source = b.through(t, &unknown{DB: unsure{b.db}, then: cancel})
		d.commitFirst = commitFirst
		if _, err := d.run(ctx, 1); !errors.Is(err, kv.ErrCommitUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
}

// unknown is a store that does not know whether a transaction that has written was committed, nor ever answers again.
type unknown struct {
	kv.DB
	then func()
	done atomic.Bool
}

func (u *unknown) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if u.done.Load() {
		return kv.ErrUnavailable
	}
	err := u.DB.Transact(ctx, f)
	if err == nil {
		u.done.Store(true)
		time.AfterFunc(time.Millisecond, u.then)
		err = kv.ErrCommitUnknown
	}
	return err
}

// Where a batch can't be removed that was written, the error says that it will come again.
func TestRefusedCommit(t *testing.T) {
	for commitFirst, want := range map[bool]string{false: "refused; the last 2 items written out may still be in the queue", true: "refused"} {
		b := newBench(t, letters("ab")...)
		d := b.delivery(t, refusing{b.db})
		d.commitFirst = commitFirst
		done, err := d.run(t.Context(), 9)
		if !errors.Is(err, errNotCommitted) || err.Error() != want || done != 0 || len(b.left(t)) != 2 || (b.out.Len() > 0) == commitFirst {
			t.Errorf("commit first %v: %d done, %q written, error %v, want %s", commitFirst, done, b.out, err, want)
		}
	}
}

var errNotCommitted = errors.New("refused")

// refusing is a store that commits nothing of a command's own transactions.
type refusing struct{ kv.DB }

func (r refusing) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return r.DB.Transact(ctx, func(tx kv.Tx) error { return errors.Join(f(tx), errNotCommitted) })
}

// What keys returns belongs to what take returns, whichever end items come from.
func TestKeysAreThoseOfItemsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom([]ends{{}, {ties: "last", max: true}, {ties: "first", max: true}}).Draw(t, "from")
		db := memory.New(memory.Options{})
		p, err := openQueue(db, conq.KindPriorityQueue, "p", conq.Bytes(), from)
		testkit.NoError(t, err)
		var batch []item
		for i := range rapid.IntRange(1, 20).Draw(t, "items") {
			batch = append(batch, item{Value: fmt.Append(nil, i), Priority: rapid.Int64Range(-1, 1).Draw(t, "priority")})
		}
		testkit.NoError(t, p.PushAll(context.Background(), batch))
		n := rapid.IntRange(1, 25).Draw(t, "n")
		err = db.Transact(context.Background(), func(tx kv.Tx) error { return compareKeys(tx, p, n) })
		testkit.Check(t, err)
	})
}

func compareKeys(tx kv.Tx, p *stored, n int) error {
	byKey := make(map[string]string)
	for pair, err := range tx.Range(subspace.Named("p").Range(), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		byKey[string(pair.Key)] = string(pair.Value)
	}
	keys, err := firstKeys(p, tx, n)
	if err != nil {
		return err
	}
	taken, err := p.take(tx, n)
	if err != nil || len(taken) != len(keys) {
		return fmt.Errorf("%d keys, %d items, %w", len(keys), len(taken), err)
	}
	for i, it := range taken {
		if byKey[keys[i]] != string(it.Value) {
			return fmt.Errorf("key %d is of %q, item is %q", i, byKey[keys[i]], it.Value)
		}
	}
	return nil
}
