package queues

import (
	"errors"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
)

// What is too large for a transaction is tried with half of the items, down to a single one, whose error
// it is then. The next call is not bound by that.
func TestTakeRefused(t *testing.T) {
	db := testkit.NewStrict(testkit.NewMemory(t, kv.Limits{}), 100, kv.ErrTooLarge)
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{Staging: conq.StagingNever})
	testkit.NoError(t, err)
	values := strings.Fields("a b c d e f g h")
	testkit.NoError(t, q.EnqueueAll(t.Context(), values))
	attempt := db.Attempt
	db.Attempt = func(tx kv.Tx) kv.Tx { return &testkit.StrictTx{Tx: tx, Left: -1} }
	testkit.WantError(t, drop(q.DequeueN(t.Context(), 8)), kv.ErrTooLarge)
	testkit.Equal(t, "tries: of 8, 4, 2 and 1", db.Refused, 4)
	db.Attempt = attempt
	for range 20 { // what is used again is that of earlier calls, mostly
		got, err := q.DequeueN(t.Context(), 8)
		testkit.NoError(t, err)
		testkit.EqualSlices(t, "items", got, values)
		testkit.NoError(t, q.EnqueueAll(t.Context(), values))
	}
}

// A batch takes no more than maxBatchBytes, so that it fits in memory.
func TestBatchBytes(t *testing.T) {
	q, err := conq.OpenQueue(t.Context(), engines.Embedded(t), "q", conq.Bytes())
	testkit.NoError(t, err)
	for range 10 {
		testkit.NoError(t, q.Enqueue(t.Context(), make([]byte, 1<<20)))
	}
	got, err := q.DequeueN(t.Context(), 10)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", len(got), 7) // as keys count, too
}

// What fails is no event.
func TestNoEventsOfFailures(t *testing.T) {
	for _, alone := range []bool{false, true} {
		events := 0
		db := testkit.NewStrict(testkit.NewMemory(t, kv.Limits{}), 100, errDiskFull)
		q, err := conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{NoCombining: alone, Staging: conq.StagingNever, Observe: func(conq.Event) { events++ }})
		testkit.NoError(t, err)
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		testkit.Equal(t, "events", events, 1)
		db.Attempt = func(tx kv.Tx) kv.Tx { return &testkit.StrictTx{Tx: tx, Left: -1} }
		testkit.WantError(t, q.Enqueue(t.Context(), "b"), errDiskFull)
		testkit.WantError(t, drop(q.Dequeue(t.Context())), errDiskFull)
		testkit.Equal(t, "events of what has failed", events, 1)
	}
}

var errDiskFull = errors.New("disk is full")
