package conq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// strict is a store that takes not more than so many items in a transaction, and none with a payload
// of "bad": these fail with its error. It counts what it has refused.
type strict struct {
	*hooked
	most    int
	err     error
	refused int
}

func newStrict(db kv.DB, most int, err error) *strict {
	s := &strict{hooked: &hooked{DB: db}, most: most, err: err}
	s.Attempt = func(tx kv.Tx) kv.Tx { return &strictTx{Tx: tx, left: most} }
	return s
}

func (s *strict) Transact(ctx context.Context, f func(kv.Tx) error) error {
	err := s.hooked.Transact(ctx, func(tx kv.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		if tx.(*strictTx).left < 0 {
			return s.err
		}
		return nil
	})
	if errors.Is(err, s.err) {
		s.refused++
	}
	return err
}

type strictTx struct {
	kv.Tx
	left int
}

func (tx *strictTx) Set(key, value []byte) {
	if bytes.HasPrefix(key, packedName) {
		tx.left--
	}
	if string(value) == "bad" {
		tx.left = -1
	}
	tx.Tx.Set(key, value)
}

// packedName is what the keys of items of the queue q begin with.
var packedName = []byte("\x02q\x00")

func dumpOfItems(t *testing.T, values ...string) []byte {
	t.Helper()
	from := newMemory(t, kv.Limits{})
	q, err := OpenQueue(from, "q", String())
	noError(t, err)
	noError(t, q.EnqueueAll(t.Context(), values))
	return dumped(t, from)
}

// What the engine refuses for its size or its time goes in in parts, down to the one item that it is. What it
// refuses for another reason is that error, and no part is tried.
func TestLoadInParts(t *testing.T) {
	values := strings.Fields("a b c d bad f g h")
	all, parts := dumpOfItems(t, slices.Repeat(values[:4], 4)...), dumpOfItems(t, values...)
	for _, refuses := range []error{kv.ErrTooLarge, kv.ErrTooOld, errDiskFull} {
		db := newStrict(newMemory(t, kv.Limits{}), 3, refuses)
		report, err := Load(t.Context(), db, bytes.NewReader(all))
		if refuses == errDiskFull {
			wantError(t, err, errDiskFull)
			equal(t, "refused", db.refused, 1)
			equal(t, "items", report.Items, 0)
			continue
		}
		noError(t, err)
		equal(t, "items", report.Items, 16)
		report, err = Load(t.Context(), newStrict(newMemory(t, kv.Limits{}), 100, refuses), bytes.NewReader(parts))
		wantError(t, err, refuses, `queue "q": item 5 of the dump: `)
		equal(t, "items", report.Items, 4)
	}
}

// No transaction is tried that the limits of the engine do not allow.
func TestLoadNoneRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"large":           slices.Repeat([]string{strings.Repeat("x", 1500)}, 30),
		"small":           slices.Repeat([]string{"x"}, 700),
		"of several keys": slices.Repeat([]string{strings.Repeat("x", 450)}, 40),
		"empty":           make([]string, 500),
		"of two keys":     slices.Repeat([]string{strings.Repeat("x", 101)}, 100),
	} {
		dump := dumpOfItems(t, values...)
		for _, limits := range []kv.Limits{
			{Value: 100, Transaction: 4000, Operations: 40}, {Value: 1000, Transaction: 6000}, {Value: 50, Transaction: 20_000, Operations: 128},
		} {
			db := newStrict(newMemory(t, limits), 1000, kv.ErrTooLarge)
			loadAll(t, db, dump, LoadOptions{})
			equal(t, fmt.Sprintf("%s: refused with %+v", name, limits), db.refused, 0)
		}
	}
}

// A queue that can't be cleared, or whose last items before a broken place can't be put in, is that error.
func TestLoadStoreFails(t *testing.T) {
	dump := dumpOfItems(t, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	for _, c := range []struct {
		dump []byte
		o    LoadOptions
	}{{dump, LoadOptions{Existing: ExistingReplace}}, {dump[:80_000], LoadOptions{}}} {
		db := newStrict(newMemory(t, kv.Limits{}), 100, errDiskFull)
		noError(t, drop(OpenQueue(db, "q", String())))
		db.Attempt = func(tx kv.Tx) kv.Tx { return &strictTx{Tx: tx, left: -1} }
		report, err := Load(t.Context(), db, bytes.NewReader(c.dump), c.o)
		wantError(t, err, errDiskFull)
		equal(t, "refused", db.refused, 1)
		equal(t, "whole", report.Queues[0].Whole, false)
	}
}

// While the outcome is unknown, the items that may be in are told by number.
func TestLoadUnknownItems(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	commits := 0
	db := faulty.New(newMemory(t, kv.Limits{}), 1, faulty.Options{Choose: func() faulty.Fate {
		if commits++; commits == 5 {
			cancel(errCancelled)
		}
		if commits > 1 { // the first one opens the queue
			return faulty.Fate{Outcome: faulty.Dropped}
		}
		return faulty.Fate{}
	}})
	report, err := Load(ctx, db, bytes.NewReader(dumpOfItems(t, "a", "b", "c", "d", "e")))
	wantError(t, err, kv.ErrCommitUnknown, `queue "q": items 1 to 5 of the dump may or may not be in`)
	equal(t, "items", report.Items, 0)
}

// A load leaves nothing of its own in the store.
func TestLoadLeavesNothing(t *testing.T) {
	db := faulty.New(newMemory(t, kv.Limits{}), 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
	loadAll(t, db, dumpOfItems(t, "a", "b"), LoadOptions{})
	for _, pair := range stored(t, db) {
		if !bytes.HasPrefix(pair.Key, packedName) && !bytes.Equal(pair.Key, layout.SignalKey("q")) {
			t.Errorf("key %q is left", pair.Key)
		}
	}
}

// When the context has ended no further queue is opened, and a dry run ends too.
func TestLoadCanceledBetween(t *testing.T) {
	from, _ := sampleStore(t, 10)
	dump := dumped(t, from)
	for _, dry := range []bool{false, true} {
		db := newMemory(t, small)
		ctx, cancel := context.WithCancelCause(t.Context())
		report, err := Load(ctx, db, bytes.NewReader(dump), LoadOptions{DryRun: dry, Progress: func(Progress) { cancel(errCancelled) }})
		wantError(t, err, errCancelled)
		equal(t, "items", report.Items, 10)
		equal(t, "the next queue, which is empty, is whole", report.Queues[1].Whole, dry)
		_, found, err := Lookup(t.Context(), db, "b")
		noError(t, err)
		equal(t, "the next queue is there", found, false)
	}
}

// What a reader has given before it failed is in, up to the last block that was whole; the error is
// the reader's, with the place.
func TestLoadReadFailsFlushed(t *testing.T) {
	dump := dumpOfItems(t, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	db := newMemory(t, kv.Limits{})
	n := 80_000
	report, err := Load(t.Context(), db, io.MultiReader(bytes.NewReader(dump[:n]), iotest.ErrReader(errDiskFull)))
	wantError(t, err, errDiskFull, "conq: load: ", fmt.Sprintf("reading at byte %d", n))
	equal(t, "items", report.Items, len(holds(t, db)["q"])-1)
	if report.Items < 60 {
		t.Errorf("%d items are in", report.Items)
	}
}
