package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is a store that Run does not close.
type kept struct{ kv.DB }

func (kept) Close() error { return nil }

func config(t *testing.T, db kv.DB) Config {
	t.Helper()
	if db == nil {
		db = memory.New(memory.Options{})
	}
	t.Cleanup(func() { db.Close() })
	return Config{
		Settings: Settings{
			Producers: 4, Consumers: 3, Size: 20, Items: 300, Handles: 1, Combining: true, Staging: "auto", Seed: 7,
		},
		Open:   func() (kv.DB, error) { return kept{db}, nil },
		Phases: Phases,
	}
}

// slowStore returns a store whose transactions and commits take a millisecond each.
func slowStore() kv.DB {
	return faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Latency: time.Millisecond, CommitLatency: time.Millisecond})
}

func mustRun(t *testing.T, c Config) *Report {
	t.Helper()
	report, err := Run(t.Context(), c)
	testkit.NoError(t, err)
	return report
}

// what is what a phase has moved, and at what cost.
func what(p Result) string {
	return fmt.Sprintf("%s: %d %s, %d %s", p.Name, p.Put.Count, p.Put.Verb, p.Take.Count, p.Take.Verb)
}

func TestPhases(t *testing.T) {
	for priorities, want := range [][3]string{
		{"fill: 300 enqueue, 0 dequeue", "drain: 0 enqueue, 300 dequeue", "transfer: 300 enqueue, 300 dequeue"},
		{"fill: 300 push, 0 pop", "drain: 0 push, 300 pop", "transfer: 300 push, 300 pop"},
		{"fill: 300 put, 0 reserve, ack", "drain: 0 put, 300 reserve, ack", "transfer: 300 put, 300 reserve, ack"},
	} {
		var last Progress
		c := config(t, nil)
		c.Priorities, c.Depth, c.Jobs = priorities, 50, priorities == 2
		c.Progress = func(p Progress) { last = p }
		report := mustRun(t, c)
		if report.Interrupted || len(report.Phases) != 3 || report.Settings != c.Settings {
			t.Fatalf("report %+v", report)
		}
		for i, p := range report.Phases {
			if what(p) != want[i] {
				t.Errorf("%s, want %s", what(p), want[i])
			}
			if p.Seconds <= 0 || p.Transactions == 0 || p.TransactionsPerItem <= 0 || p.Staging != (Staged{}) {
				t.Errorf("%s: %+v", p.Name, p)
			}
		}
		if want := (Progress{Phase: "transfer", Elapsed: last.Elapsed, Put: 300, Took: 300, Done: true}); last != want {
			t.Errorf("last progress %+v, want %+v", last, want)
		}
	}
}

// A phase begins with the depth that was asked for, and it is not measured. What
// is left stays, unless it is to be cleared.
func TestDepthAndClear(t *testing.T) {
	for _, clear := range []bool{false, true} {
		db := memory.New(memory.Options{})
		c := config(t, db)
		c.Depth, c.Items, c.Clear = 2500, 100, clear
		c.Phases = []Phase{Drain, Fill, Drain, Drain}
		report := mustRun(t, c)
		for _, p := range report.Phases {
			if p.Put.Count+p.Take.Count != 100 {
				t.Errorf("%s", what(p))
			}
		}
		if p := report.Phases[0]; p.Transactions > 110 {
			t.Errorf("%d transactions to take 100 items", p.Transactions)
		}
		want := 2400 // as the second and the third phase began with 2,500, and the last with as many
		if clear {
			want = 0
		}
		q, err := conq.OpenQueue(t.Context(), db, fifoName, conq.Bytes())
		testkit.NoError(t, err)
		if n, err := q.Len(t.Context()); err != nil || n != want {
			t.Errorf("%d items are left (%v), want %d", n, err, want)
		}
	}
}

// Without combining, each item is a transaction; with it fewer will do, which
// the batches tell.
func TestBatches(t *testing.T) {
	c := config(t, nil)
	c.Combining, c.Phases = false, []Phase{Fill, Drain}
	for _, p := range mustRun(t, c).Phases {
		if batch := max(p.Put.Batch, p.Take.Batch); batch != 1 || p.Transactions < 300 {
			t.Errorf("%s: %d transactions, %v items each", p.Name, p.Transactions, batch)
		}
	}
	c = config(t, slow{memory.New(memory.Options{})})
	c.Producers, c.Phases = 50, []Phase{Fill}
	p := mustRun(t, c).Phases[0]
	if p.Put.Batch <= 1 || p.TransactionsPerItem >= 1 || math.Round(float64(p.Transactions)*p.Put.Batch) != 300 {
		t.Errorf("%d transactions, %v items each", p.Transactions, p.Put.Batch)
	}
}

