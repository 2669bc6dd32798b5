package demo

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/load"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
	"go.uber.org/goleak"
)

// asWorker is set for processes that are workers.
const asWorker = "CONQ_TEST_DEMO_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		if err := Work(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func testWorker() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"=1")
	return cmd
}

// kept is a store that Close does not end, so that it can be opened again.
type kept struct{ kv.DB }

func (kept) Close() error { return nil }

func config(db kv.DB) Config {
	return Config{
		Open:  func() (kv.DB, error) { return kept{db}, nil },
		Items: 600, Producers: 4, Consumers: 4, Size: 40, Seed: 7,
	}
}

func TestCorrectStore(t *testing.T) {
	var calls atomic.Int64
	c := config(memory.New(memory.Options{}))
	c.Progress = func(load.Progress) { calls.Add(1) }
	report, err := Run(t.Context(), c)
	testkit.NoError(t, err)
	if !report.OK || len(report.Phases) != 2 || calls.Load() < 2 {
		t.Fatalf("ok %v, %d phases, %d calls of Progress", report.OK, len(report.Phases), calls.Load())
	}
	for _, p := range report.Phases {
		if p.Put.Count != 590 || p.Take.Count+p.Reopened != 600 || p.Reopened < 10 || len(p.Checks) != 5 {
			t.Errorf("%s: %d put and %d left, %d took, %d after reopening", p.Name, p.Put.Count, leave, p.Take.Count, p.Reopened)
		}
		if l := p.Take.Latency; l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max*1.01 {
			t.Errorf("%s: latency %+v", p.Name, l)
		}
	}
}

// TestJobs: worker processes are killed with jobs in hand, and each job is done.
func TestJobs(t *testing.T) {
	c := config(memory.New(memory.Options{}))
	c.Worker = testWorker
	report, err := Run(t.Context(), c)
	testkit.NoError(t, err)
	if !report.OK || len(report.Phases) != 3 {
		t.Fatalf("report: %+v", report)
	}
	p := report.Phases[2]
	if p.Put.Count != 590 || p.Take.Count+p.Reopened != 600 || p.Reopened < 10 || p.Killed < 3 || len(p.Checks) != 5 {
		t.Errorf("%d put, %d done, %d after reopening, %d killed", p.Put.Count, p.Take.Count, p.Reopened, p.Killed)
	}
}

// TestJobsChecks: what a work queue must not do is found.
func TestJobsChecks(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	sound := func() jobsHistory {
		return jobsHistory{
			puts: map[work.ID]uint64{1: 1, 2: 2}, acks: map[work.ID]int{1: 1, 2: 1},
			holds: map[work.ID][]hold{1: {{at(0), at(10)}, {at(10), at(20)}}, 2: {{at(5), at(15)}}},
		}
	}
	for want, spoil := range map[string]func(*jobsHistory){
		"":                           func(*jobsHistory) {},
		"nothing lost":               func(h *jobsHistory) { delete(h.acks, 2) },
		"nothing acknowledged twice": func(h *jobsHistory) { h.acks[1]++ },
		"nothing invented":           func(h *jobsHistory) { h.holds[3] = nil },
		"one holder at a time":       func(h *jobsHistory) { h.holds[2] = append(h.holds[2], hold{at(14), at(16)}) },
		"counts right":               func(h *jobsHistory) { h.counts = append(h.counts, "3 jobs") },
	} {
		h := sound()
		spoil(&h)
		for _, f := range h.check() {
			if (f.Broken > 0) != (f.Check == want) {
				t.Errorf("%q was spoiled: %+v", want, f)
			}
		}
	}
}

// TestJobsWorkerFails: a worker that ends by itself, or answers something else, is an error.
func TestJobsWorkerFails(t *testing.T) {
	for want, worker := range map[string][]string{
		"has ended by itself": {"true"}, "has answered": {"cat"}, "starting a worker process": {"/no/such/program"},
	} {
		c := config(memory.New(memory.Options{}))
		c.Worker = func() *exec.Cmd { return exec.Command(worker[0], worker[1:]...) }
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Time ends both phases. The clock is a bubble's, and the store takes some of it for each transaction.
func TestBoundedByTime(t *testing.T) { testkit.Bubble(t, boundedByTime) }

func boundedByTime(t *testing.T) {
	c := config(faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Latency: time.Millisecond, CommitLatency: time.Millisecond}))
	c.Items, c.Duration = 0, 250*time.Millisecond
	report, err := Run(t.Context(), c)
	testkit.NoError(t, err)
	if !report.OK || report.Phases[0].Put.Count == 0 || len(report.Phases[0].Put.Rates) == 0 {
		t.Errorf("report: %+v", report)
	}
}

