package queues

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
)

// setOf returns a store with a work queue that has n dead jobs, of which every second one contains "timeout".
func setOf(t *testing.T, n int) (*Set, *Work) {
	set := New(memory.New(memory.Options{}), Options{})
	q, release, err := set.Work(t.Context(), "q", Create)
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, set.Close()) })
	t.Cleanup(release)
	for i := range n {
		text := []string{"timeout", "refused"}[i%2]
		id, err := q.Put(t.Context(), []byte(fmt.Sprint(text, i)))
		testkit.NoError(t, err)
		testkit.NoError(t, q.Bury(t.Context(), id, text))
	}
	return set, q
}

func TestJobs(t *testing.T) {
	set, q := setOf(t, 10)
	for _, c := range []struct {
		change Change
		done   int64
		left   work.Stats
	}{
		{Change{Verb: Retry, Filter: work.Filter{Contains: "timeout"}}, 5, work.Stats{Ready: 5, Dead: 5}},
		{Change{Verb: Reprioritise, Filter: work.Filter{State: work.Ready}, Priority: 7}, 5, work.Stats{Ready: 5, Dead: 5}},
		{Change{Verb: Bury, Filter: work.Filter{Contains: "timeout4"}}, 1, work.Stats{Ready: 4, Dead: 6}},
		{Change{Verb: Cancel, Filter: work.Filter{State: work.Ready}}, 4, work.Stats{Dead: 10}},
		{Change{Verb: Kick}, 10, work.Stats{Ready: 10}},
		{Change{Verb: Delete}, 10, work.Stats{}},
	} {
		var tasks Tasks
		began, err := tasks.Jobs(t.Context(), set, Task{Queue: "q", By: "me"}, c.change)
		testkit.NoError(t, err)
		got, err := tasks.Wait(t.Context(), began.ID)
		testkit.NoError(t, err)
		if got.State != TaskDone || got.Done != c.done || got.By != "me" || got.Ended.IsZero() {
			t.Errorf("%v: %+v, want %d done", c.change, got, c.done)
		}
		left, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		if left != c.left {
			t.Errorf("%v leaves %+v, want %+v", c.change, left, c.left)
		}
		tasks.Close()
	}
}

func TestJobsErrors(t *testing.T) {
	set, _ := setOf(t, 0)
	var tasks Tasks
	defer tasks.Close()
	for _, c := range []struct {
		queue  string
		change Change
		want   error
	}{
		{"q", Change{Verb: "eat"}, kv.ErrInvalid},
		{"q", Change{Verb: Retry, Filter: work.Filter{State: work.Ready}}, kv.ErrInvalid},
		{"none", Change{Verb: Kick}, conq.ErrNoQueue},
	} {
		if _, err := tasks.Jobs(t.Context(), set, Task{Queue: c.queue, By: "me"}, c.change); !errors.Is(err, c.want) {
			t.Errorf("%v of %s: %v, want %v", c.change, c.queue, err, c.want)
		}
	}
	if _, err := tasks.Get("none"); !errors.Is(err, ErrNoTask) {
		t.Errorf("a task that is not there: %v", err)
	}
}

func start(t *testing.T, s *Tasks, w TaskFunc) Task {
	t.Helper()
	status, err := s.Start(Task{Total: -1}, w)
	testkit.NoError(t, err)
	return status
}

func waits(ctx context.Context, progress func(int)) (int, string, error) {
	progress(3)
	<-ctx.Done()
	return 4, "", ctx.Err()
}

func TestEnds(t *testing.T) {
	var s Tasks
	failing := errors.New("disk is full")
	for _, c := range []struct {
		name string
		work TaskFunc
		stop bool
		want TaskState
		err  error
	}{
		{"done", func(context.Context, func(int)) (int, string, error) { return 1, "", nil }, false, TaskDone, nil},
		{"failed", func(context.Context, func(int)) (int, string, error) { return 1, "", failing }, false, TaskFailed, failing},
		{"stopped", waits, true, TaskStopped, errStopped},
	} {
		began := start(t, &s, c.work)
		if c.stop {
			testkit.NoError(t, s.Stop(began.ID))
		}
		got, err := s.Wait(t.Context(), began.ID)
		testkit.NoError(t, err)
		if got.State != c.want || !errors.Is(got.Err, c.err) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	panics := start(t, &s, func(context.Context, func(int)) (int, string, error) { panic("oh") })
	if got, _ := s.Wait(t.Context(), panics.ID); got.State != TaskFailed || got.Err == nil {
		t.Errorf("after a panic: %+v", got)
	}
	open := start(t, &s, waits)
	s.Close()
	if got, _ := s.Get(open.ID); got.State != TaskStopped || got.Done != 4 {
		t.Errorf("after Close: %+v", got)
	}
	if _, err := s.Start(Task{}, waits); err == nil {
		t.Error("a task begins after Close")
	}
}

func TestBounds(t *testing.T) {
	var s Tasks
	defer s.Close()
	for range maxRunning {
		start(t, &s, waits)
	}
	if _, err := s.Start(Task{}, waits); !errors.Is(err, ErrTooManyTasks) {
		t.Errorf("one task too many: %v", err)
	}
	testkit.NoError(t, s.Stop(s.All()[0].ID))
	if _, err := s.Wait(t.Context(), s.All()[0].ID); err != nil {
		t.Error(err)
	}
	for range 2 * maxKept {
		status := start(t, &s, func(context.Context, func(int)) (int, string, error) { return 0, "", nil })
		_, err := s.Wait(t.Context(), status.ID)
		testkit.NoError(t, err)
	}
	if n := len(s.All()); n > maxKept+1 {
		t.Errorf("%d tasks are kept", n)
	}
}
