package dump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/work"
)

func openWork(t testkit.TB, db kv.DB, o work.Options) *work.Queue[string] {
	t.Helper()
	q, err := work.Open(context.Background(), db, "w", conq.String(), o)
	testkit.NoError(t, err)
	return q
}

// put puts a job, and returns its id.
func put(t testkit.TB, q *work.Queue[string], value string, job ...work.Job) work.ID {
	t.Helper()
	id, err := q.Put(context.Background(), value, job...)
	testkit.NoError(t, err)
	return id
}

func reserve(t testkit.TB, q *work.Queue[string]) *work.Lease[string] {
	t.Helper()
	leases, err := q.ReserveN(context.Background(), 1)
	testkit.NoError(t, err)
	testkit.Equal(t, "leases", len(leases), 1)
	return leases[0]
}

// fillWork makes a work queue with jobs in all states, of which none is leased unless that is wanted.
func fillWork(t testkit.TB, db kv.DB, leased bool) {
	t.Helper()
	ctx := context.Background()
	q := openWork(t, db, work.Options{Settings: &work.Settings{KeyLimit: 2, Keep: time.Hour, Lease: time.Hour, Timeout: time.Hour, KeyRate: work.Rate{N: 1000, Per: time.Hour}}})
	put(t, q, "done", work.Job{Unique: "kept", UniqueFor: time.Hour, Priority: -9})
	testkit.NoError(t, reserve(t, q).AckResult(ctx, []byte("result")))
	put(t, q, "dead", work.Job{Unique: "dead", Meta: map[string]string{"a": "b", "": "\x00"}, Priority: -9})
	testkit.NoError(t, reserve(t, q).Bury(ctx, "why"))
	for i := range 5 {
		put(t, q, fmt.Sprint("of a key, ", i, strings.Repeat(".", 150*i)), work.Job{Key: "k", Priority: int64(5 - i), Lease: time.Minute})
	}
	put(t, q, "scheduled", work.Job{Delay: time.Hour, Key: "k", MaxAttempts: -1, Timeout: time.Minute})
	put(t, q, "failed", work.Job{Key: "f", Priority: -3})
	testkit.NoError(t, reserve(t, q).FailAfter(ctx, time.Hour, errors.New("no luck")))
	for i := range 3 {
		put(t, q, fmt.Sprint("ready ", i), work.Job{Priority: 9 - int64(i)})
	}
	if leased {
		put(t, q, "leased", work.Job{Priority: -2, Unique: "leased"})
		put(t, q, "cancelled", work.Job{Priority: -1, Key: "c"})
		reserve(t, q)
		testkit.NoError(t, q.Cancel(ctx, reserve(t, q).ID))
	}
	testkit.NoError(t, q.Every(ctx, "nightly", "CRON_TZ=Europe/Berlin 0 3 * * *", "periodic", work.EveryOptions{Job: work.Job{Key: "p", Priority: 3}, MaxLate: time.Hour}))
	testkit.NoError(t, q.Pause(ctx))
	testkit.NoError(t, q.Close())
}

// jobsIn returns all that is known of the jobs of a queue, by id.
func jobsIn(t testkit.TB, db kv.DB) map[work.ID]string {
	t.Helper()
	q := openWork(t, db, work.Options{})
	defer q.Close()
	all := make(map[work.ID]string)
	for info, err := range q.List(context.Background(), work.Filter{}) {
		testkit.NoError(t, err)
		result, err := q.Result(context.Background(), info.ID)
		testkit.NoError(t, err)
		if info.State == work.Ready || info.State == work.Blocked {
			info.Time = time.Time{}
		}
		all[info.ID] = fmt.Sprintf("%+v %q", *info, result)
	}
	return all
}

func isSound(t testkit.TB, db kv.DB) {
	t.Helper()
	var faults []string
	report, err := conq.Check(context.Background(), db, conq.CheckOptions{Found: func(f conq.Finding) { faults = append(faults, f.Text) }})
	testkit.NoError(t, err)
	if !report.Sound() {
		t.Fatalf("the store has faults: %q", faults)
	}
}

