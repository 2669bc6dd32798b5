package queues

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

func TestNames(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	for _, name := range []string{"a", "ä/\xe2\x82\xac", "\x01", " ", strings.Repeat("n", conq.MaxName), "conq", "ÿ"} {
		q, err := conq.OpenQueue(t.Context(), db, name, conq.String())
		testkit.NoError(t, err)
		testkit.Equal(t, "name", q.Name(), name)
		testkit.NoError(t, q.Enqueue(t.Context(), name))
		v, err := q.Dequeue(t.Context())
		testkit.NoError(t, err)
		testkit.Equal(t, "item", v, name)
	}
	cases := map[string]string{
		"":                                     "empty",
		strings.Repeat("n", 10_000):            "it has 10000 bytes, 1024 are allowed",
		strings.Repeat("n", conq.MaxName+1):    "1025 bytes",
		"a\x00b":                               `"a\x00b" has a NUL byte`,
		"a\xffb":                               `"a\xffb" is not UTF-8`,
		strings.Repeat("\xff", conq.MaxName+1): "1025 bytes",
	}
	before := testkit.Everything(t, db)
	for name, text := range cases {
		testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, name, conq.String())), conq.ErrName, text)
		testkit.WantError(t, drop(conq.OpenPriorityQueue(t.Context(), db, name, conq.String())), conq.ErrName, text)
		_, _, err := conq.Lookup(t.Context(), db, name)
		testkit.WantError(t, err, conq.ErrName, text)
	}
	testkit.EqualPairs(t, testkit.Everything(t, db), before)
}

// No queue's items can be met by another queue, nor by the catalogue.
func TestQueuesAreApart(t *testing.T) {
	db := &testkit.Hooked{DB: testkit.NewMemory(t, kv.Limits{}), Bounds: kv.Limits{Value: 2}}
	names := []string{"a", "aa", "a\x01", "b", "conq", "queue", "piece"}
	for _, name := range names {
		q, err := conq.OpenQueue(t.Context(), db, name, conq.String())
		testkit.NoError(t, err)
		testkit.NoError(t, q.Enqueue(t.Context(), "item of "+name))
	}
	for i, name := range names {
		q, err := conq.OpenQueue(t.Context(), db, name, conq.String())
		testkit.NoError(t, err)
		testkit.EqualSlices(t, "items", testkit.List(t, q.All(t.Context())), []string{"item of " + name})
		if i%2 == 0 {
			testkit.NoError(t, q.Clear(t.Context()))
		} else {
			testkit.NoError(t, drop(q.Dequeue(t.Context())))
		}
	}
	testkit.Equal(t, "keys left", len(testkit.Stored(t, db)), 0)
	infos, err := conq.Queues(t.Context(), db)
	testkit.NoError(t, err)
	testkit.Equal(t, "queues", len(infos), len(names))
}

