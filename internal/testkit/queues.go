package testkit

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// Laid returns where the items of "q", a queue, or of another name, a priority queue, are.
func Laid(name string) *layout.Queue {
	kind := queue.KindPriorityQueue
	if name == "q" {
		kind = queue.KindQueue
	}
	return layout.New(name, kind, kv.Limits{})
}

// Together runs f in so many goroutines and waits for them.
func Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// EqualPairs ends the test unless both are the same.
func EqualPairs(t TB, got, want []kv.KeyValue) {
	t.Helper()
	Equal(t, "store", fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
}

// Abandon makes the first item of a queue the result of a staged request that
// nobody collects, as docs/reference/format.md describes it.
func Abandon(tx kv.Tx, q *layout.Queue) error {
	return AbandonThose(tx, q, tx.Range(q.Items, kv.RangeOptions{Limit: 1}))
}

// AbandonThose does so with items that it is given, each with its own request.
func AbandonThose(tx kv.Tx, q *layout.Queue, items iter.Seq2[kv.KeyValue, error]) error {
	for item, err := range items {
		if err != nil {
			return err
		}
		deadline, op := time.Now().Add(10*time.Second).UnixNano(), make([]byte, 16)
		rand.Read(op)
		key := func(elems ...any) []byte {
			key, err := tuple.Tuple(elems).Append(layout.Stage(q.Name).Bytes())
			if err != nil {
				panic(err)
			}
			return key
		}
		tx.Clear(item.Key)
		tx.Set(key(2, deadline, op, 0, item.Key), item.Value)
		elems, err := tuple.Unpack(q.Fields(item.Key))
		if err != nil {
			return err
		}
		tx.Set(key(append(append(tuple.Tuple{3}, elems[:q.Integers]...), deadline, op)...), nil)
	}
	return nil
}

// Storms are faults under which every verb must still happen once.
var Storms = map[string]faulty.Options{
	"dropped":  {Dropped: 0.3},
	"applied":  {Applied: 0.3},
	"late":     {Late: 0.3, LateSteps: 30},
	"too old":  {TooOld: 0.005, Dropped: 0.1, Applied: 0.1},
	"all":      {Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, LateSteps: 50},
	"all slow": {Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, Delay: 0.3, MaxDelay: 5 * time.Millisecond},
}

// Packed returns a tuple as bytes, behind a prefix.
func Packed(t TB, prefix []byte, elems ...any) []byte {
	t.Helper()
	key, err := tuple.Tuple(elems).Append(bytes.Clone(prefix))
	NoError(t, err)
	return key
}
