package work

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Observers are told of each job that is reserved, and how its attempt has ended.
func TestObserve(t *testing.T) {
	ctx := context.Background()
	now := &handClock{t: time.Unix(1_000_000, 0)}
	var events []Event
	q, err := Open(ctx, memory.New(memory.Options{}), "q", queue.String(), Options{Observe: func(e Event) { events = append(events, e) }})
	testkit.NoError(t, err)
	defer q.Close()
	q.now = now.now

	id, err := q.Put(ctx, "a")
	testkit.NoError(t, err)
	now.add(3 * time.Second)
	first, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, first.FailAfter(ctx, 0, errors.New("no")))
	now.add(5 * time.Second)
	second, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, second.Release(ctx, 0))
	third, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, third.Ack(ctx))

	want := []Event{
		{Kind: EventPut},
		{Kind: EventReserved, Each: []EventJob{{id, 3 * time.Second}}},
		{Kind: EventFailed, Each: []EventJob{{ID: id}}},
		{Kind: EventReserved, Each: []EventJob{{id, 5 * time.Second}}}, // since it has failed
		{Kind: EventEnded},
		{Kind: EventReserved, Each: []EventJob{{id, 0}}},
		{Kind: EventAcked, Each: []EventJob{{ID: id}}},
	}
	for i := range want {
		want[i].Queue, want[i].Jobs, want[i].Calls = "q", 1, 1
	}
	if diff := cmp.Diff(want, events, cmpopts.IgnoreFields(Event{}, "Attempts")); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}
