package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// toy is a queue in memory that does what a test wants to be noticed.
type toy struct {
	inProcess
	shared
	mu     sync.Mutex
	values [][]byte
	takes  int
	put1   func(*toy, []byte) error
	take1  func(*toy) ([]byte, error)
}

func (q *toy) client(context.Context) (client, error) { return q, nil }

func (q *toy) put(_ context.Context, value []byte, _ int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	value = append([]byte(nil), value...)
	if q.put1 != nil {
		return q.put1(q, value)
	}
	q.values = append(q.values, value)
	return nil
}

func (q *toy) take(context.Context, bool) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.values) == 0 {
		return nil, errEmpty
	}
	q.takes++
	if q.take1 != nil {
		return q.take1(q)
	}
	value := q.values[0]
	q.values = q.values[1:]
	return value, nil
}

func measureToy(t *testing.T, q *toy, s system) (measured, error) {
	t.Helper()
	s.open = func(context.Context, env) (peer, error) { return q, nil }
	return measureIn(t.Context(), t.TempDir(), settings{Payload: 32, Items: 200, Time: time.Minute, Priorities: 3}, shape{4, 3}, s)
}

func TestPhases(t *testing.T) {
	m, err := measureToy(t, &toy{}, system{name: "toy", order: fifo})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]result{"fill": m.Fill, "drain": m.Drain, "transfer": m.Transfer} {
		if r.Items != 200 || r.Seconds <= 0 || r.Rate <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
		if (r.Put.P99 > 0) != (name != "drain") || (r.Take.P99 > 0) != (name != "fill") {
			t.Errorf("%s: latencies of the wrong calls: %+v", name, r)
		}
	}
}

// Time ends a fill, and then a drain takes what is there.
func TestTimeEndsAPhase(t *testing.T) {
	s := system{name: "toy", order: fifo, open: func(context.Context, env) (peer, error) { return &toy{}, nil }}
	m, err := measureIn(t.Context(), t.TempDir(), settings{Payload: 32, Items: 1e7, Time: time.Millisecond, Priorities: 3}, shape{2, 2}, s)
	if err != nil {
		t.Fatal(err)
	}
	if m.Fill.Items == 0 || m.Fill.Items == 1e7 || m.Drain.Items != m.Fill.Items || m.Transfer.Items == 0 {
		t.Errorf("%d, %d and %d items", m.Fill.Items, m.Drain.Items, m.Transfer.Items)
	}
}

// Whatever a system does wrong is an error.
func TestWrongSystems(t *testing.T) {
	broken := errors.New("broken")
	at := 100 // takes, of which the first 40 are for the warm-up
	for name, c := range map[string]struct {
		q     *toy
		order order
		want  string
	}{
		"loses the last when the queue is full": {&toy{put1: func(q *toy, v []byte) error {
			if len(q.values) < 199 {
				q.values = append(q.values, v)
			}
			return nil
		}}, unordered, "199 of 200 items had come out when the time was over"},
		"gives an item twice": {&toy{take1: func(q *toy) ([]byte, error) {
			v := q.values[0]
			if q.takes != at {
				q.values = q.values[1:]
			}
			return v, nil
		}}, unordered, "came out twice"},
		"changes an item": {&toy{take1: func(q *toy) ([]byte, error) {
			v := q.values[0]
			q.values = q.values[1:]
			if q.takes == at {
				v[20]++
			}
			return v, nil
		}}, unordered, "that did not go in"},
		"is a stack": {&toy{take1: func(q *toy) ([]byte, error) {
			v := q.values[len(q.values)-1]
			q.values = q.values[:len(q.values)-1]
			return v, nil
		}}, fifo, "which its producer put later"},
		"forgets priorities": {&toy{}, byPriority, "an item of priority"},
		"fails to put":       {&toy{put1: func(*toy, []byte) error { return broken }}, fifo, "put: broken"},
		"fails to take":      {&toy{take1: func(*toy) ([]byte, error) { return nil, broken }}, fifo, "take: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := system{name: "toy", order: c.order, priority: c.order == byPriority}
			s.open = func(context.Context, env) (peer, error) { return c.q, nil }
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // for the one that waits for ever
			defer cancel()
			_, err := measureIn(ctx, t.TempDir(), settings{Payload: 32, Items: 200, Time: time.Minute, Priorities: 3}, shape{4, 1}, s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// What is missing, or fails, is said, and the rest goes on.
func TestRunGoesOn(t *testing.T) {
	good := system{name: "good", open: func(context.Context, env) (peer, error) { return &toy{}, nil }}
	bad := system{name: "bad", open: func(context.Context, env) (peer, error) { return nil, errors.New("does not open") }}
	absent := system{name: "absent", missing: debian("no-such-program", "some-package"), open: bad.open}
	limited := good
	limited.name, limited.atMost, limited.whyAtMost = "limited", 5, "it is slow"
	var progress strings.Builder
	s := settings{Shapes: []shape{{2, 2}}, Payload: 32, Items: 50, Time: time.Minute, Priorities: 3, Runs: 3}
	r := runAll(t.Context(), t.TempDir(), s, []system{absent, bad, limited, good}, &progress)
	var b strings.Builder
	r.print(&b)
	contains(t, b.String(), "absent was left out. no-such-program is missing: apt-get install some-package",
		"2x2 bad failed: does not open", "limited got at most 5 items: it is slow")
	if !r.failed() || len(r.Lines[3].Runs) != 3 || len(r.Lines[1].Errors) != 3 || r.Lines[2].Runs[0].Fill.Items != 5 {
		t.Errorf("failed %v:\n%s", r.failed(), &b)
	}
	r = runAll(t.Context(), t.TempDir(), s, []system{absent, good}, &progress)
	if r.failed() {
		t.Error("what is missing counts as a failure")
	}
}

// An interrupted run leaves nothing behind, and has what was measured until then.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	good := system{name: "good", open: func(context.Context, env) (peer, error) { return &toy{}, nil }}
	stuck := system{name: "stuck", open: func(context.Context, env) (peer, error) {
		return &toy{take1: func(q *toy) ([]byte, error) {
			cancel()
			return nil, errEmpty
		}}, nil
	}}
	dir := t.TempDir()
	s := settings{Shapes: []shape{{2, 2}}, Payload: 32, Items: 50, Time: time.Minute, Priorities: 3, Runs: 1}
	r := runAll(ctx, dir, s, []system{good, stuck, good}, &strings.Builder{})
	if !r.Interrupted || !r.failed() || r.Lines[0].Median == nil || r.Lines[1].Median != nil || r.Lines[2].Median != nil {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// Each client has a context of its own, and a panic of a peer is an error.
func TestClientsContexts(t *testing.T) {
	var mu sync.Mutex
	seen := map[context.Context]bool{}
	for range 3 {
		err := ofItsOwn(t.Context(), func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			seen[ctx] = true
			return nil
		})()
		if err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 3 || seen[t.Context()] {
		t.Errorf("3 clients have %d contexts, the common one among them: %v", len(seen), seen[t.Context()])
	}
	if err := recovered(func() error { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a panic became %v", err)
	}
}
