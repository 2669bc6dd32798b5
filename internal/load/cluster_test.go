package load

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

var (
	clusterRates = flag.String("cluster", "", "measure queues on a simulated cluster: etcd or foundationdb")
	clusterOnly  = flag.String("cluster.rows", "", "measure rows only that match this regular expression")
)

// TestClusterRates measures queues on a simulated cluster, beside the published recipe on the
// same. The time is that of a bubble, so that it shows what waits for the cluster, and not how fast
// this machine is.
//
//	go test ./internal/load -run TestClusterRates -v -args -cluster foundationdb
func TestClusterRates(t *testing.T) {
	profile := map[string]func(int) faulty.Options{"etcd": faulty.Etcd, "foundationdb": faulty.FoundationDB}[*clusterRates]
	if profile == nil {
		t.Skip("it asserts nothing: -cluster etcd, or foundationdb, measures")
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\tin\tplain\tp50 ms\tout\tplain\tp50 ms\ttransactions\tconflicts\tbatch in\tbatch out\t\n")
	only := regexp.MustCompile(*clusterOnly)
	for _, r := range clusterRows {
		if !only.MatchString(r.String()) {
			continue
		}
		synctest.Test(t, func(t *testing.T) { r.measure(t, w, profile) })
	}
	w.Flush()
	t.Logf("items a second, those of the published recipe by as many clients beside them; transactions and conflicts an item\n%s", &b)
}

// clusterRow is what is measured in one row. Clients is of each side that the phase has.
type clusterRow struct {
	phase      Phase
	clients    int
	handles    int
	combining  bool
	staging    string
	priorities int
	jobs       bool
}

var clusterRows = []clusterRow{
	{Fill, 1, 1, true, "auto", 0, false},
	{Drain, 1, 1, true, "auto", 0, false},
	{Fill, 16, 1, true, "auto", 0, false},
	{Fill, 64, 1, true, "auto", 0, false},
	{Fill, 256, 1, true, "auto", 0, false},
	{Drain, 16, 1, true, "auto", 0, false},
	{Drain, 64, 1, true, "auto", 0, false},
	{Drain, 256, 1, true, "auto", 0, false},
	{Drain, 64, 64, false, "never", 0, false},
	{Drain, 64, 64, false, "always", 0, false},
	{Drain, 64, 64, false, "auto", 0, false},
	{Drain, 256, 16, true, "never", 0, false},
	{Drain, 256, 16, true, "auto", 0, false},
	{Transfer, 64, 1, true, "auto", 0, false},
	{Transfer, 16, 1, true, "never", 10, false},
	{Transfer, 16, 1, true, "auto", 10, false},
	{Transfer, 16, 1, true, "never", 1000, false},
	{Transfer, 16, 1, true, "auto", 1000, false},
	{Transfer, 16, 16, false, "never", 10, false},
	{Transfer, 16, 16, false, "auto", 10, false},
	{Transfer, 64, 64, false, "never", 0, false},
	{Transfer, 64, 64, false, "always", 0, false},
	{Transfer, 64, 64, false, "auto", 0, false},
	{Drain, 1, 1, true, "auto", 0, true},
	{Drain, 16, 1, true, "auto", 0, true},
	{Drain, 64, 1, true, "auto", 0, true},
	{Drain, 64, 16, true, "auto", 0, true},
	{Transfer, 16, 1, true, "auto", 0, true},
	{Transfer, 64, 1, true, "auto", 0, true},
	{Transfer, 64, 16, true, "auto", 0, true},
}

func (r clusterRow) String() string {
	what := fmt.Sprintf("%s %d, %d handles", r.phase, r.clients, r.handles)
	if r.jobs {
		what = "jobs: " + what
	}
	if !r.combining {
		what += " not combined"
	}
	if what += ", " + r.staging; r.priorities > 0 {
		what += fmt.Sprintf(", %d priorities", r.priorities)
	}
	return what
}

func (r clusterRow) measure(t *testing.T, w *tabwriter.Writer, profile func(int) faulty.Options) {
	c := Config{
		Settings: Settings{
			Producers: r.clients, Consumers: r.clients, Size: 128, Duration: 2 * time.Second, Handles: r.handles,
			Combining: r.combining, Staging: r.staging, Priorities: r.priorities, Jobs: r.jobs, Seed: 1,
		},
		Phases: []Phase{r.phase},
	}
	if r.phase == Drain {
		c.Depth = 60_000
	}
	if r.jobs && r.phase == Drain {
		c.Depth = 20_000
	}
	c.Open = func() (kv.DB, error) {
		return faulty.New(memory.New(memory.Options{}), 1, profile(c.Transactions())), nil
	}
	report := mustRun(t, c)
	p := report.Phases[0]
	in, out := 0.0, 0.0
	if r.phase != Drain {
		in = plainRate(t, profile(r.clients), r.clients, Fill)
	}
	if r.phase != Fill {
		out = plainRate(t, profile(r.clients), r.clients, Drain)
	}
	fmt.Fprintf(w, "%v\t%.0f\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\t%.3f\t%.3f\t%.1f\t%.1f\t\n", r,
		p.Put.PerSecond, in, p.Put.Latency.P50, p.Take.PerSecond, out, p.Take.Latency.P50,
		p.TransactionsPerItem, p.ConflictsPerItem, p.Put.Batch, p.Take.Batch)
}

// plainRate is how many items a second so many clients put into a queue, or take out, by the recipe,
// one a transaction.
func plainRate(t *testing.T, o faulty.Options, clients int, p Phase) float64 {
	t.Helper()
	store := memory.New(memory.Options{})
	db := faulty.New(store, 1, o)
	defer db.Close()
	q := recipe.NewQueue(subspace.Named("plain"), nil)
	verb := func(tx kv.Tx) error { return q.Enqueue(tx, make([]byte, 128)) }
	if p == Drain {
		enqueue := verb
		for range 2000 {
			if err := store.Transact(t.Context(), enqueue); err != nil {
				t.Fatal(err)
			}
		}
		verb = func(tx kv.Tx) error {
			_, _, err := q.Dequeue(tx)
			return err
		}
	}
	var done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range clients {
		group.Go(func() {
			for time.Since(began) < 2*time.Second {
				if err := db.Transact(t.Context(), verb); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / 2
}