func TestNilAndZero(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	var noContext context.Context
	var zeroQ conq.Queue[string]
	var zeroP conq.PriorityQueue[string]
	all := func(seq func(func(string, error) bool)) error {
		for _, err := range seq {
			return err
		}
		return nil
	}
	errs := map[string]error{
		"nil db":              drop(conq.OpenQueue(t.Context(), nil, "q", conq.String())),
		"nil codec":           drop(conq.OpenQueue[string](t.Context(), f.db, "q", nil)),
		"nil db, priority":    drop(conq.OpenPriorityQueue(t.Context(), nil, "q", conq.String())),
		"nil codec, priority": drop(conq.OpenPriorityQueue[string](t.Context(), f.db, "q", nil)),
		"no such staging":     drop(conq.OpenQueue(t.Context(), f.db, "q", conq.String(), conq.Options{Staging: conq.StagingAuto - 1})),
		"nor this":            drop(conq.OpenQueue(t.Context(), f.db, "q", conq.String(), conq.Options{Staging: 3})),
		"two options":         drop(conq.OpenQueue(t.Context(), f.db, "q", conq.String(), conq.Options{}, conq.Options{})),
		"Queues of nil":       drop(conq.Queues(f.ctx, nil)),
		"zero Enqueue":        zeroQ.Enqueue(f.ctx, "v"),
		"zero Dequeue":        drop(zeroQ.Dequeue(f.ctx)),
		"zero DequeueN":       drop(zeroQ.DequeueN(f.ctx, 1)),
		"zero Peek":           drop(zeroQ.Peek(f.ctx)),
		"zero Len":            drop(zeroQ.Len(f.ctx)),
		"zero Clear":          zeroQ.Clear(f.ctx),
		"zero All":            all(zeroQ.All(f.ctx)),
		"zero Push":           zeroP.Push(f.ctx, "v", 1),
		"zero PopMax":         drop(zeroP.PopMax(f.ctx)),
		"zero DequeueWait":    drop(zeroQ.DequeueWait(f.ctx)),
		"zero DequeueWaitN":   drop(zeroQ.DequeueWaitN(f.ctx, 1)),
		"zero Reclaim":        zeroQ.Reclaim(f.ctx),
		"zero PushAll":        zeroP.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "v", Priority: 1}}),
		"zero PopMin":         drop(zeroP.PopMin(f.ctx)),
		"zero PopN Min":       drop(zeroP.PopN(f.ctx, conq.Min, 1)),
		"zero PopN Max":       drop(zeroP.PopN(f.ctx, conq.Max, 1)),
		"zero PopWait Min":    drop(zeroP.PopWait(f.ctx, conq.Min)),
		"zero PopWaitN Min":   drop(zeroP.PopWaitN(f.ctx, conq.Min, 1)),
		"zero PopWait Max":    drop(zeroP.PopWait(f.ctx, conq.Max)),
		"zero PopWaitN Max":   drop(zeroP.PopWaitN(f.ctx, conq.Max, 1)),
		"zero In":             drop(conq.QueueTx[string]{}.Dequeue()),
		"zero In Len":         drop(conq.QueueTx[string]{}.Len()),
		"zero In All":         all(conq.QueueTx[string]{}.All()),
		"zero In Len, p":      drop(conq.PriorityQueueTx[string]{}.Len()),
		"zero In, priority":   drop(conq.PriorityQueueTx[string]{}.PopMin()),
		"nil ctx Enqueue":     f.q.Enqueue(noContext, "v"),
		"nil ctx Peek":        drop(f.q.Peek(noContext)),
		"nil ctx DequeueN":    drop(f.q.DequeueN(noContext, 1)),
		"nil ctx PopWait Max": drop(f.p.PopWait(noContext, conq.Max)),
		"nil ctx All":         all(f.q.All(noContext)),
		"nil ctx Queues":      drop(conq.Queues(noContext, f.db)),
		"batch of 0":          drop(f.q.DequeueN(f.ctx, 0)),
		"batch of -1":         drop(f.q.DequeueN(f.ctx, -1)),
		"batch of MinInt":     drop(f.p.PopN(f.ctx, conq.Max, math.MinInt)),
		"batch of 0, lowest":  drop(f.p.PopN(f.ctx, conq.Min, 0)),
	}
	for verb, err := range verbsIn(f, nil) {
		errs["In nil "+verb] = err
	}
	testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
		errs["batch of 0 in a transaction"] = drop(f.q.In(tx).DequeueN(0))
		errs["batch of -1 in a transaction"] = drop(f.pf.In(tx).PopN(conq.Max, -1))
		return nil
	}))
	for what, err := range errs {
		if err == nil || !strings.HasPrefix(err.Error(), "conq: ") || !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%s: error %v, want one of this package that matches kv.ErrInvalid", what, err)
		}
	}
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, nil))
	testkit.NoError(t, f.p.PushAll(f.ctx, nil))
	testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 0)
}