// Work queues go to a store of any engine and come back: the same jobs in the same states, with their ids, which no
// other job gets, and the same dump.
func TestDumpWorkQueue(t *testing.T) {
	from := testkit.NewMemory(t, kv.Limits{Value: 400, Transaction: 20_000})
	fillWork(t, from, false)
	dump := dumped(t, from)
	want := jobsIn(t, from)
	for name, db := range map[string]kv.DB{
		"embedded": engines.Embedded(t), "few operations": testkit.NewMemory(t, kv.Limits{Operations: 40, Value: 300, Transaction: 4000}),
		"shared": testkit.NewMemory(t, kv.Limits{Shared: true}),
	} {
		var told []conq.Progress
		report := loadAll(t, db, dump, conq.LoadOptions{Progress: func(p conq.Progress) { told = append(told, p) }})
		testkit.Equal(t, name+": items", report.Items, len(want))
		testkit.Equal(t, name+": told", told[len(told)-1], conq.Progress{Queue: "w", Items: len(want), Bytes: report.Bytes})
		got := jobsIn(t, db)
		for id, text := range want {
			testkit.Equal(t, fmt.Sprintf("%s: job %d", name, id), got[id], text)
		}
		isSound(t, db)
		testkit.Equal(t, name+": its dump", string(dumped(t, db)), string(dump))
		q := openWork(t, db, work.Options{Settings: &work.Settings{KeyLimit: 2}})
		for range 3 {
			if id := put(t, q, "new"); want[id] != "" || id <= work.ID(len(want)) {
				t.Errorf("%s: id %d is given again", name, id)
			}
		}
		stats, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		testkit.Equal(t, name+": paused", stats.Paused, true)
		periodics, err := q.Periodics(t.Context())
		testkit.NoError(t, err)
		testkit.Equal(t, name+": periodic jobs", len(periodics), 1)
		if _, err := q.Put(t.Context(), "x", work.Job{Unique: "kept"}); !errors.Is(err, work.ErrDuplicate) {
			t.Errorf("%s: a claim that outlives its job: %v", name, err)
		}
		testkit.NoError(t, q.Resume(t.Context()))
		var order []string
		for {
			lease, err := q.Reserve(t.Context())
			if errors.Is(err, conq.ErrEmpty) {
				break
			}
			testkit.NoError(t, err)
			order = append(order, lease.Value[:min(12, len(lease.Value))])
			testkit.NoError(t, lease.Ack(t.Context()))
		}
		testkit.EqualSlices(t, name+": order", order, []string{
			"new", "new", "new", "of a key, 1.", "of a key, 4.", "of a key, 3.", "of a key, 2.", "of a key, 0", "ready 2", "ready 1", "ready 0",
		})
		testkit.NoError(t, q.Close())
	}
}

// Several work queues go to a shared store, where each keeps its ids; those that come later, to one that has given out
// such, get others.
func TestLoadSeveralWorkQueues(t *testing.T) {
	from := engines.Embedded(t)
	for _, name := range []string{"a", "b", "c"} {
		q, err := work.Open(t.Context(), from, name, conq.String())
		testkit.NoError(t, err)
		for i := range 3 {
			put(t, q, fmt.Sprint(name, i))
		}
		testkit.NoError(t, q.Close())
	}
	to := testkit.NewMemory(t, kv.Limits{Shared: true})
	for _, c := range []struct {
		name string
		ids  int
	}{{"ab", 0}, {"c", 3}} {
		report := loadAll(t, to, dumped(t, from, strings.Split(c.name, "")...), conq.LoadOptions{})
		for _, q := range report.Queues {
			testkit.Equal(t, "new ids in "+q.Name, q.NewIDs, c.ids)
		}
	}
	isSound(t, to)
}

// What was leased is ready in its old place, or dead if it was cancelled; its attempt does not count.
func TestDumpLeasedJobs(t *testing.T) {
	from, to := engines.Embedded(t), engines.Embedded(t)
	fillWork(t, from, true)
	loadAll(t, to, dumped(t, from), conq.LoadOptions{})
	isSound(t, to)
	q := openWork(t, to, work.Options{})
	defer q.Close()
	testkit.NoError(t, q.Resume(t.Context()))
	stats, err := q.Stats(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "jobs", stats, work.Stats{Ready: 6, Scheduled: 2, Blocked: 3, Dead: 2, Done: 1})
	first := reserve(t, q)
	testkit.Equal(t, "first", first.Value, "leased")
	testkit.Equal(t, "attempt", first.Attempt, 1)
	if _, err := q.Put(t.Context(), "x", work.Job{Unique: "leased"}); !errors.Is(err, work.ErrDuplicate) {
		t.Errorf("its claim: %v", err)
	}
}

