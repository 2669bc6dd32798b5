package dump_test

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

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// packedName is what the keys of items of the queue q begin with.
var packedName = []byte("\x02q\x00")

func dumpOfItems(t *testing.T, values ...string) []byte {
	t.Helper()
	from := testkit.NewMemory(t, kv.Limits{})
	q, err := conq.OpenQueue(t.Context(), from, "q", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, q.EnqueueAll(t.Context(), values))
	return dumped(t, from)
}

// What the engine refuses for its size or its time goes in in parts, down to the one item that it is. What it
// refuses for another reason is that error, and no part is tried.
func TestLoadInParts(t *testing.T) {
	values := strings.Fields("a b c d bad f g h")
	all, parts := dumpOfItems(t, slices.Repeat(values[:4], 4)...), dumpOfItems(t, values...)
	for _, refuses := range []error{kv.ErrTooLarge, kv.ErrTooOld, errDiskFull} {
		db := testkit.NewStrict(testkit.NewMemory(t, kv.Limits{}), 3, refuses)
		report, err := conq.Load(t.Context(), db, bytes.NewReader(all))
		if refuses == errDiskFull {
			testkit.WantError(t, err, errDiskFull)
			testkit.Equal(t, "refused", db.Refused, 1)
			testkit.Equal(t, "items", report.Items, 0)
			continue
		}
		testkit.NoError(t, err)
		testkit.Equal(t, "items", report.Items, 16)
		holds(t, db).equal(t, "in parts", holding{"q": append([]string{"queue"}, slices.Repeat(values[:4], 4)...)})
		report, err = conq.Load(t.Context(), testkit.NewStrict(testkit.NewMemory(t, kv.Limits{}), 100, refuses), bytes.NewReader(parts))
		testkit.WantError(t, err, refuses, `queue "q": item 5 of the dump: `)
		testkit.Equal(t, "items", report.Items, 4)
	}
}

// No transaction is tried that the limits of the engine do not allow, and all is in.
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
			db := testkit.NewStrict(testkit.NewMemory(t, limits), 1000, kv.ErrTooLarge)
			loadAll(t, db, dump, conq.LoadOptions{})
			holds(t, db).equal(t, name, holding{"q": append([]string{"queue"}, values...)})
			testkit.Equal(t, fmt.Sprintf("%s: refused with %+v", name, limits), db.Refused, 0)
		}
	}
}

// A queue that can't be cleared, or whose last items before a broken place can't be put in, is that error.
func TestLoadStoreFails(t *testing.T) {
	dump := dumpOfItems(t, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	for _, c := range []struct {
		dump []byte
		o    conq.LoadOptions
	}{{dump, conq.LoadOptions{Existing: conq.ExistingReplace}}, {dump[:80_000], conq.LoadOptions{}}} {
		db := testkit.NewStrict(testkit.NewMemory(t, kv.Limits{}), 100, errDiskFull)
		testkit.NoError(t, testkit.Drop(conq.OpenQueue(t.Context(), db, "q", conq.String())))
		db.Attempt = func(tx kv.Tx) kv.Tx { return &testkit.StrictTx{Tx: tx, Left: -1} }
		report, err := conq.Load(t.Context(), db, bytes.NewReader(c.dump), c.o)
		testkit.WantError(t, err, errDiskFull)
		testkit.Equal(t, "refused", db.Refused, 1)
		testkit.Equal(t, "whole", report.Queues[0].Whole, false)
	}
}

// While the outcome is unknown, and the context ends, the items that may be in are told by number.
func TestLoadUnknown(t *testing.T) {
	dump := dumpOfItems(t, slices.Repeat([]string{"x"}, 1005)...)
	for _, in := range []int{0, 1000} { // items of a transaction before
		ctx, cancel := context.WithCancelCause(t.Context())
		commits := 0
		db := faulty.New(testkit.NewMemory(t, kv.Limits{}), 1, faulty.Options{Choose: func() faulty.Fate {
			known := 1 + in/1000 // the first one opens the queue
			if commits++; commits == 4+known {
				cancel(errCancelled)
			}
			if commits > known {
				return faulty.Fate{Outcome: faulty.Dropped}
			}
			return faulty.Fate{}
		}})
		report, err := conq.Load(ctx, db, bytes.NewReader(dump))
		testkit.WantError(t, err, kv.ErrCommitUnknown, fmt.Sprintf(`queue "q": items %d to %d of the dump may or may not be in`, in+1, min(in+1000, 1005)))
		testkit.WantError(t, err, errCancelled)
		testkit.Equal(t, "items", report.Items, in)
	}
}

// A load leaves nothing of its own in the store.
func TestLoadLeavesNothing(t *testing.T) {
	db := faulty.New(testkit.NewMemory(t, kv.Limits{}), 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
	loadAll(t, db, dumpOfItems(t, "a", "b"), conq.LoadOptions{})
	for _, pair := range testkit.Stored(t, db) {
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
		db := testkit.NewMemory(t, small)
		ctx, cancel := context.WithCancelCause(t.Context())
		report, err := conq.Load(ctx, db, bytes.NewReader(dump), conq.LoadOptions{DryRun: dry, Progress: func(conq.Progress) { cancel(errCancelled) }})
		testkit.WantError(t, err, errCancelled)
		testkit.Equal(t, "items", report.Items, 10)
		testkit.Equal(t, "the next queue, which is empty, is whole", report.Queues[1].Whole, dry)
		_, found, err := conq.Lookup(t.Context(), db, "b")
		testkit.NoError(t, err)
		testkit.Equal(t, "the next queue is there", found, false)
	}
}

// What a reader has given before it failed is in, up to the last block that was whole; the error is
// the reader's, with the place.
func TestLoadReadFailsFlushed(t *testing.T) {
	dump := dumpOfItems(t, slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)...)
	db := testkit.NewMemory(t, kv.Limits{})
	n := 80_000
	report, err := conq.Load(t.Context(), db, io.MultiReader(bytes.NewReader(dump[:n]), iotest.ErrReader(errDiskFull)))
	testkit.WantError(t, err, errDiskFull, "conq: load: ", fmt.Sprintf("reading at byte %d", n))
	testkit.Equal(t, "the dump is said to be broken", errors.Is(err, conq.ErrDump), false)
	testkit.Equal(t, "items", report.Items, len(holds(t, db)["q"])-1)
	if report.Items < 60 {
		t.Errorf("%d items are in", report.Items)
	}
}
