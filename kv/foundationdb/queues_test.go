package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
)

// Keys count four times in what is sent to clear them, and the prefix with them. So a batch can be
// within the limits, and too large for the cluster all the same: then it comes in parts.
func TestBatchesOfLongKeys(t *testing.T) {
	const items = 4_000
	ctx := t.Context()
	for name, take := range map[string]func(*conq.Queue[string]) ([]string, error){
		"DequeueN":     func(q *conq.Queue[string]) ([]string, error) { return q.DequeueN(ctx, items) },
		"DequeueWaitN": func(q *conq.Queue[string]) ([]string, error) { return q.DequeueWaitN(ctx, items) },
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t, newDB(newFake(), Options{Prefix: bytes.Repeat([]byte("p"), maxPrefix)}))
			q := openQueue(t, db, conq.Options{})
			for range items / 1000 {
				testkit.NoError(t, q.EnqueueAll(context.Background(), make([]string, 1000)))
			}
			for left, calls := items, 0; left > 0; calls++ {
				got, err := take(q)
				testkit.NoError(t, err)
				if left -= len(got); len(got) == 0 || calls > 20 {
					t.Fatalf("call %d returned %d items; %d are left", calls, len(got), left)
				}
			}
			if _, err := q.Dequeue(ctx); !errors.Is(err, conq.ErrEmpty) {
				t.Errorf("more than was put in: %v", err)
			}
		})
	}
}
