package handle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// Who waits after an item did not decode finds that item again, and when it is gone, the next one.
func TestWaitBehindUndecodable(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	q := newQueue(t, db, picky{conq.String()})
	other := newQueue(t, db, conq.String())
	testkit.NoError(t, other.EnqueueAll(t.Context(), []string{"unreadable", "good"}))
	for range 2 {
		testkit.WantError(t, drop(q.DequeueWait(t.Context())), conq.ErrDecode)
	}
	testkit.NoError(t, drop(other.Dequeue(t.Context())))
	wantOne(t, "item", q.DequeueWait, "good")
}

// So it is if the codec says that something else is empty, as one may whose items tell where a value
// is: that is no reason to wait for more items.
func TestWaitDecodeEmpty(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, mode := range []conq.Staging{conq.StagingNever, conq.StagingAlways} {
			testkit.Bubble(t, func(t *testing.T) {
				db := faulty.New(testkit.NewMemory(t, kv.Limits{}), 1, faulty.Options{Limits: kv.Limits{Shared: shared}})
				q := newQueue(t, db, missing{conq.String()}, conq.Options{Staging: mode})
				testkit.NoError(t, q.Enqueue(t.Context(), "item"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for range 2 {
					_, err := q.DequeueWait(ctx)
					testkit.WantError(t, err, conq.ErrDecode, conq.ErrEmpty.Error())
				}
				testkit.NoError(t, q.Close())
			})
		}
	}
}

// missing is a codec that does not find what items are about.
type missing struct{ conq.Codec[string] }

func (missing) Decode([]byte) (string, error) { return "", conq.ErrEmpty }

// A panic of a codec is its caller's, and the next one gets what is there.
func TestWaitAfterPanic(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	q := newQueue(t, db, &panicsOnce{Codec: conq.String()})
	testkit.NoError(t, q.Enqueue(t.Context(), "item"))
	wantPanic(t, "in Decode", func() { _, _ = q.DequeueWait(t.Context()) })
	wantOne(t, "item", q.DequeueWait, "item")
	testkit.NoError(t, q.Close())
}

// Who stood in line with others leaves it when a codec panics.
func TestWaitPanicLeavesLine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		q := newQueue(t, c.Process(), &panicsOnce{Codec: conq.String()})
		var panicked any
		go func() {
			defer func() { panicked = recover() }()
			_, _ = q.DequeueWait(t.Context())
		}()
		synctest.Wait()
		testkit.Equal(t, "keys in line", len(left(t, c.Inner)), 1)
		testkit.NoError(t, openFront(t, c.Process(), conq.Options{}).add(t.Context(), "item"))
		synctest.Wait() // no time passes
		testkit.Equal(t, "panic", panicked, any("in Decode"))
		testkit.Equal(t, "keys left, with the item's", len(left(t, c.Inner)), 1)
	})
}

type panicsOnce struct {
	conq.Codec[string]
	done bool
}

func (p *panicsOnce) Decode(b []byte) (string, error) {
	if !p.done {
		p.done = true
		panic("in Decode")
	}
	return p.Codec.Decode(b)
}

// An item is told to those who wait for it, also if an OnCommit function of the caller's panics.
func TestWaitOnCommitPanics(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := async(func() error { return drop(f.q.DequeueWait(ctx)) })
		wantPanic(t, "theirs", func() {
			_ = f.db.Transact(ctx, func(tx kv.Tx) error {
				tx.OnCommit(func() { panic("theirs") })
				return f.q.In(tx).Enqueue("item")
			})
		})
		synctest.Wait()
		cancel()
		testkit.NoError(t, <-got)
	})
}

// If an observer panics as it is told that items were handed over, those who wait get them all the same.
func TestHandedObserverPanics(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx := t.Context()
		told := false
		q := newQueue(t, testkit.NewMemory(t, kv.Limits{}), conq.String(), conq.Options{Observe: func(e conq.Event) {
			if e.Kind == conq.Taken && e.Items > 0 && !told {
				told = true
				panic("observed")
			}
		}})
		v := endVerbs{wait: q.DequeueWaitN}
		first, second := startWaiter(ctx, v, 1), startWaiter(ctx, v, 1)
		wantPanic(t, "observed", func() { _ = q.Enqueue(ctx, "1") })
		testkit.NoError(t, q.Enqueue(ctx, "2"))
		synctest.Wait()
		items := append(first.values, second.values...) // in whatever order they are told of here
		slices.Sort(items)
		testkit.EqualSlices(t, "items", items, []string{"1", "2"})
		testkit.NoError(t, q.Close())
	})
}
