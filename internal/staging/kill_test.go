package staging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// world is a queue of items 0, 1, 2... with clients, one of whom is the victim.
type world struct {
	t    *testing.T
	db   kv.DB
	m    *mortal // of the victim
	side Side    // at which the victim takes
	n    int     // how many items it asks for

	keys   map[string]string // of items, to their values
	passed []string          // what collect has got last in the victim
	mu     sync.Mutex
	got    []string // by all
	wg     sync.WaitGroup
}

const worldItems = 12

func newWorld(t *testing.T, m *mortal, side Side, n int) *world {
	w := &world{t: t, db: testkit.NewMemory(t, kv.Limits{}), m: m, side: side, n: n, keys: map[string]string{}}
	m.DB, m.died = w.db, w.deliverPassed
	fill(t, w.db, worldItems)
	testkit.NoError(t, w.db.ReadTransact(t.Context(), func(r kv.Reader) error {
		for item, err := range testQueue.Items(r, Front, 0) {
			if err != nil {
				return err
			}
			w.keys[string(item.Key)] = string(item.Value)
		}
		return nil
	}))
	return w
}

func (w *world) deliver(items []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, items...)
}

// deliverPassed delivers, once, what the victim's transaction has got.
func (w *world) deliverPassed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, w.passed...)
	w.passed = nil
}

// values is collect: it checks that each item comes under the key that it had.
func (w *world) values(tx kv.Tx, items []kv.KeyValue) ([]string, error) {
	for _, item := range items {
		if w.keys[string(item.Key)] != string(item.Value) {
			w.t.Errorf("item %q comes under the key %x", item.Value, item.Key)
		}
	}
	return values(tx, items)
}

// other has another client take once.
func (w *world) other(side Side, n int, o Options) {
	o.Lease = time.Second
	s := stage(&mortal{DB: w.db}, o)
	w.wg.Go(func() {
		got, err := Take(context.Background(), s, side, n, w.values)
		if err != nil && !errors.Is(err, ErrEmpty) {
			w.t.Errorf("another client: %v", err)
		}
		w.deliver(got)
	})
}

// take has the victim take once.
func (w *world) take(ctx context.Context) {
	s := stage(w.m, Options{Lease: time.Second})
	_, err := Take(ctx, s, w.side, w.n, func(tx kv.Tx, items []kv.KeyValue) ([]string, error) {
		got, err := w.values(tx, items)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.passed = got
		return got, err
	})
	dead := w.m.dead.Load()
	if err != nil && !errors.Is(err, ErrEmpty) && !errors.Is(err, context.Canceled) && !dead {
		w.t.Errorf("the victim: %v", err)
	}
	if err == nil {
		w.deliverPassed() // unless the client has died since, serving others
	}
	if !dead {
		if err := s.lanes.Forget(context.Background()); err != nil && !w.m.dead.Load() {
			w.t.Errorf("forgetting outcome keys: %v", err)
		}
	}
}