// slow is a store that lets others come before it commits.
type slow struct{ kv.DB }

func (s slow) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return s.DB.Transact(ctx, func(tx kv.Tx) error {
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return f(tx)
	})
}

// overlapping is a store whose transactions take long once they have read: they meet.
type overlapping struct{ kv.DB }

func (o overlapping) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return o.DB.Transact(ctx, func(tx kv.Tx) error {
		err := f(tx)
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return err
	})
}

func TestStaged(t *testing.T) { testkit.Bubble(t, staged) }

func staged(t *testing.T) {
	c := config(t, slowStore()) // so that consumers meet
	c.Handles, c.Combining, c.Staging = 3, false, "always"
	c.Phases = []Phase{Fill, Drain, Transfer}
	report := mustRun(t, c)
	if s := report.Phases[0].Staging; s != (Staged{}) {
		t.Errorf("fill: %+v", s)
	}
	for _, p := range report.Phases[1:] {
		s := p.Staging
		served := math.Round(s.Served * float64(s.Fulfilments)) // some without a request that is written
		if s.Requests == 0 || served < 300 || s.Served < 1 || s.Expired != 0 || p.Take.Count != 300 {
			t.Errorf("%s: %+v", p.Name, s)
		}
	}
}

// Several handles meet as those of separate processes do.
func TestHandlesShareTheStore(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	for _, shared := range []bool{false, true} {
		counting := &countingDB{DB: db, shared: shared}
		if l := counting.Limits(); l.Shared != shared {
			t.Errorf("shared %v: %+v", shared, l)
		}
		if signals := kvext.SignalsOf(counting); (signals == nil) != shared {
			t.Errorf("shared %v: signals %v", shared, signals)
		}
	}
}

// again is a store where each transaction runs so many times.
type again struct {
	kv.DB
	times int
}

func (a again) Transact(_ context.Context, f func(kv.Tx) error) error {
	for range a.times {
		if err := f(nil); err != nil {
			return err
		}
	}
	return nil
}

func TestConflictsAreCounted(t *testing.T) {
	db := &countingDB{DB: again{times: 3}, counter: new(counter)}
	for range 2 {
		testkit.NoError(t, db.Transact(t.Context(), func(kv.Tx) error { return nil }))
	}
	equalCounts(t, "counts", db.counter.reset(), counts{transactions: 6, conflicts: 4})
	db.DB = again{times: 0}
	_ = db.Transact(t.Context(), nil)
	equalCounts(t, "counts of a store that runs none", db.counter.reset(), counts{})
}

func TestEvents(t *testing.T) {
	r := idle()
	for _, e := range []conq.Event{
		{Kind: conq.Added, Calls: 2, Items: 4, Attempts: 3}, {Kind: conq.Added, Calls: 1, Items: 1, Attempts: 1},
		{Kind: conq.Taken, Calls: 3, Items: 3, Attempts: 1}, {Kind: conq.Taken, Calls: 3, Attempts: 2}, {Kind: conq.Collected, Calls: 1, Items: 1},
		{Kind: conq.Requested, Calls: 1, Items: 5}, {Kind: conq.Fulfilled, Calls: 7, Items: 6},
		{Kind: conq.Expired, Calls: 2, Items: 9}, {Kind: conq.Waiting, Items: 1000},
	} {
		r.counter.observe("push", "pop")(e)
	}
	r.counter.count(func(now *counts) { now.transactions, now.conflicts = 10, 4 })
	got := r.counter.reset()
	equalCounts(t, "counts", got, counts{
		transactions: 10, conflicts: 4,
		added: tally{2, 5}, taken: tally{2, 4}, requested: tally{1, 5}, fulfilled: tally{1, 7}, expired: tally{1, 2},
		verbs: map[string]Attempts{"push": {4, 2}, "pop": {3, 1}},
	})
	equalCounts(t, "counts since then", r.counter.reset(), counts{})
	w := newWork(r, Fill)
	w.spent = got
	p := w.result()
	if p.Put.Batch != 2.5 || p.Take.Batch != 2 || p.Staging != (Staged{Requests: 1, Fulfilments: 1, Served: 7, Expired: 2}) {
		t.Errorf("result %+v", p)
	}
	if diff := cmp.Diff(map[string]Attempts{"push": {4, 2}, "pop": {3, 1}, "other": {3, 1}}, p.Verbs); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
}