// broken is a store whose transactions now and then do something wrong.
type broken struct {
	kv.DB
	n     atomic.Int64
	fault func(kv.Tx) kv.Tx
}

func (b *broken) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return b.DB.Transact(ctx, func(tx kv.Tx) error {
		if b.n.Add(1)%7 == 0 {
			tx = b.fault(tx)
		}
		return f(tx)
	})
}

// dropsClears leaves in what was taken out: items come twice.
type dropsClears struct{ kv.Tx }

func (dropsClears) Clear([]byte) {}

// dropsSets forgets what was put in.
type dropsSets struct{ kv.Tx }

func (d dropsSets) Set(key, value []byte) {
	if !isItem(key) {
		d.Tx.Set(key, value)
	}
}

// isItem tells an item from the catalogue, whose keys begin with a byte string.
func isItem(key []byte) bool { return key[0] == 0x02 }

// spoils changes what was put in.
type spoils struct{ kv.Tx }

func (s spoils) Set(key, value []byte) {
	if isItem(key) {
		value = append([]byte("x"), value...)
	}
	s.Tx.Set(key, value)
}

// skips does not see the first item, from the front.
type skips struct{ kv.Tx }

func (s skips) Range(r kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return butFirst(s.Tx, r, opts)
}

func (s skips) Snapshot() kv.Reader { return skipsSnapshot{s.Tx.Snapshot()} }

type skipsSnapshot struct{ kv.Reader }

func (s skipsSnapshot) Range(r kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return butFirst(s.Reader, r, opts)
}

func butFirst(rd kv.Reader, r kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		first := !opts.Reverse
		if first {
			opts.Limit = 0
		}
		for pair, err := range rd.Range(r, opts) {
			if !first && !yield(pair, err) {
				return
			}
			first = false
		}
	}
}

func TestBrokenStores(t *testing.T) {
	tests := []struct {
		name, check string // any of them
		fault       func(kv.Tx) kv.Tx
	}{
		{"drops clears", "nothing twice", func(tx kv.Tx) kv.Tx { return dropsClears{tx} }},
		{"drops sets", "nothing lost", func(tx kv.Tx) kv.Tx { return dropsSets{tx} }},
		{"skips", "order kept, no false empty", func(tx kv.Tx) kv.Tx { return skips{tx} }},
		{"spoils", "nothing invented", func(tx kv.Tx) kv.Tx { return spoils{tx} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db := &broken{DB: memory.New(memory.Options{}), fault: test.fault}
			c := config(db)
			c.Producers, c.Consumers = 1, 1 // so that no two puts overlap, and no two takes
			report, err := Run(t.Context(), c)
			testkit.NoError(t, err)
			for _, p := range report.Phases {
				if !slices.ContainsFunc(strings.Split(test.check, ", "), func(check string) bool { return isBroken(p, check) }) {
					t.Errorf("%s: %q was not found broken: %+v", p.Name, test.check, p.Checks)
				}
			}
			if report.OK {
				t.Error("report says OK")
			}
		})
	}
}

func isBroken(p Phase, check string) bool {
	for _, c := range p.Checks {
		if c.Check == check {
			return c.Broken > 0
		}
	}
	return false
}

func TestRefuses(t *testing.T) {
	tests := []struct {
		want   string
		change func(*Config)
	}{
		{"neither may be negative", func(c *Config) { c.Items = -1 }},
		{"would not end", func(c *Config) { c.Items = 0 }},
		{"0 producers", func(c *Config) { c.Producers = 0 }},
		{"10001 consumers", func(c *Config) { c.Consumers = 10_001 }},
		{"items of 15 bytes: at least 16", func(c *Config) { c.Size = 15 }},
	}
	for _, test := range tests {
		c := config(memory.New(memory.Options{}))
		test.change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	c := config(memory.New(memory.Options{}))
	c.Items, c.Duration = 0, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(load.Progress) { cancel() }
	if _, err := Run(ctx, c); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v", err)
	}
}