func TestLoadWorkQueueExisting(t *testing.T) {
	from := engines.Embedded(t)
	fillWork(t, from, true)
	dump := dumped(t, from)
	n := len(jobsIn(t, from))
	for _, c := range []struct {
		existing              conq.Existing
		jobs, duplicates, ids int
		err                   error
	}{
		{conq.ExistingRefuse, 1, 0, 0, conq.ErrNotEmpty},
		{conq.ExistingAppend, n, 1, 1, nil},
		{conq.ExistingReplace, n, 0, 0, nil},
	} {
		db := engines.Embedded(t)
		q := openWork(t, db, work.Options{Settings: &work.Settings{KeyLimit: 2}})
		put(t, q, "mine", work.Job{Unique: "leased", Key: "k"})
		testkit.NoError(t, q.Every(t.Context(), "nightly", "@daily", "mine"))
		testkit.NoError(t, q.Every(t.Context(), "mine", "@daily", "mine"))
		testkit.NoError(t, q.Close())
		report, err := conq.Load(t.Context(), db, bytes.NewReader(dump), conq.LoadOptions{Existing: c.existing, DryRun: true})
		if c.err == nil {
			testkit.NoError(t, err)
			testkit.Equal(t, "jobs in a dry run", report.Items, n)
		}
		testkit.Equal(t, "jobs after a dry run", len(jobsIn(t, db)), 1)
		report, err = conq.Load(t.Context(), db, bytes.NewReader(dump), conq.LoadOptions{Existing: c.existing})
		if !errors.Is(err, c.err) {
			t.Fatalf("%d: %v", c.existing, err)
		}
		testkit.Equal(t, "jobs", len(jobsIn(t, db)), c.jobs)
		testkit.Equal(t, "duplicates", report.Queues[0].Duplicates, c.duplicates)
		testkit.Equal(t, "new ids", report.Queues[0].NewIDs, c.ids)
		isSound(t, db)
		q = openWork(t, db, work.Options{})
		stats, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		testkit.Equal(t, "paused", stats.Paused, c.existing == conq.ExistingReplace)
		periodics, err := q.Periodics(t.Context())
		testkit.NoError(t, err)
		want := map[conq.Existing]string{conq.ExistingRefuse: "mine@daily nightly@daily", conq.ExistingAppend: "mine@daily nightly@daily", conq.ExistingReplace: "nightlyCRON_TZ=Europe/Berlin 0 3 * * *"}
		var names []string
		for _, p := range periodics {
			names = append(names, p.Name+p.Spec)
		}
		testkit.Equal(t, "periodic jobs", strings.Join(names, " "), want[c.existing])
		testkit.NoError(t, q.Close())
	}
}

// Those who wait for jobs get them as they are loaded, in this process and in others.
func TestLoadWakesWorkers(t *testing.T) {
	from := engines.Embedded(t)
	q := openWork(t, from, work.Options{})
	put(t, q, "a")
	testkit.NoError(t, q.Close())
	dump := dumped(t, from)
	cluster := testkit.NewCluster(t, 1, faulty.Options{})
	defer cluster.Close()
	own := engines.Embedded(t)
	for name, dbs := range map[string][2]kv.DB{"own": {own, own}, "shared": {cluster.Process(), cluster.Process()}} {
		worker := openWork(t, dbs[0], work.Options{})
		got := make(chan string)
		go func() {
			l, err := worker.ReserveWait(context.Background())
			got <- fmt.Sprint(l.Value, err)
		}()
		loadAll(t, dbs[1], dump, conq.LoadOptions{})
		testkit.Equal(t, name, <-got, "a<nil>")
		testkit.NoError(t, worker.Close())
	}
}