// scenarios bring the victim to each step.
var scenarios = []struct {
	name string
	run  func(*world)
}{
	{"alone", func(w *world) {
		w.take(context.Background())
		w.take(context.Background())
	}},
	{"leads", func(w *world) {
		roleTaken(w.t, w.db)
		w.others(3)
		testkit.Remove(w.t, w.db, kv.KeyRange(keys{subspace.Named("stage").Bytes()}.kind(fulfillerKind)))
		w.take(context.Background())
	}},
	{"serves others", func(w *world) {
		w.take(context.Background())
		w.others(3)
		pass(20 * time.Millisecond)
		w.others(2)
	}},
	{"is served", func(w *world) {
		roleTaken(w.t, w.db)
		w.wg.Go(func() { w.take(context.Background()) })
		synctest.Wait()
		w.other(Front, 1, Options{Takeover: time.Nanosecond})
	}},
	{"is served and canceled", func(w *world) {
		roleTaken(w.t, w.db)
		ctx, cancel := context.WithCancel(context.Background())
		w.m.before = func(n int) {
			if n == 2 {
				cancel()
			}
		}
		w.wg.Go(func() { w.take(ctx) })
		synctest.Wait()
		w.other(Back, 2, Options{Takeover: time.Nanosecond})
	}},
	{"takes over", func(w *world) {
		roleTaken(w.t, w.db)
		register(w.t, stage(w.db, Options{Lease: time.Second}), Front, 2) // and dies
		w.wg.Go(func() { w.take(context.Background()) })
		synctest.Wait()
		pass(10 * time.Millisecond) // so that the victim's patience ends first
		w.others(2)
	}},
	{"withdraws", func(w *world) {
		roleTaken(w.t, w.db)
		register(w.t, stage(w.db, Options{Lease: time.Second}), Back, 1)
		ctx, cancel := context.WithCancel(context.Background())
		w.wg.Go(func() { w.take(ctx) })
		synctest.Wait()
		cancel()
	}},
	{"expires", func(w *world) {
		register(w.t, stage(w.db, Options{Lease: time.Second}), Front, 2)
		register(w.t, stage(w.db, Options{Lease: time.Second}), Back, 1)
		w.others(1)
		w.wg.Wait()
		pass(2 * time.Second)
		w.take(context.Background())
	}},
}

// pass lets time pass in the bubble of a test.
func pass(d time.Duration) { <-time.After(d) }

// others has so many others take, and returns when they wait or are done.
func (w *world) others(n int) {
	for i := range n {
		w.other(Side(i%2), 1+i, Options{})
	}
	synctest.Wait()
}

// account waits until all leases are over, and checks that each item was
// delivered once or is in its place.
func (w *world) account() {
	w.wg.Wait()
	pass(5 * time.Second)
	left, err := takeAll(context.Background(), stage(w.db, Options{}), Front, 1)
	if err != nil {
		w.t.Errorf("draining: %v", err)
	}
	if !slices.IsSortedFunc(left, func(a, b string) int { return number(a) - number(b) }) {
		w.t.Errorf("what is left is out of order: %q", left)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, item := range slices.Concat(left, w.got) {
		count[item]++
	}
	for i := range worldItems {
		if n := count[strconv.Itoa(i)]; n != 1 {
			w.t.Errorf("item %d is there %d times; %q were delivered, %q were left", i, n, w.got, left)
		}
	}
	nothingLeft(w.t, w.db)
}

// TestKill stops a client, or leaves it without an answer, at each of its
// transactions, in each scenario.
func TestKill(t *testing.T) {
	shapes := []struct {
		side Side
		n    int
	}{{Front, 1}, {Front, 3}, {Back, 2}}
	hit := map[fate]map[string]int{}
	for f, fate := range fates {
		hit[f] = map[string]int{}
		for _, scenario := range scenarios {
			for _, shape := range shapes {
				name := fmt.Sprintf("%s/%s/side %d, %d items", fate, scenario.name, shape.side, shape.n)
				t.Run(name, func(t *testing.T) {
					for at, more := 1, true; more && !t.Failed(); at++ {
						m := &mortal{at: at, fate: f}
						testkit.Bubble(t, func(t *testing.T) {
							w := newWorld(t, m, shape.side, shape.n)
							scenario.run(w)
							w.account()
						})
						hit[f][m.hit]++
						more = m.hit != ""
						if t.Failed() {
							t.Logf("the fate came at transaction %d, %s", at, m.hit)
						}
					}
				})
			}
		}
	}
	for f, steps := range hit {
		t.Logf("%s: %v", fates[f], steps)
		for _, step := range []string{"register", "look", "fulfil own", "fulfil own and others", "serve", "resign", "take over", "collect", "withdraw", "expire"} {
			if steps[step] == 0 {
				t.Errorf("no client %s at the step %q: only at %v", fates[f], step, steps)
			}
		}
	}
}
