package linear

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

var (
	rounds    = flag.Int("linear.rounds", 1, "how many times as much to try")
	firstSeed = flag.Uint64("linear.seed", 0, "the first seed to try")
)

// engines are the stores that the queues are tried on.
var engines = []struct {
	name string
	open func(t *testing.T) kv.DB
}{
	{"memory", func(*testing.T) kv.DB { return memory.New(memory.Options{}) }},
	{"embedded", func(t *testing.T) kv.DB {
		db, err := embedded.Open(t.Context(), "db", embedded.Options{FS: vfs.NewMem(), MemTable: 1 << 20, Cache: 1 << 20})
		testkit.NoError(t, err)
		return db
	}},
}

// mode is a way to open handles.
type mode struct {
	name    string
	options conq.Options
	mixed   bool // every other group never stages
}

var modes = []mode{
	{name: "automatic"},
	{name: "staged", options: conq.Options{Staging: conq.StagingAlways}},
	{name: "staged, not combined", options: conq.Options{Staging: conq.StagingAlways, NoCombining: true}},
	{name: "some staged", options: conq.Options{Staging: conq.StagingAlways}, mixed: true},
	{name: "never staged", options: conq.Options{Staging: conq.StagingNever}},
	{name: "never staged, not combined", options: conq.Options{Staging: conq.StagingNever, NoCombining: true}},
}

// weather is what stands between the handles of a group of clients and the store.
type weather struct {
	name   string
	slow   bool
	cancel float64 // probability that a caller ends its context
	faults faulty.Options
}

var weathers = []weather{
	{"calm", false, 0.05, faulty.Options{}},
	{"slow", true, 0.05, faulty.Options{}},
	{"conflicts", false, 0, faulty.Options{Conflict: 0.2, TooOld: 0.01}},
	{"cancelled", true, 0, faulty.Options{Cancel: 0.03}},
	{"unknown", true, 0, faulty.Options{Dropped: 0.03, Applied: 0.03}},
	{"late", true, 0, faulty.Options{Late: 0.04, LateSteps: 60}},
	{"storm", true, 0.05, faulty.Options{
		Conflict: 0.1, Dropped: 0.02, Applied: 0.02, Late: 0.02, LateSteps: 60, TooOld: 0.01, Cancel: 0.01,
	}},
}

// ends tells whether contexts end, so that nobody can find out what has become of
// a commit.
func (w weather) ends() bool { return w.cancel > 0 || w.faults.Cancel > 0 }

// survivable is the weather without what may keep a consumer that leaves from
// withdrawing its request. That is as good as dead: see TestConsumersDie.
func (w weather) survivable() weather {
	w.faults.Cancel = 0
	if w.cancel > 0 {
		w.faults.TooOld = 0
	}
	return w
}

// over returns the store as one group of clients sees it: one that processes
// share, where long values take several keys, and nothing else.
func (w weather) over(db kv.DB, seed uint64) (kv.DB, *faulty.DB) {
	w.faults.Limits.Shared, w.faults.Limits.Value = true, cmp.Or(w.faults.Limits.Value, LongValue)
	faults := faulty.New(db, seed, w.faults)
	return slow{faults, w.slow}, faults
}

// slow lets others run between the reads of a transaction and its commit.
type slow struct {
	kv.DB
	slow bool
}

// Signals implements kvext.Local: those of the store below, if it has any.
func (s slow) Signals() *kvext.Signals { return kvext.NewsOf(s.DB) }

func (s slow) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return s.DB.Transact(ctx, func(tx kv.Tx) error {
		err := f(tx)
		for s.slow && rand.IntN(3) > 0 {
			runtime.Gosched()
		}
		return err
	})
}

const (
	groups  = 4 // of clients, each with handles of its own, as processes have
	clients = 10
)

// calls is how many each client makes: few by default, as what is wrong shows in any of many histories.
func calls() int { return testkit.Cases(120) }

// The queues behave as one on every engine, in every mode, in any weather. One
// round tries one engine for each mode and weather.
func TestLinearizable(t *testing.T) {
	for i, m := range modes {
		for j, w := range weathers {
			if m.options.Staging != conq.StagingNever {
				w = w.survivable()
			}
			t.Run(m.name+"/"+w.name, func(t *testing.T) {
				for round := range *rounds {
					e := engines[(i+j+round)%len(engines)]
					f := newFixture(t, e.open(t), w, m, round)
					f.judge = func(h ...History) { CheckShared(t, h...) }
					f.try()
				}
			})
		}
	}
}

// So they do on a simulated cluster, where calls overlap as long as a real one takes to answer, and
// some learn nothing of their commits.
func TestLinearizableOnCluster(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for round := range *rounds {
				testkit.Bubble(t, func(t *testing.T) {
					faults := faulty.FoundationDB(clients)
					faults.Dropped, faults.Applied = 0.02, 0.02
					f := newFixture(t, memory.New(memory.Options{}), weather{faults: faults}, m, round)
					f.judge = func(h ...History) { CheckShared(t, h...) }
					f.try()
				})
			}
		})
	}
}

// lease is longer than what a dead consumer has reserved stays reserved.
const lease = time.Minute

