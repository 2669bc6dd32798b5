package check_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// liveStores are what checks run on while clients work.
var liveStores = map[string]func(t *testing.T) kv.DB{
	"memory": func(t *testing.T) kv.DB { return testkit.NewMemory(t, sharedSmall()) },
	"embedded": func(t *testing.T) kv.DB {
		return faulty.New(engines.Embedded(t), 1, faulty.Options{Limits: small})
	},
	"embedded, shared": func(t *testing.T) kv.DB {
		shared := sharedSmall()
		shared.UnknownCommits = true
		return faulty.New(engines.Embedded(t), 1, faulty.Options{Limits: shared})
	},
	"faulty": func(t *testing.T) kv.DB {
		db := faulty.New(memory.New(memory.Options{Limits: small}), 1, faulty.Options{
			Conflict: 0.05, Dropped: 0.02, Applied: 0.02, Late: 0.02, TooOld: 0.001, Limits: kv.Limits{Shared: true},
		})
		t.Cleanup(func() { testkit.NoError(t, db.Close()) })
		return db
	},
}

func sharedSmall() kv.Limits {
	l := small
	l.Shared = true
	return l
}

// Nothing is found in a store in which clients of all kinds are at work, with and
// without staging, some of whom die; and whatever a check puts back for them, each
// item is taken once.
func TestCheckLive(t *testing.T) {
	for name, open := range liveStores {
		for _, repair := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " repair ", repair), func(t *testing.T) { checkLive(t, open(t), repair) })
		}
	}
}

func checkLive(t *testing.T, db kv.DB, repair bool) {
	const clients = 4
	each := 3 * testkit.Cases(20) // of which a third in each turn
	var mu sync.Mutex
	taken := make(map[string]int)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	turns := newTurns()
	var working atomic.Int64
	var group sync.WaitGroup
	defer group.Wait() // also if this fails
	defer cancel()
	work := func(f func()) {
		working.Add(1)
		group.Go(func() {
			defer working.Add(-1)
			f()
		})
	}
	for i := range clients {
		o := conq.Options{Staging: conq.Staging(i % 3), NoCombining: i%2 == 0}
		q, err := conq.OpenQueue(ctx, db, "q", conq.String(), o)
		testkit.NoError(t, err)
		p, err := conq.OpenPriorityQueue(ctx, db, "p", conq.String(), o)
		testkit.NoError(t, err)
		work(func() {
			for k := range turns {
				turns.wait(ctx, k)
				addLive(t, ctx, q, p, fmt.Sprint(i, " ", k), each/len(turns))
			}
		})
		work(func() {
			for range 2 * each {
				v, err := takeLive(ctx, q, p)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				taken[v]++
				mu.Unlock()
			}
		})
	}
	for i := range 2 {
		w, err := conq.OpenQueue(ctx, db, "w", conq.String(), conq.Options{Staging: conq.Staging(i)})
		testkit.NoError(t, err)
		work(func() {
			for range each {
				testkit.Check(t, w.Enqueue(ctx, strings.Repeat("w", 150)))
				testkit.Check(t, testkit.Drop(w.DequeueWait(ctx))) // as many as there are
			}
		})
	}
	if db.Limits().Shared { // others have given it items
		work(func() { dieLive(t, ctx, db) })
	}
	checkWhile(t, ctx, db, repair, func(done int) bool { turns.begin(done); return working.Load() > 0 })
	group.Wait()
	testkit.Equal(t, "different items taken", len(taken), 2*clients*each)
	for v, n := range taken {
		testkit.Equal(t, fmt.Sprintf("times that %.10s was taken", v), n, 1)
	}
	checkWhile(t, ctx, db, repair, func(int) bool { return false })
}

// turns has clients wait for checks, so that there are some while they work: the k-th turn begins
// when k checks have ended.
type turns [3]chan struct{}

func newTurns() (s turns) {
	for k := range s {
		s[k] = make(chan struct{})
	}
	return s
}

func (s turns) begin(k int) {
	if k < len(s) {
		close(s[k])
	}
}

func (s turns) wait(ctx context.Context, k int) {
	select {
	case <-s[k]:
	case <-ctx.Done():
	}
}

// checkWhile checks as long as clients work, and once more. while gets the number of checks so far.
func checkWhile(t *testing.T, ctx context.Context, db kv.DB, repair bool, while func(done int) bool) {
	last := false
	for n := 0; !last; n++ {
		last = !while(n)
		o := check.CheckOptions{Repair: repair, Found: func(f check.Finding) { t.Error(f) }}
		if _, err := (check.Settings{Page: 1 + n%50}.Check(ctx, db, o)); err != nil && !reads.TooOld(err) { // as faulty stores may be, again and again
			t.Error(err)
		}
	}
}

func addLive(t *testing.T, ctx context.Context, q *conq.Queue[string], p *conq.PriorityQueue[string], client string, n int) {
	for i := range n {
		v := fmt.Sprint(client, " ", i, strings.Repeat(" ", 100*(i%3)))
		testkit.Check(t, q.Enqueue(ctx, "q"+v))
		testkit.Check(t, p.Push(ctx, "p"+v, int64(i%4)))
	}
}

// takeLive takes an item wherever there is one.
func takeLive(ctx context.Context, q *conq.Queue[string], p *conq.PriorityQueue[string]) (string, error) {
	for {
		for _, take := range []func(context.Context) (string, error){q.Dequeue, p.PopMax, p.PopMin} {
			v, err := take(ctx)
			if !errors.Is(err, conq.ErrEmpty) {
				return v, err
			}
		}
	}
}

// dieLive is a client that has been given items, and was gone before their deadline.
func dieLive(t *testing.T, ctx context.Context, db kv.DB) {
	for i := range 40 {
		id := make([]byte, 16)
		rand.Read(id)
		queue := layout.New("q", conq.KindQueue, kv.Limits{})
		if i%2 == 1 {
			queue = layout.New("p", conq.KindPriorityQueue, kv.Limits{})
		}
		err := db.Transact(ctx, func(tx kv.Tx) error { return stageIn(tx, queue, id, 3, time.Now().Add(-time.Second)) })
		if err != nil && !errors.Is(err, kv.ErrCommitUnknown) && !reads.TooOld(err) {
			t.Error(err)
		}
	}
}
