package handle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// waves are the waits of a call for a cluster, one after the other. What is asked for at the same
// time is one.
type waves struct{ versions, reads, commits int }

func (w waves) String() string {
	return fmt.Sprintf("%d versions, %d reads, %d commits", w.versions, w.reads, w.commits)
}

// On the clock of a bubble a call takes what it waits for, so these tell how often it has waited for
// each.
const (
	waveVersion = 10 * time.Millisecond
	waveRead    = 100 * time.Microsecond
	waveCommit  = 2 * time.Microsecond
)

// wavesOf counts the waves of a call.
func wavesOf(t *testing.T, call func(context.Context) error) waves {
	t.Helper()
	began := time.Now()
	if err := call(t.Context()); err != nil && !errors.Is(err, conq.ErrEmpty) {
		t.Fatal(err)
	}
	took := time.Since(began)
	return waves{int(took / waveVersion), int(took % waveVersion / waveRead), int(took % waveRead / waveCommit)}
}

// Each wave is a way to the cluster and back. A lone caller does with one version, one wave of reads and
// one commit. FoundationDB's library waits for the version and for the reads behind it, so that the caller
// waits once for both.
func TestWaves(t *testing.T) {
	item := []byte("item")
	testkit.Bubble(t, func(t *testing.T) {
		db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{
			Latency: waveVersion, ReadLatency: waveRead, CommitLatency: waveCommit,
			Limits: kv.Limits{Shared: true, UnknownCommits: true},
		})
		defer db.Close()
		q := newQueue(t, db, conq.Bytes())
		p := newPriorityQueue(t, db, conq.Bytes())
		pf := newPriorityQueue(t, db, conq.Bytes(), conq.Options{FIFOTies: true})
		s, err := conq.OpenQueue(t.Context(), db, "s", conq.Bytes(), conq.Options{Staging: conq.StagingAlways})
		testkit.NoError(t, err)
		add := func(ctx context.Context) error { return s.Enqueue(ctx, item) }
		staged := func(ctx context.Context) error { _, err := s.Dequeue(ctx); return err }
		enqueue := func(ctx context.Context) error { return q.Enqueue(ctx, item) }
		dequeue := func(ctx context.Context) error { _, err := q.Dequeue(ctx); return err }
		push := func(ctx context.Context) error { return p.Push(ctx, item, 7) }
		popMin := func(ctx context.Context) error { _, err := p.PopMin(ctx); return err }
		pushAll := func(ctx context.Context) error {
			return p.PushAll(ctx, []conq.Prioritized[[]byte]{{Value: item, Priority: 1}, {Value: item, Priority: 2}})
		}
		popFirst := func(ctx context.Context) error { _, err := pf.PopMax(ctx); return err }
		peek := func(ctx context.Context) error { _, err := q.Peek(ctx); return err }
		dequeueWait := func(ctx context.Context) error { _, err := q.DequeueWait(ctx); return err }
		popMax := func(ctx context.Context) error { _, err := p.PopMax(ctx); return err }
		for _, c := range []struct {
			name string
			call func(context.Context) error
			want waves
		}{
			{"first enqueue", enqueue, waves{1, 1, 1}},
			{"enqueue", enqueue, waves{1, 1, 1}},
			{"peek", peek, waves{1, 1, 0}},
			{"first dequeue", dequeue, waves{1, 1, 1}},
			{"dequeue", dequeue, waves{1, 1, 1}},
			{"empty dequeue", dequeue, waves{1, 1, 0}},
			{"enqueue", enqueue, waves{1, 1, 1}},
			{"dequeue that need not wait", dequeueWait, waves{1, 1, 1}},
			{"first push", push, waves{1, 1, 1}},
			{"push", push, waves{1, 1, 1}},
			{"push", push, waves{1, 1, 1}},
			{"push", push, waves{1, 1, 1}},
			{"push of several priorities", pushAll, waves{1, 1, 1}},
			{"first pop min", popMin, waves{1, 1, 1}},
			{"pop min", popMin, waves{1, 1, 1}},
			{"first pop max", popMax, waves{1, 1, 1}},
			{"pop max", popMax, waves{1, 1, 1}},
			{"pop max of equals, the first", popFirst, waves{1, 2, 1}},
			{"pop min", popMin, waves{1, 1, 1}},
			{"empty pop min", popMin, waves{1, 1, 0}},
			{"empty pop max", popMax, waves{1, 1, 0}},
			{"first enqueue to be staged", add, waves{1, 1, 1}},
			{"enqueue to be staged", add, waves{1, 1, 1}},
			{"first staged dequeue", staged, waves{1, 4, 1}},
			{"staged dequeue", staged, waves{1, 2, 1}},
		} {
			if got := wavesOf(t, c.call); got != c.want {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
		testkit.NoError(t, s.Close())
		testkit.NoError(t, q.Close())
		testkit.NoError(t, p.Close())
		testkit.NoError(t, pf.Close())
	})
}
