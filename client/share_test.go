package client_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/queue"
)

// Calls that share a request each get an item while there are some, though one answer has no room for all.
func TestShareLargeItems(t *testing.T) {
	const callers = 48
	q, err := client.OpenQueue(t.Context(), newClient(t), "q", queue.String())
	testkit.NoError(t, err)
	for range 2 { // as much as a transaction takes
		testkit.NoError(t, q.EnqueueAll(t.Context(), slices.Repeat([]string{strings.Repeat("x", 256<<10)}, callers/2)))
	}
	var group sync.WaitGroup
	for range callers {
		group.Go(func() { testkit.Check(t, testkit.Drop(q.Dequeue(context.Background()))) })
	}
	group.Wait()
	testkit.WantError(t, testkit.Drop(q.Dequeue(t.Context())), queue.ErrEmpty)
}
