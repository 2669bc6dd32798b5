package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/google/go-cmp/cmp"
)

// idsOf returns the jobs of a list.
func idsOf(t *testing.T, q *Queue[string], f Filter) (ids []ID) {
	t.Helper()
	for info, err := range q.List(context.Background(), f) {
		testkit.NoError(t, err)
		ids = append(ids, info.ID)
	}
	return ids
}

func TestFilters(t *testing.T) {
	ctx := context.Background()
	now := &handClock{t: time.Unix(1_000_000, 0)}
	q, err := Open(ctx, memory.New(memory.Options{}), "q", queue.String(), Options{Holder: "me"})
	testkit.NoError(t, err)
	defer q.Close()
	q.now = now.now
	var ids []ID
	for i := range 250 { // more than a page
		id, err := q.Put(ctx, fmt.Sprint(i))
		testkit.NoError(t, err)
		ids = append(ids, id)
		now.add(time.Second)
	}
	_, err = q.ReserveWaitN(ctx, 2)
	testkit.NoError(t, err)
	for _, c := range []struct {
		name        string
		filter      Filter
		first, last ID
		n           int
	}{
		{"reverse", Filter{Reverse: true}, ids[249], ids[0], 250},
		{"reverse, of a state", Filter{Reverse: true, State: Ready}, ids[249], ids[2], 248},
		{"holder", Filter{Holder: "me"}, ids[0], ids[1], 2},
		{"another holder", Filter{Holder: "you"}, 0, 0, 0},
		{"before", Filter{Before: time.Unix(1_000_003, 0)}, ids[0], ids[2], 3},
		{"before the first", Filter{Before: time.Unix(1_000_000, 0)}, 0, 0, 0},
		{"before 1970", Filter{Before: time.Unix(0, 0)}, 0, 0, 0},
	} {
		got := idsOf(t, q, c.filter)
		if len(got) != c.n || c.n > 0 && (got[0] != c.first || got[len(got)-1] != c.last) {
			t.Errorf("%s: %d jobs: %v", c.name, len(got), got)
		}
		told := 0
		n, err := q.Count(ctx, c.filter, func(n int) { told = n })
		testkit.NoError(t, err)
		if n != c.n || told != n {
			t.Errorf("%s: Count is %d, and has told %d; want %d", c.name, n, told, c.n)
		}
	}
}

// A lease that an operator ends is lost to its holder, and its job is ready again, or dead after its last attempt.
func TestEndLease(t *testing.T) {
	ctx := context.Background()
	q, err := Open(ctx, memory.New(memory.Options{}), "q", queue.String(), Options{Settings: &Settings{MaxAttempts: 2, Concurrency: 5}, Holder: "me"})
	testkit.NoError(t, err)
	defer q.Close()
	_, err = q.Put(ctx, "a")
	testkit.NoError(t, err)
	_, err = q.Put(ctx, "b")
	testkit.NoError(t, err)
	leases, err := q.ReserveWaitN(ctx, 2)
	testkit.NoError(t, err)
	testkit.NoError(t, q.EndLease(ctx, leases[0].ID))
	if err := leases[0].Ack(ctx); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("Ack of a lease that was ended: %v", err)
	}
	if err := q.EndLease(ctx, leases[0].ID); !errors.Is(err, ErrState) {
		t.Errorf("EndLease of a job that nobody holds: %v", err)
	}
	if err := q.EndLease(ctx, 999); !errors.Is(err, ErrNotFound) {
		t.Errorf("EndLease of no job: %v", err)
	}
	stats(t, q, Stats{Ready: 1, Leased: 1})
	_, err = q.ReserveWait(ctx)
	testkit.NoError(t, err)
	n, err := q.EndLeases(ctx, Filter{State: Leased, Holder: "me"}, nil)
	testkit.NoError(t, err)
	if n != 2 {
		t.Errorf("EndLeases has ended %d, want 2", n)
	}
	stats(t, q, Stats{Ready: 1, Dead: 1})
	testkit.NoError(t, q.view(ctx, func(r kv.Reader) error {
		problems, err := q.recipe.Check(r)
		if len(problems) > 0 {
			t.Errorf("the queue is not as it should be: %v", problems)
		}
		return err
	}))
}

func stats(t *testing.T, q *Queue[string], want Stats) {
	t.Helper()
	got, err := q.Stats(context.Background())
	testkit.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states differ (-want +got):\n%s", diff)
	}
}

// A page has some MiB of payloads at most, and a search looks into no more at once; Peek and List go on.
func TestLargeJobs(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{})
	large := strings.Repeat("x", pageBytes/4)
	for i := range 10 {
		_, err := q.Put(ctx, fmt.Sprint(i)+large)
		testkit.NoError(t, err)
	}
	page, next, err := q.Page(ctx, Filter{State: Ready}, nil, 10)
	testkit.NoError(t, err)
	if len(page) != 4 || next == nil {
		t.Errorf("a page has %d jobs, and goes on at %q", len(page), next)
	}
	page, next, err = q.Page(ctx, Filter{Contains: "9x"}, nil, 10)
	testkit.NoError(t, err)
	if len(page) != 0 || next == nil {
		t.Errorf("a search has found %d jobs at once, and goes on at %q", len(page), next)
	}
	peeked, err := q.Peek(ctx, 9)
	testkit.NoError(t, err)
	if len(peeked) != 9 || peeked[8].Value != "8"+large {
		t.Errorf("Peek has returned %d jobs", len(peeked))
	}
	if found := idsOf(t, q, Filter{Contains: "9x"}); len(found) != 1 {
		t.Errorf("the search has found %v", found)
	}
	for f, want := range map[Filter]int{{}: 10, {Contains: "9x"}: 1} {
		n, err := q.Count(ctx, f, nil)
		testkit.NoError(t, err)
		if n != want {
			t.Errorf("Count of %+v is %d, want %d", f, n, want)
		}
	}
	n, err := q.CancelAll(ctx, Filter{Contains: "x"}, nil)
	testkit.NoError(t, err)
	if n != 10 {
		t.Errorf("%d jobs were cancelled", n)
	}
}