// Of what a consumer has reserved that dies, nothing is lost, or taken twice.
func TestConsumersDie(t *testing.T) {
	for _, m := range modes {
		for _, w := range weathers {
			if w.faults.Cancel == 0 {
				continue
			}
			t.Run(m.name+"/"+w.name, func(t *testing.T) {
				for round := range *rounds {
					testkit.Bubble(t, func(t *testing.T) {
						f := newFixture(t, memory.New(memory.Options{}), w, m, round)
						f.beforeDrain = func() { <-time.After(lease) }
						f.judge = func(histories ...History) {
							for _, h := range histories {
								testkit.Check(t, Conserve(h))
							}
						}
						f.try()
					})
				}
			})
		}
	}
}

// fixture is a store with queues under test.
type fixture struct {
	*testing.T
	calm    kv.DB
	weather weather
	groups  []kv.DB      // the store as each group of clients sees it
	faulty  []*faulty.DB // below them
	mode    mode
	opened  int // handles
	seed    uint64

	beforeDrain func()
	judge       func(...History)
}

func newFixture(t *testing.T, db kv.DB, w weather, m mode, round int) *fixture {
	calm, _ := weather{}.over(db, 0)
	f := &fixture{T: t, calm: calm, weather: w, mode: m, seed: *firstSeed + uint64(round), beforeDrain: func() {}}
	for g := range groups {
		group, faults := w.over(db, f.seed<<8|uint64(g))
		f.groups = append(f.groups, group)
		f.faulty = append(f.faulty, faults)
	}
	return f
}

// try runs a workload for each kind of queue and checks what came of it.
func (f *fixture) try() {
	f.Helper()
	f.run(Workload{Seed: f.seed, Clients: clients, Calls: calls(), Ends: 1, Cancel: f.weather.cancel},
		f.queue("a"), f.queue("b"))
	f.run(Workload{Seed: f.seed, Clients: clients, Calls: calls(), Ends: 2, Cancel: f.weather.cancel},
		f.priorityQueue("c", false), f.priorityQueue("d", true))
	if err := f.calm.Close(); err != nil {
		f.Error(err)
	}
	if f.Failed() {
		f.Fatalf("seed %d", f.seed)
	}
}

func (f *fixture) run(w Workload, queues ...Queue) {
	f.Helper()
	histories, failed, err := Run(f.Context(), w, queues...)
	if err != nil {
		f.Fatal(err)
	}
	for _, err := range failed {
		f.mayFail(err)
	}
	began := time.Now()
	f.judge(histories...)
	for _, q := range queues {
		testkit.Equal(f, "pieces left of "+q.Name, len(testkit.In(f, f.calm, layout.Pieces(q.Name).Range())), 0)
	}
	n, unknown := 0, 0
	for _, h := range histories {
		for _, op := range h.Ops {
			n++
			if op.Unknown {
				unknown++
			}
		}
	}
	if unknown > 0 && !f.weather.ends() {
		f.Errorf("%d outcomes stayed unknown to callers who waited for them", unknown)
	}
	f.Logf("%d calls, %d of them unknown, checked in %v; %d failed", n, unknown, time.Since(began), len(failed))
}

// mayFail fails the test for an error that no fault explains.
func (f *fixture) mayFail(err error) {
	f.Helper()
	if !errors.Is(err, context.Canceled) && !errors.Is(err, kv.ErrTooOld) {
		f.Errorf("failed call: %v", err)
	}
}

// options are those of the next handle.
func (f *fixture) options() conq.Options {
	o := f.mode.options
	if f.opened++; f.mode.mixed && f.opened%2 == 0 {
		o.Staging = conq.StagingNever
	}
	return o
}

func (f *fixture) queue(name string) Queue {
	f.Helper()
	return f.shared(name, false, func(db kv.DB) (Target, error) {
		q, err := conq.OpenQueue(context.Background(), db, name, conq.String(), f.options())
		return FIFO(q), err
	})
}

func (f *fixture) priorityQueue(name string, fifoTies bool) Queue {
	f.Helper()
	return f.shared(name, fifoTies, func(db kv.DB) (Target, error) {
		options := f.options()
		options.FIFOTies = fifoTies
		p, err := conq.OpenPriorityQueue(context.Background(), db, name, conq.String(), options)
		return Priority(p), err
	})
}

// shared opens a handle for each group of clients, and a calm one for the drain,
// before which all late commits land.
func (f *fixture) shared(name string, fifoTies bool, open func(kv.DB) (Target, error)) Queue {
	f.Helper()
	calm := f.open(f.calm, open)
	var handles []Target
	for _, db := range f.groups {
		handles = append(handles, f.open(db, open))
	}
	return Queue{
		Name: name, FIFOTies: fifoTies,
		Open: func(client int) Target { return handles[client%groups] },
		Drain: func() Target {
			for _, db := range f.faulty {
				db.Flush()
			}
			f.beforeDrain()
			return calm
		},
	}
}

// open opens a handle, in spite of faults.
func (f *fixture) open(db kv.DB, open func(kv.DB) (Target, error)) (t Target) {
	f.Helper()
	var err error
	for range 100 {
		if t, err = open(db); err == nil {
			return t
		}
	}
	f.Fatal(err)
	return nil
}
