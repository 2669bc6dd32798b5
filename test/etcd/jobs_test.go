package etcd_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/etcd"
	"github.com/conq-go/conq/work"
)

var ticks = flag.Int("ticks", 100, "how many ticks of a periodic job to see")

const jobWorkers = 8

// killed runs n processes, each again and again, and kills each after a while, until the function that it returns is called.
func killed(t *testing.T, n int, start func(i int) *exec.Cmd) (stop func() (kills int)) {
	var over atomic.Bool
	var kills atomic.Int64
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range n {
		random := rand.New(rand.NewPCG(*killSeed, uint64(i)))
		group.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				cmd := start(i)
				output := new(strings.Builder)
				cmd.Stderr = output
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				wait(ctx, time.Second+time.Duration(random.IntN(4000))*time.Millisecond)
				_ = cmd.Process.Kill()
				kills.Add(1)
				if err := cmd.Wait(); err == nil {
					t.Errorf("process %d has ended by itself: %s", i, output)
					return
				}
			}
		})
	}
	stop = func() int {
		over.Store(true)
		cancel()
		group.Wait()
		return int(kills.Load())
	}
	t.Cleanup(func() { stop() })
	return stop
}

// buildConq returns the path of the command.
func buildConq(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conq")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/conq").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// storeURL is what the command takes for a store.
func storeURL(o etcd.Options) string {
	return fmt.Sprintf("etcd://%s/%s", strings.Join(o.Endpoints, ","), strings.ReplaceAll(o.Prefix, " ", "%20"))
}

// noteScript has a command of conq work note its job.
const noteScript = `read -r item; echo "$CONQ_JOB_ID $CONQ_JOB_ATTEMPT $(date +%s%N) $CONQ_JOB_DEADLINE $item" >> "$NOTES"`

// Eight processes of conq work are killed, and members of the cluster, too: each job that was acknowledged is done at least
// once, nobody gets a job before the lease of the one who had it is over, and counts are right.
func TestJobsThroughKills(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	o := c.options()
	o.Timeout = 5 * time.Second
	db := open(t, o)
	q, err := work.Open(t.Context(), db, "jobs", conq.String(), work.Options{Settings: &work.Settings{MaxAttempts: -1, Order: work.Relaxed}})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.Check(t, q.Close()) })
	binary, notes := buildConq(t), filepath.Join(t.TempDir(), "notes")
	stop := killed(t, jobWorkers, func(int) *exec.Cmd {
		cmd := exec.Command(binary, "--store", storeURL(o), "work", "jobs", "-j", "2", "--lease", "3s", "--", "sh", "-c", noteScript)
		cmd.Env = append(os.Environ(), "NOTES="+notes)
		return cmd
	})
	x := newChaos(c)
	var disturbing sync.WaitGroup
	disturbing.Go(func() { x.run(t, *kills) })
	put := putThrough(t, x, q)
	disturbing.Wait()
	awaitEmpty(t, q)
	n := stop()
	judgeNotes(t, put, notes)
	report, err := conq.Check(t.Context(), db, conq.CheckOptions{Found: func(f conq.Finding) { t.Error(f.Text) }})
	testkit.NoError(t, err)
	testkit.Equal(t, "sound", report.Sound(), true)
	t.Logf("%d jobs, %d kills of workers, %v", len(put), n, x.counts)
}

// putThrough puts jobs while the cluster is disturbed, and returns those that were acknowledged. One whose outcome
// is unknown has no id here.
func putThrough(t *testing.T, x *chaos, q *work.Queue[string]) map[work.ID]string {
	var mu sync.Mutex
	put := make(map[work.ID]string)
	var group sync.WaitGroup
	for p := range jobWorkers {
		group.Go(func() {
			for n := 0; !x.done.Load() && !t.Failed(); n++ {
				item := fmt.Sprint("item ", p, ".", n)
				id, err := q.Put(t.Context(), item, work.Job{Key: []string{"", "", "a", "b"}[n%4]})
				mu.Lock()
				if err == nil {
					put[id] = item
				} else if !errors.Is(err, kv.ErrCommitUnknown) {
					t.Errorf("Put: %v", err)
				}
				mu.Unlock()
				wait(t.Context(), 100*time.Millisecond)
			}
		})
	}
	group.Wait()
	return put
}

// awaitEmpty waits as long as jobs get done: those of a key are done one after another, each once the lease of a worker
// that was killed with it is over.
func awaitEmpty(t *testing.T, q *work.Queue[string]) {
	t.Helper()
	least, since := math.MaxInt, time.Now()
	for {
		n, err := q.Len(t.Context())
		switch {
		case err == nil && n == 0:
			return
		case err == nil && n < least:
			least, since = n, time.Now()
		case time.Since(since) > patience:
			s, err := q.Stats(t.Context())
			t.Fatalf("none done for %v: %+v (%v)", patience, s, err)
		}
		wait(t.Context(), 100*time.Millisecond)
	}
}

