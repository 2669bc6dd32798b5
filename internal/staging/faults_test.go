package staging

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/subspace"
)

var (
	seeds = flag.Int("staging.seeds", 150, "how many runs TestFaults does")
	seed0 = flag.Uint64("staging.seed", 1, "the first seed of TestFaults")
)

// run is a run of TestFaults: producers, and consumers in several processes, on a
// store with faults. Consumers take, cancel, and die. All comes from the seed
// except for the order of what happens at the same moment.
type run struct {
	t      *testing.T
	store  kv.DB      // without faults
	db     *faulty.DB // with them
	random *rand.Rand // of the test's goroutine
	lease  time.Duration
	// cancels tells that the store ends contexts of transactions, also of those that
	// find out what has become of others.
	cancels bool
	clears  bool // somebody clears the queue now and then
	jumps   bool // clocks are wrong, each by something else, and jump
	long    bool // items may be large, and lie over several keys

	mu      sync.Mutex
	added   map[string]bool // items; true if it is known that they were enqueued
	got     map[string]int  // by item
	unknown map[string]bool // items that were perhaps delivered
	counts  map[string]int  // of what has happened
}

func (r *run) count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what] += n
}

// faults returns rates between none and high for everything.
func faults(r *rand.Rand) faulty.Options {
	rate := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	return faulty.Options{
		Conflict: rate(0.3), Dropped: rate(0.2), Applied: rate(0.2), Late: rate(0.2), LateSteps: 1 + r.IntN(60),
		TooOld: rate(0.05), Cancel: rate(0.01), Delay: rate(0.5), MaxDelay: time.Duration(1+r.IntN(300)) * time.Millisecond,
		Limits: kv.Limits{Operations: []int{0, 24, 60}[r.IntN(3)]},
	}
}

// acceptable tells whether a call may fail like that.
func acceptable(err error) bool {
	for _, e := range []error{context.Canceled, context.DeadlineExceeded, kv.ErrTooOld, kv.ErrCommitUnknown, errDead} {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil || errors.Is(err, ErrEmpty)
}

// produce enqueues so many items, one by one.
func (r *run) produce(name string, items int, random *rand.Rand) {
	lane := kv.NewOnce(r.db, subspace.Named(name).Bytes(), nil)
	for i := range items {
		value := fmt.Sprintf("%s/%d", name, i)
		if r.long {
			value += strings.Repeat(".", random.IntN(largest-len(value)))
		}
		_, err := kv.TransactOnce(context.Background(), lane, func(tx kv.Tx) (bool, error) {
			return true, testQueue.Enqueue(tx, []byte(value))
		})
		if !acceptable(err) {
			r.t.Errorf("enqueueing: %v", err)
		}
		r.mu.Lock()
		if err == nil || errors.Is(err, kv.ErrCommitUnknown) {
			r.added[value] = err == nil
		}
		r.mu.Unlock()
		pass(time.Duration(random.IntN(100)) * time.Millisecond)
	}
}

// consume takes so many times, unless the client dies.
func (r *run) consume(s *Stage, m *mortal, takes int, random *rand.Rand) {
	for range takes {
		ctx, cancel := context.Background(), func() {}
		if random.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(context.Background(), time.Duration(random.IntN(400))*time.Millisecond)
		}
		var passed []string // in all attempts, any of which may land in the end
		began, patient := time.Now(), ctx.Done() == nil
		wanted := 1 + random.IntN(4)
		got, err := Take(ctx, s, Side(random.IntN(2)), wanted, func(tx kv.Tx, items []kv.KeyValue) ([]string, error) {
			got, err := values(tx, items)
			passed = append(passed, got...)
			for _, item := range items {
				for i := 1; i < s.o.Source.Keys(item.Key); i++ {
					tx.Clear(append(subspace.Named("pieces").Bytes(), byte(i)))
				}
			}
			return got, err
		})
		cancel()
		if took := time.Since(began); took > time.Minute && patient && !r.jumps {
			r.t.Errorf("taking took %v", took)
		}
		if !acceptable(err) {
			r.t.Errorf("taking: %v", err)
		}
		if n := len(got) - wanted; n > 0 {
			r.t.Errorf("%d items more than are wanted", n)
		}
		r.mu.Lock()
		for _, item := range got {
			r.got[item]++
		}
		if err != nil && !errors.Is(err, ErrEmpty) {
			r.counts["failed"]++
		}
		if errors.Is(err, kv.ErrCommitUnknown) && !m.dead.Load() && !r.cancels {
			r.t.Errorf("a client that was there all the time does not know what has become of its call: %v", err)
		}
		if errors.Is(err, kv.ErrCommitUnknown) || m.dead.Load() {
			r.counts["unknown to the caller"]++
			for _, item := range passed {
				r.unknown[item] = true
			}
		}
		r.mu.Unlock()
		if m.dead.Load() {
			r.count("dead", 1)
			return
		}
		pass(time.Duration(random.IntN(50)) * time.Millisecond)
	}
}