// Each job is in once, whatever becomes of commits.
func TestLoadWorkQueueUnknownCommits(t *testing.T) {
	from := engines.Embedded(t)
	fillWork(t, from, true)
	dump := dumped(t, from)
	for seed := range uint64(8) {
		inner := testkit.NewMemory(t, kv.Limits{Operations: 64})
		db := faulty.New(inner, seed, faulty.Options{Conflict: 0.1, Applied: 0.2, Dropped: 0.2, TooOld: 0.02, Limits: kv.Limits{Shared: true, UnknownCommits: true}})
		report, err := conq.Load(t.Context(), db, bytes.NewReader(dump))
		testkit.NoError(t, err)
		testkit.Equal(t, "new ids", report.Queues[0].NewIDs, 0)
		db.Flush()
		testkit.Equal(t, "jobs", len(jobsIn(t, inner)), report.Items)
		isSound(t, inner)
	}
}

// A dump of a queue that is worked on, over several snapshots, has each job that was there all the time, and no key
// stands still after it was loaded.
func TestDumpWorkQueueWhileChanging(t *testing.T) {
	for _, pause := range []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second} {
		f, clock := newClocked(t)
		hooked := f.db.(*testkit.Hooked)
		worker := openWork(t, hooked.DB, work.Options{Settings: &work.Settings{Lease: time.Hour}})
		for i := range 30 {
			put(t, worker, fmt.Sprint(i), work.Job{Key: fmt.Sprint(i % 7), Priority: int64(i * 5 % 13)})
		}
		passed := 0
		hooked.Reader = func(r kv.Reader) kv.Reader {
			return testkit.SlowReader{Reader: r, Pass: func() {
				clock.Pass(pause)
				if passed++; passed%4 == 0 && passed < 60 {
					testkit.NoError(t, reserve(t, worker).Ack(t.Context()))
					put(t, worker, fmt.Sprint("new ", passed), work.Job{Key: fmt.Sprint(passed % 7)})
				}
			}}
		}
		var b bytes.Buffer
		report, err := conq.Dump(t.Context(), hooked, &b, conq.DumpOptions{Queues: []string{"w"}})
		testkit.NoError(t, err)
		hooked.Reader = nil
		if report.Snapshots < 3 {
			t.Fatalf("%d snapshots", report.Snapshots)
		}
		left := make(map[string]bool) // that were there all the time
		for info, err := range worker.List(t.Context(), work.Filter{}) {
			testkit.NoError(t, err)
			left[info.Value] = !strings.HasPrefix(info.Value, "new")
		}
		testkit.NoError(t, worker.Close())
		to := testkit.NewMemory(t, kv.Limits{})
		loadAll(t, to, b.Bytes(), conq.LoadOptions{})
		isSound(t, to)
		q := openWork(t, to, work.Options{})
		for {
			all, err := q.ReserveN(t.Context(), 100)
			if errors.Is(err, conq.ErrEmpty) {
				break
			}
			testkit.NoError(t, err)
			for _, l := range all {
				delete(left, l.Value)
				testkit.NoError(t, l.Ack(t.Context()))
			}
		}
		for value, old := range left {
			if old {
				t.Errorf("pause %v: job %q is missing", pause, value)
			}
		}
		stats, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		testkit.Equal(t, "left", stats, work.Stats{})
		testkit.NoError(t, q.Close())
	}
}

// A job that is too large for the other engine, and what was cut off, is named; what comes before it is in.
func TestLoadWorkQueueInPart(t *testing.T) {
	from := engines.Embedded(t)
	q := openWork(t, from, work.Options{})
	put(t, q, "first", work.Job{Key: "k", Priority: 5})
	put(t, q, "second", work.Job{Key: "k"})
	put(t, q, strings.Repeat("x", 5000))
	put(t, q, "last")
	testkit.NoError(t, q.Close())
	dump := dumped(t, from)
	to := testkit.NewMemory(t, kv.Limits{Transaction: 8000})
	_, err := conq.Load(t.Context(), to, bytes.NewReader(dump))
	testkit.WantError(t, err, kv.ErrTooLarge, `queue "w": item 4 of the dump: kv: item of 5000 bytes is over the limit of 4000`)
	testkit.Equal(t, "jobs", len(jobsIn(t, to)), 2)
	isSound(t, to)
	to = engines.Embedded(t)
	_, err = conq.Load(t.Context(), to, bytes.NewReader(dump[:len(dump)-1]))
	testkit.WantError(t, err, conq.ErrDump, "cut off")
	isSound(t, to)
}