// note is what a command has noted of its job when it began.
type note struct {
	id              work.ID
	attempt         int64
	began, deadline time.Time // of the lease, at first
	item            string    // empty if it got none: its conq was killed before
}

// notesIn returns what is noted, sorted: a command may outlive its conq, and begin late, behind the next attempt.
func notesIn(t *testing.T, path string) (all []note) {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var n note
		var nanoseconds int64
		var at string
		_, err := fmt.Sscan(line, &n.id, &n.attempt, &nanoseconds, &at)
		testkit.NoError(t, err)
		n.began = time.Unix(0, nanoseconds)
		n.deadline, err = time.Parse(time.RFC3339Nano, at)
		testkit.NoError(t, err)
		n.item = strings.TrimSpace(strings.SplitN(line, " ", 5)[4])
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b note) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.attempt, b.attempt)) })
	return all
}

// judgeNotes says what a correct queue could not have given to those who have noted it.
func judgeNotes(t *testing.T, put map[work.ID]string, notes string) {
	t.Helper()
	done, until := make(map[work.ID]bool), make(map[work.ID]time.Time)
	for _, n := range notesIn(t, notes) {
		if want, known := put[n.id]; known && n.item != "" && n.item != want {
			t.Errorf("job %d was %q, not %q", n.id, n.item, want)
		}
		if n.began.Before(until[n.id]) {
			t.Errorf("job %d began again %v before a lease of it was over", n.id, until[n.id].Sub(n.began))
		}
		done[n.id], until[n.id] = done[n.id] || n.item != "", n.deadline
	}
	for id := range put {
		if !done[id] {
			t.Errorf("job %d was never done", id)
		}
	}
}

// workerVariable makes the test's binary a process that does the jobs of a store.
const workerVariable = "CONQ_ETCD_TEST_WORKER"

// beWorker does jobs until it is killed.
func beWorker(encoded string) error {
	var o etcd.Options
	if err := json.Unmarshal([]byte(encoded), &o); err != nil {
		return err
	}
	db, err := etcd.Open(context.Background(), o)
	if err != nil {
		return err
	}
	q, err := work.Open(context.Background(), db, "every", conq.String(), work.Options{Settings: &work.Settings{Keep: time.Hour, Lease: 2 * time.Second}})
	if err != nil {
		return err
	}
	return work.Run(context.Background(), q, func(context.Context, *work.Lease[string]) error { return nil })
}

// Eight processes, which are killed, wait for the ticks of a periodic job: each tick makes one job.
func TestEveryThroughKills(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	o := c.options()
	encoded, err := json.Marshal(struct {
		Endpoints []string
		Prefix    string
	}{o.Endpoints, o.Prefix})
	testkit.NoError(t, err)
	self, err := os.Executable()
	testkit.NoError(t, err)
	db := open(t, o)
	q, err := work.Open(t.Context(), db, "every", conq.String(), work.Options{Settings: &work.Settings{Keep: time.Hour}})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.Check(t, q.Close()) })
	testkit.NoError(t, q.Every(t.Context(), "tick", "@every 1s", "v"))
	began := time.Now()
	stop := killed(t, jobWorkers, func(int) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), workerVariable+"="+string(encoded))
		return cmd
	})
	for n := 0; n < *ticks; {
		wait(t.Context(), 500*time.Millisecond)
		s, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		n = int(s.Done + s.Ready + s.Leased)
		if time.Since(began) > time.Duration(*ticks)*time.Second+patience {
			t.Fatalf("%d jobs of %d ticks after %v", n, *ticks, time.Since(began))
		}
	}
	n := stop()
	seconds := make(map[int64]work.ID) // the next tick after one is due in another second
	for info, err := range q.List(t.Context(), work.Filter{}) {
		testkit.NoError(t, err)
		second := info.Created.Unix()
		if other, there := seconds[second]; there {
			t.Errorf("jobs %d and %d are of one tick", other, info.ID)
		}
		seconds[second] = info.ID
	}
	if most := int(time.Since(began).Seconds()) + 1; len(seconds) < *ticks || len(seconds) > most {
		t.Errorf("%d jobs in %v", len(seconds), time.Since(began))
	}
	t.Logf("%d jobs in %.0f s, %d kills of workers", len(seconds), time.Since(began).Seconds(), n)
}