// Values that do not decode stay in the queue.
func TestCorruptValues(t *testing.T) {
	type point struct{ X int }
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	raw, err := conq.OpenQueue(t.Context(), f.db, "q", conq.Bytes())
	testkit.NoError(t, err)
	testkit.NoError(t, raw.Enqueue(f.ctx, []byte("\xff")))
	testkit.WantError(t, drop(f.q.Dequeue(f.ctx)), conq.ErrDecode, `queue "q"`, "02710015", "not UTF-8")
	dequeue := map[string]func() error{
		"JSON":  func() error { return dequeueWith(t, f, conq.JSON[point]()) },
		"Tuple": func() error { return dequeueWith(t, f, conq.Tuple[string]()) },
		"any":   func() error { return dequeueWith(t, f, conq.Tuple[any]()) },
		"own":   func() error { return dequeueWith[int](t, f, refusing{}) },
	}
	for name, dequeue := range dequeue {
		t.Run(name, func(t *testing.T) { testkit.WantError(t, dequeue(), conq.ErrDecode, `queue "q"`) })
	}
	testkit.WantError(t, dequeueWith[int](t, f, refusing{}), errRefused)
	b, err := raw.Dequeue(f.ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "the item", string(b), "\xff")
}

func dequeueWith[T any](t *testing.T, f fixture, c conq.Codec[T]) error {
	t.Helper()
	q, err := conq.OpenQueue(t.Context(), f.db, "q", c)
	testkit.NoError(t, err)
	_, err = q.Dequeue(f.ctx)
	return err
}

var errRefused = errors.New("refused")

type refusing struct{}

func (refusing) Encode(int) ([]byte, error) { return nil, errRefused }
func (refusing) Decode([]byte) (int, error) { return 0, errRefused }

// Values that do not encode change nothing, and are named by their position.
func TestEncodeErrors(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	q, err := conq.OpenQueue[int](t.Context(), f.db, "q", refusing{})
	testkit.NoError(t, err)
	testkit.WantError(t, q.Enqueue(f.ctx, 1), errRefused, `queue "q"`)
	_, errNotUTF8 := conq.String().Encode("\xff")
	testkit.WantError(t, f.q.EnqueueAll(f.ctx, []string{"a", "\xff"}), errNotUTF8, "value 2 of 2")
	testkit.WantError(t, f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "\xff", Priority: 1}, {Value: "b", Priority: 2}}), errNotUTF8, "value 1 of 2")
	testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 0)
}

// The last index there is ends the queue, also if its item is staged, and may come back: an error, and nothing is
// written.
func TestLastIndexStaged(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{Shared: true}), nil)
	random := make([]byte, 20)
	testkit.Write(t, f.db,
		kv.KeyValue{Key: testkit.Packed(t, testkit.Laid("q").Prefix(), int64(math.MaxInt64), random)},
		kv.KeyValue{Key: testkit.Packed(t, testkit.Laid("p").Prefix(), 7, int64(math.MaxInt64), random)})
	testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
		return errors.Join(testkit.Abandon(tx, testkit.Laid("q")), testkit.Abandon(tx, testkit.Laid("p")))
	}))
	before := testkit.Everything(t, f.db)
	testkit.WantError(t, f.q.Enqueue(f.ctx, "a"), recipe.ErrNoIndex, `queue "q"`)
	testkit.WantError(t, f.p.Push(f.ctx, "a", 7), recipe.ErrNoIndex, `queue "p"`)
	testkit.EqualPairs(t, testkit.Everything(t, f.db), before)
	testkit.NoError(t, f.p.Push(f.ctx, "other priority", 8))
}

// A random source that goes on to return nothing is given up, and one that does so for a while is not.
func TestRandomNoProgress(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	f := newFixture(t, db, &testkit.Halting{Reader: rand.Reader, Left: 1 << 20})
	testkit.WantError(t, f.q.EnqueueAll(f.ctx, []string{"a", "b"}), io.ErrNoProgress)
	testkit.WantError(t, f.p.Push(f.ctx, "a", 1), io.ErrNoProgress)
	testkit.WantError(t, db.Transact(f.ctx, func(tx kv.Tx) error { return f.q.In(tx).Enqueue("a") }), io.ErrNoProgress)
	testkit.Equal(t, "keys", len(testkit.Stored(t, db)), 0)

	f = newFixture(t, db, &testkit.Halting{Reader: rand.Reader, Empty: 50})
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, []string{"a", "b"}))
	testkit.NoError(t, f.p.Push(f.ctx, "a", 1))
	testkit.Equal(t, "keys", len(testkit.Stored(t, db)), 3)
}