// The conflicts of jobs are those of the verbs that had them. A transaction of two verbs is in both.
func TestJobEvents(t *testing.T) {
	r := idle()
	for _, e := range []work.Event{
		{Kind: work.EventPut, Jobs: 3, Attempts: 2}, {Kind: work.EventReserved, Jobs: 2, Attempts: 4}, {Kind: work.EventAcked, Jobs: 2, Attempts: 4},
		{Kind: work.EventAcked, Jobs: 1, Attempts: 1}, {Kind: work.EventDue, Jobs: 9}, {Kind: work.EventExpired, Jobs: 9},
	} {
		r.counter.observeJobs(e)
	}
	got := r.counter.reset()
	want := map[string]Attempts{"put": {2, 1}, "reserve": {4, 3}, "ack": {5, 3}}
	equalCounts(t, "counts", got, counts{added: tally{1, 3}, taken: tally{1, 2}, verbs: want})
	got.transactions, got.conflicts = 7, 4 // less than the sum
	if diff := cmp.Diff(want, got.verbsAndOther()); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
}

func equalCounts(t *testing.T, what string, got, want counts) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{}, tally{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Verbs of jobs and of items that meet others' have conflicts, and all transactions are accounted for.
func TestVerbsOfPhases(t *testing.T) {
	for _, jobs := range []bool{false, true} {
		c := config(t, overlapping{memory.New(memory.Options{})})
		c.Handles, c.Combining, c.Jobs, c.Phases = 3, false, jobs, []Phase{Fill, Drain}
		c.Staging = map[bool]string{false: "never", true: "auto"}[jobs]
		report := mustRun(t, c)
		for i, take := range []string{"", map[bool]string{false: "dequeue", true: "reserve"}[jobs]} {
			p, sum := report.Phases[i], Attempts{}
			for _, a := range p.Verbs {
				sum.Transactions, sum.Conflicts = sum.Transactions+a.Transactions, sum.Conflicts+a.Conflicts
			}
			testkit.Equal(t, "all verbs of "+p.Name, sum, Attempts{p.Transactions, p.Conflicts})
			if take != "" && p.Verbs[take].Conflicts == 0 {
				t.Errorf("%s: no conflict: %+v", take, p.Verbs)
			}
			testkit.Equal(t, "conflicts of acks", p.Verbs["ack"].Conflicts, 0)
		}
	}
}

// idle is a run that has not begun.
func idle() *run { return &run{counter: new(counter), handles: []queue{fifo{}}} }

// A phase in which nothing happened has no rates and no percentiles, and is JSON.
func TestResultOfNothing(t *testing.T) {
	text, err := json.Marshal(newWork(idle(), Transfer).result())
	testkit.NoError(t, err)
	calls := func(verb string) string {
		return `{"verb":"` + verb + `","count":0,"per_second":0,"latency_ms":{"p50":0,"p99":0,"p99.9":0,"max":0},"rates":[],"batch":0}`
	}
	want := `{"name":"transfer","seconds":0,"put":` + calls("enqueue") + `,"take":` + calls("dequeue") +
		`,"transactions":0,"conflicts":0,"transactions_per_item":0,"conflicts_per_item":0,"verbs":{},` +
		`"staging":{"requests":0,"fulfilments":0,"served":0,"expired":0}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestInterrupted(t *testing.T) {
	mine := errors.New("mine")
	for _, phase := range Phases {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := config(t, nil)
		c.Items, c.Duration, c.Depth = 0, time.Hour, 100_000
		c.Phases = []Phase{phase, Fill}
		c.Progress = func(p Progress) {
			if p.Phase == phase && p.Put+p.Took > 0 {
				cancel(mine)
			}
		}
		report, err := Run(ctx, c)
		if err != nil {
			t.Fatalf("%s: %v", phase, err)
		}
		p := report.Phases[0]
		if !report.Interrupted || p.Name != phase || p.Put.Count+p.Take.Count == 0 {
			t.Errorf("%s: interrupted %v: %s", phase, report.Interrupted, what(p))
		}
		cancel(nil)
	}
}

// Time ends all phases, also calls that wait for items.
// The clock is a bubble's, and the store takes some of it for each transaction.
func TestDuration(t *testing.T) { testkit.Bubble(t, testDuration) }

func testDuration(t *testing.T) {
	c := config(t, slowStore())
	c.Items, c.Duration, c.Consumers = 0, 50*time.Millisecond, 50
	report := mustRun(t, c)
	if len(report.Phases) != 3 || report.Interrupted {
		t.Errorf("%+v", report)
	}
	for _, p := range report.Phases {
		if p.Put.Count+p.Take.Count == 0 {
			t.Errorf("%s", what(p))
		}
	}
}

// broken is a store that fails after so many transactions, once or for good.
type broken struct {
	kv.DB
	left *atomic.Int64
	once bool
}

var errBroken = errors.New("broken")

func (b broken) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if left := b.left.Add(-1); left == -1 || left < 0 && !b.once {
		return errBroken
	}
	return b.DB.Transact(ctx, f)
}

func TestBrokenStore(t *testing.T) {
	for _, after := range []int64{0, 1, 2, 100, 300, 600} {
		left := new(atomic.Int64)
		left.Store(after)
		c := config(t, broken{DB: memory.New(memory.Options{}), left: left})
		c.Depth, c.Combining = 10, false
		if report, err := Run(t.Context(), c); !errors.Is(err, errBroken) || report != nil {
			t.Errorf("after %d transactions: %+v, %v", after, report, err)
		}
	}
}

// A run that has failed removes its items, too, or says that it could not.
func TestBrokenStoreIsCleared(t *testing.T) {
	for _, once := range []bool{true, false} {
		db, left := memory.New(memory.Options{}), new(atomic.Int64)
		left.Store(100)
		c := config(t, broken{db, left, once})
		c.Combining, c.Clear = false, true
		_, err := Run(t.Context(), c)
		if !errors.Is(err, errBroken) || strings.Contains(err.Error(), fmt.Sprintf("items may be left in %q", fifoName)) == once {
			t.Errorf("broken once %v: %v", once, err)
		}
		q, err := conq.OpenQueue(t.Context(), db, fifoName, conq.Bytes())
		testkit.NoError(t, err)
		if n, err := q.Len(t.Context()); err != nil || (n == 0) != once {
			t.Errorf("broken once %v: %d items are left, %v", once, n, err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	c := config(t, nil)
	c.Open = func() (kv.DB, error) { return nil, errBroken }
	if _, err := Run(t.Context(), c); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Size, c.Items, c.Duration = 0, 0, 1 }, ""},
		{func(c *Config) { c.Phases, c.Depth = []Phase{Drain}, 1 }, ""},
		{func(c *Config) { c.Producers = 0 }, "0 producers, 3 consumers, 1 handles: 1 to 10000 of each are allowed"},
		{func(c *Config) { c.Consumers = MaxClients + 1 }, "1 to 10000"},
		{func(c *Config) { c.Handles = -1 }, "1 to 10000"},
		{func(c *Config) { c.Size = -1 }, "size -1"},
		{func(c *Config) { c.Depth = -1 }, "depth -1"},
		{func(c *Config) { c.Priorities = -1 }, "-1 priorities"},
		{func(c *Config) { c.Items = -1 }, "-1 items"},
		{func(c *Config) { c.Items, c.Duration = 1, -1 }, "duration -1ns"},
		{func(c *Config) { c.Items = 0 }, "items or a duration must be given"},
		{func(c *Config) { c.Staging = "often" }, `unknown staging "often": there are always, auto, never`},
		{func(c *Config) { c.Phases = nil }, "no phases: there are fill, drain, transfer"},
		{func(c *Config) { c.Phases = []Phase{"flush"} }, `unknown phase "flush": there are fill, drain, transfer`},
		{func(c *Config) { c.Phases = []Phase{Transfer, Drain} }, "nothing to drain"},
	} {
		config := config(t, nil)
		c.change(&config)
		got := ""
		if err := config.Check(); err != nil {
			got = err.Error()
			if _, err := Run(t.Context(), config); err == nil || err.Error() != got {
				t.Errorf("Run returned %v, want %s", err, got)
			}
		}
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// The same seed gives the same priorities; all of them occur.
func TestMaker(t *testing.T) {
	r := newRun(Config{Settings: Settings{Size: 13, Priorities: 4, Seed: 3}}, nil)
	a, b, other := r.newMaker(1).items(100), r.newMaker(1).items(100), r.newMaker(2).items(100)
	seen := map[int64]bool{}
	different := 0
	for i := range a {
		if a[i].Priority != b[i].Priority || len(a[i].Value) != 13 {
			t.Fatalf("item %d: %+v and %+v", i, a[i], b[i])
		}
		if a[i].Priority != other[i].Priority {
			different++
		}
		seen[a[i].Priority] = true
	}
	if different == 0 || len(seen) != 4 || !seen[0] || !seen[3] {
		t.Errorf("%d priorities differ from another client's, %d are in use", different, len(seen))
	}
}

// Calls that share transactions make one at a time, in each direction of a handle.
func TestTransactions(t *testing.T) {
	for _, c := range []struct {
		phases    []Phase
		handles   int
		combining bool
		want      int
	}{
		{[]Phase{Fill}, 1, true, 1}, {Phases, 1, true, 2}, {Phases, 16, true, 28},
		{[]Phase{Fill, Drain}, 1, false, 16}, {Phases, 1, false, 28},
	} {
		config := Config{Settings: Settings{Producers: 16, Consumers: 12, Handles: c.handles, Combining: c.combining}, Phases: c.phases}
		if got := config.Transactions(); got != c.want {
			t.Errorf("%+v: %d transactions", c, got)
		}
	}
}