// dequeue takes so many times by the recipe, without a request, and looks whether there is
// something to put back.
func (r *run) dequeue(s *Stage, takes int, random *rand.Rand) {
	lane := kv.NewOnce(r.db, subspace.Named("dequeue").Bytes(), nil)
	for range takes {
		if err := s.Expire(context.Background()); !acceptable(err) || errors.Is(err, kv.ErrCommitUnknown) {
			r.t.Errorf("putting back: %v", err)
		}
		var passed []string // in all attempts: the last may have read nothing, and an earlier one have landed
		item, err := kv.TransactOnce(context.Background(), lane, func(tx kv.Tx) (string, error) {
			item, _, err := testQueue.Dequeue(tx)
			passed = append(passed, string(item.Value))
			return string(item.Value), err
		})
		if !acceptable(err) {
			r.t.Errorf("dequeueing: %v", err)
		}
		r.mu.Lock()
		if err == nil && item != "" {
			r.got[item]++
		} else if errors.Is(err, kv.ErrCommitUnknown) {
			for _, item := range passed {
				r.unknown[item] = true
			}
		}
		r.mu.Unlock()
		pass(time.Duration(random.IntN(50)) * time.Millisecond)
	}
}

// largest is the size of the largest value, if there are large ones: a transaction has room for three.
const largest = 1000

// pieces is the test's queue, with items over up to three keys.
type pieces struct{ source }

func (pieces) Keys(key []byte) int { return 1 + int(key[len(key)-1])%3 }

// clear clears the queue, and all that is staged, so many times.
func (r *run) clear(times int, random *rand.Rand) {
	lane := kv.NewOnce(r.db, subspace.Named("clear").Bytes(), nil)
	k := keys{subspace.Named("stage").Bytes()}
	for range times {
		pass(time.Duration(random.IntN(500)) * time.Millisecond)
		var passed []string // in all attempts, as above
		_, err := kv.TransactOnce(context.Background(), lane, func(tx kv.Tx) (none bool, err error) {
			for item, err := range testQueue.Items(tx, Front, 0) {
				if err != nil {
					return none, err
				}
				passed = append(passed, string(item.Value))
			}
			for pair, err := range tx.Range(k.all(resultKind), kv.RangeOptions{}) {
				if err != nil {
					return none, err
				}
				passed = append(passed, string(pair.Value))
			}
			tx.ClearRange(testQueue.Range())
			tx.ClearRange(subspace.Named("stage").Range())
			return none, nil
		})
		if !acceptable(err) {
			r.t.Errorf("clearing: %v", err)
		}
		if err != nil && !errors.Is(err, kv.ErrCommitUnknown) {
			continue
		}
		r.mu.Lock()
		r.counts["cleared"] += len(passed)
		for _, item := range passed {
			r.unknown[item] = true
		}
		r.mu.Unlock()
	}
}

// check looks for faults in what is staged.
func (r *run) check() {
	c := stage(r.store, Options{}).NewChecker(1, func(key []byte) error {
		if !bytes.HasPrefix(key, subspace.Named("q").Bytes()) {
			return errors.New("it is of another queue")
		}
		return nil
	})
	testkit.Check(r.t, r.store.ReadTransact(context.Background(), func(tx kv.Reader) error {
		var next []byte
		for pair, err := range tx.Range(subspace.Named("stage").Range(), kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			if bytes.Compare(pair.Key, next) < 0 {
				continue
			}
			u, err := c.Check(tx, pair)
			if err != nil {
				return err
			}
			next = u.Next
			for _, f := range u.Faults {
				r.t.Errorf("%s: key %x: %s", f.Kind, f.Key, f.Text)
			}
			r.count("checked", 1)
		}
		return nil
	}))
}

// clock returns the clock of a process.
func (r *run) clock(random *rand.Rand) func() time.Time {
	if !r.jumps {
		wrong := time.Duration(random.Int64N(int64(r.lease / 5)))
		return func() time.Time { return time.Now().Add(wrong) }
	}
	var mu sync.Mutex
	var wrong time.Duration
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(20) == 0 {
			wrong = time.Duration(random.Int64N(int64(2*mostWrong))) - mostWrong
		}
		return time.Now().Add(wrong)
	}
}

// mostWrong is how much a clock may be wrong that jumps.
const mostWrong = 5 * time.Second