// Errors of the store come through.
func TestStoreErrors(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(errCancelled)
	testkit.WantError(t, f.q.Enqueue(ctx, "v"), errCancelled)
	testkit.WantError(t, drop(f.q.Dequeue(ctx)), errCancelled)
	testkit.WantError(t, drop(f.q.Peek(ctx)), errCancelled)
	testkit.WantError(t, drop(f.q.Len(ctx)), errCancelled)
	testkit.WantError(t, f.p.Push(ctx, "v", 1), errCancelled)
	testkit.WantError(t, drop(f.p.PopMin(ctx)), errCancelled)
	testkit.WantError(t, drop(f.p.PopMax(ctx)), errCancelled)
	testkit.WantError(t, drop(f.p.PopWait(ctx, conq.Min)), errCancelled)
	testkit.WantError(t, drop(f.p.PopWait(ctx, conq.Max)), errCancelled)
	testkit.WantError(t, f.q.Clear(ctx), errCancelled)
	testkit.WantError(t, f.p.Clear(ctx), errCancelled)
	testkit.WantError(t, drop(conq.Queues(ctx, f.db)), errCancelled)
	testkit.NoError(t, f.db.Close())
	testkit.WantError(t, f.q.Enqueue(f.ctx, "v"), kv.ErrClosed)
	testkit.WantError(t, drop(f.q.Dequeue(f.ctx)), kv.ErrClosed)
	testkit.WantError(t, drop(f.p.Peek(f.ctx, conq.Max)), kv.ErrClosed)
	testkit.WantError(t, drop(conq.OpenQueue(f.ctx, f.db, "q", conq.String())), kv.ErrClosed)
	testkit.WantError(t, drop(conq.OpenQueue(f.ctx, f.db, "new", conq.String())), kv.ErrClosed)
}

// Without random bytes for its key nothing is added, also if there are some for others of a batch.
func TestNoRandomBytes(t *testing.T) {
	for left, batch := range map[int]int{0: 2, 50: 3} {
		random := io.MultiReader(strings.NewReader(strings.Repeat("r", left)), iotest.ErrReader(errEnough))
		f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), random)
		many := make([]conq.Prioritized[string], 128)
		for _, add := range []func(kv.Tx) error{
			func(kv.Tx) error { return f.q.EnqueueAll(f.ctx, make([]string, batch)) }, // the first one, which reads what there is
			func(kv.Tx) error { return f.q.Enqueue(f.ctx, "v") },
			func(kv.Tx) error { return f.p.Push(f.ctx, "v", 1) },
			func(kv.Tx) error { return f.p.PushAll(f.ctx, many) },
			func(tx kv.Tx) error { return f.q.In(tx).Enqueue("v") },
			func(tx kv.Tx) error { return f.p.In(tx).Push("v", 1) },
		} {
			testkit.WantError(t, f.db.Transact(f.ctx, add), errEnough, "no random bytes")
			testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 0)
		}
	}
}

// unlimited is a store without limits of sizes.
type unlimited struct{ kv.DB }

func (unlimited) Limits() kv.Limits { return kv.Limits{} }

func TestNoLimits(t *testing.T) {
	f := newFixture(t, unlimited{testkit.NewMemory(t, kv.Limits{Value: 1 << 20, Transaction: 4 << 20})}, nil)
	item := strings.Repeat("x", 1<<20)
	testkit.NoError(t, f.q.Enqueue(f.ctx, item))
	got, err := f.q.Dequeue(f.ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "item", got == item, true)
}