// simulate has clients of several processes run, and waits for them.
func (r *run) simulate() {
	var wg sync.WaitGroup
	var stages []*Stage
	child := func() *rand.Rand { return rand.New(rand.NewPCG(r.random.Uint64(), 0)) }
	for p := range 1 + r.random.IntN(2) {
		random, items := child(), 5+r.random.IntN(20)
		wg.Go(func() { r.produce(fmt.Sprintf("producer %d", p), items, random) })
	}
	o := Options{Lease: r.lease, Requests: []int{0, 2}[r.random.IntN(2)], Items: []int{0, 3}[r.random.IntN(2)], Observe: r.observe}
	for range 1 + r.random.IntN(4) {
		o.Now = r.clock(child())
		s := r.stage(r.db, o)
		stages = append(stages, s)
		for range 1 + r.random.IntN(3) { // of one process
			m := &mortal{DB: r.db, fate: fate(r.random.IntN(2))}
			mine := s
			if r.random.IntN(3) == 0 { // who dies is a process of its own
				m.at = 1 + r.random.IntN(8)
				mine = r.stage(m, o)
			}
			random, takes := child(), 1+r.random.IntN(8)
			wg.Go(func() { r.consume(mine, m, takes, random) })
		}
	}
	if random := child(); random.IntN(2) == 0 {
		wg.Go(func() { r.dequeue(r.stage(r.db, o), 10, random) })
	}
	if random := child(); r.clears {
		wg.Go(func() { r.clear(5, random) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for checking := true; checking; {
		r.check()
		select {
		case <-done:
			checking = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, s := range stages {
		for err := s.lanes.Forget(context.Background()); err != nil; err = s.lanes.Forget(context.Background()) {
			if !acceptable(err) {
				r.t.Fatalf("forgetting: %v", err)
			}
		}
	}
}

func (r *run) stage(db kv.DB, o Options) *Stage {
	s := stage(db, o)
	if r.long {
		s.o.Source = pieces{testQueue}
	}
	return s
}

func (r *run) observe(e Event) {
	if e.Requests <= 0 {
		r.t.Errorf("observed %+v, which is nothing", e)
	}
	r.count([]string{"registered", "fulfilled", "collected", "expired"}[e.Kind], e.Requests)
}

// account lets all that is late come, and all leases end, and checks that each
// item was delivered once or is in the queue.
func (r *run) account() {
	r.db.Flush()
	pass(3*r.lease + mostWrong)
	r.check()
	left, err := takeAll(context.Background(), stage(r.store, Options{}), Front, 1)
	if err != nil {
		r.t.Fatalf("draining: %v", err)
	}
	r.counts["left"] += len(left)
	for _, item := range left {
		r.got[item]++
	}
	for item, certain := range r.added {
		n := r.got[item]
		if n > 1 || n == 0 && certain && !r.unknown[item] {
			r.t.Errorf("item %q was delivered %d times", item, n)
		}
	}
	for item := range r.got {
		if _, ok := r.added[item]; !ok {
			r.t.Errorf("item %q was delivered, but never enqueued", item)
		}
	}
	nothingLeft(r.t, r.store)
}

// TestFaults runs clients on a store with conflicts, unknown outcomes of all
// kinds, transactions that are too old, ended contexts, and delays, while some of
// them cancel, and some die.
func TestFaults(t *testing.T) {
	counts := map[string]int{}
	var stats faulty.Stats
	for seed := *seed0; seed < *seed0+uint64(*seeds); seed++ {
		testkit.Bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			store := memory.New(memory.Options{})
			o := faults(random)
			long, jumps, clears := random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(3) == 0
			if long {
				o.Limits.Transaction = 3 * largest
			}
			r := &run{
				t: t, store: store, db: faulty.New(store, seed, o), random: random, lease: time.Second, cancels: o.Cancel > 0,
				long: long, jumps: jumps, clears: clears,
				added: map[string]bool{}, got: map[string]int{}, unknown: map[string]bool{}, counts: counts,
			}
			defer r.db.Close()
			r.simulate()
			r.account()
			s := r.db.Stats()
			stats.Conflicts += s.Conflicts
			stats.Dropped += s.Dropped
			stats.Applied += s.Applied
			stats.Landed += s.Landed
			stats.Lost += s.Lost
			stats.TooOld += s.TooOld
			stats.Canceled += s.Canceled
		})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	t.Logf("%v, faults: %+v", counts, stats)
	for _, what := range []string{"registered", "fulfilled", "collected", "expired", "failed", "dead", "left"} {
		if counts[what] == 0 && *seeds >= 100 {
			t.Errorf("in no run anything was %s", what)
		}
	}
}
