package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/conq-go/conq/internal/load"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/spf13/cobra"
)

const benchLong = `Measure how fast a queue is here: producers that fill it, consumers that drain
it, and both at once. Prints items a second, how long calls took, and what an item
cost in transactions and conflicts, and which verbs had these; --json prints all
of it as one document.

The store is a temporary directory, which is removed at the end, unless --store
names one; there the items are removed at the end. --durability memory, or
--store memory:, leaves out what the disk costs.

Phases run in the order in which they are given:
  fill      producers only, until --items are in or --duration is over
  drain     consumers only, until the queue is empty, or as above
  transfer  both at once; consumers wait for items

With --jobs it is a work queue: jobs are put, and to take one is to reserve and
acknowledge it, which are two transactions.

With several --handles the clients meet as those of separate processes would:
they combine only within a handle, and tell each other of news through the store.
With --latency or --commit-latency the store answers as late as a cluster,
and is taken for one: others share it, and the outcome of a commit may be unknown.
With --profile it answers as a real cluster was measured to, and gets slower under
load; then the store is in memory, unless --store names one.

An interrupt (Ctrl-C) ends it early, with the report of what was measured, and
exit code 0.`

const benchExample = `  conq bench
  conq bench --priorities 10 --producers 64 --consumers 64
  conq bench --jobs
  conq bench --phase drain --depth 100000 --consumers 256 --items 50000
  conq bench --handles 16 --no-combining --staging always --durability memory
  conq bench --handles 64 --producers 64 --consumers 64 --latency 2ms --commit-latency 3ms
  conq bench --handles 64 --consumers 64 --no-combining --profile foundationdb
  conq bench --duration 10s --json | jq '.phases[].take.per_second'`

// benchFlags are the flags that are not settings of the load.
type benchFlags struct {
	config        load.Config
	noCombining   bool
	latency       time.Duration
	commitLatency time.Duration
	profile       string
}

// profiles are the clusters of --profile.
var profiles = map[string]func(clients int) faulty.Options{"": nil, "etcd": faulty.Etcd, "foundationdb": faulty.FoundationDB}

func (a *app) bench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure how fast a queue is",
		Long:    benchLong,
		Example: benchExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			completeLoad(cmd, &f.config.Seed, &f.config.Duration)
			return a.runBench(cmd, &f)
		},
	}
	f.register(cmd)
	return cmd
}

// completeLoad gives flags that were left out of a command which has a workload run the values that depend
// on others: a random seed, and no limit of time where there is one of items.
func completeLoad(cmd *cobra.Command, seed *uint64, duration *time.Duration) {
	if !cmd.Flags().Changed("seed") {
		*seed = uint64(rand.Uint32())
	}
	if cmd.Flags().Changed("items") && !cmd.Flags().Changed("duration") {
		*duration = 0
	}
}

// workplace returns where a workload runs: in the store, or in a temporary one, which remove removes.
func (a *app) workplace(temporary bool) (where, name string, remove func(), err error) {
	if !temporary {
		_, err = a.storeURL()
		return "store " + a.shownStore(), a.shownStore(), func() {}, err
	}
	dir, err := os.MkdirTemp("", "conq-")
	if err != nil {
		return "", "", func() {}, fmt.Errorf("making a temporary directory for the store: %w", err)
	}
	a.store = filepath.Join(dir, "store")
	_, err = a.storeURL()
	return "a temporary store", "temporary", func() { _ = os.RemoveAll(dir) }, err
}

func (f *benchFlags) register(cmd *cobra.Command) {
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&c.Phases, "phase", load.Phases, "phases to run, in order")
	integerFlag(flags, &c.Producers, "producers", "", 16, "concurrent producers")
	integerFlag(flags, &c.Consumers, "consumers", "", 16, "concurrent consumers")
	integerFlag(flags, &c.Size, "size", "", 100, "bytes an item")
	integerFlag(flags, &c.Priorities, "priorities", "", 0, "a priority queue with so many priorities; 0 is a FIFO queue")
	flags.BoolVar(&c.Jobs, "jobs", false, "a work queue: jobs are put, reserved and acknowledged")
	integerFlag(flags, &c.Depth, "depth", "", 0, "items in the queue, at least, when a phase begins")
	integerFlag(flags, &c.Items, "items", "", 0, "items that go through each phase (default as many as the time allows)")
	flags.DurationVar(&c.Duration, "duration", 2*time.Second, "how long each phase takes at most; with --items no limit unless given")
	integerFlag(flags, &c.Handles, "handles", "", 1, "handles of the queue that the clients share")
	flags.BoolVar(&f.noCombining, "no-combining", false, "a transaction for each call")
	flags.StringVar(&c.Staging, "staging", "auto", "take by staged requests: auto, always or never")
	flags.DurationVar(&f.latency, "latency", 0, "added to each attempt of a transaction")
	flags.DurationVar(&f.commitLatency, "commit-latency", 0, "added to each commit that writes")
	flags.StringVar(&f.profile, "profile", "", "answer as a cluster: etcd or foundationdb")
	integerFlag(flags, &c.Seed, "seed", "", 0, "seed of payloads and priorities (default random)")
}

func (a *app) runBench(cmd *cobra.Command, f *benchFlags) error {
	config := &f.config
	config.Combining = !f.noCombining
	if err := f.check(); err != nil {
		return err
	}
	config.Clear = cmd.Flags().Changed("store")
	if !config.Clear && f.profile != "" {
		a.store = "memory:"
	}
	where, name, remove, err := a.workplace(!config.Clear && f.profile == "")
	defer remove()
	if err != nil {
		return err
	}
	open := func() (kv.DB, error) { return f.slowed(a.open) }
	config.Open = a.opening(open, config.Size, a.benchTitle(f, where))
	return a.measureLoad(cmd, f, name)
}

// check returns what is wrong with the flags.
func (f *benchFlags) check() error {
	_, known := profiles[f.profile]
	switch {
	case f.latency < 0 || f.commitLatency < 0:
		return usagef("--latency %v, --commit-latency %v: neither may be negative", f.latency, f.commitLatency)
	case !known:
		return usagef("unknown profile %.60q: there are etcd, foundationdb", f.profile)
	case f.profile != "" && (f.latency > 0 || f.commitLatency > 0):
		return usagef("--profile %s has latencies of its own: leave --latency and --commit-latency out", f.profile)
	}
	if err := f.config.Check(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// slowed opens the store, slowed down if asked for.
func (f *benchFlags) slowed(open func() (kv.DB, error)) (kv.DB, error) {
	db, err := open()
	o := faulty.Options{
		Latency: f.latency, CommitLatency: f.commitLatency,
		Limits: kv.Limits{Shared: true, UnknownCommits: true},
	}
	switch {
	case err != nil || f.latency == 0 && f.commitLatency == 0 && f.profile == "":
		return db, err
	case f.profile != "":
		o = profiles[f.profile](f.config.Transactions())
	}
	return faulty.New(db, f.config.Seed, o), nil
}

// benchDocument is the report with --json.
type benchDocument struct {
	Store         string        `json:"store"`
	Durability    string        `json:"durability,omitempty"`
	Latency       time.Duration `json:"latency_ns,omitempty"`
	CommitLatency time.Duration `json:"commit_latency_ns,omitempty"`
	Profile       string        `json:"profile,omitempty"`
	*load.Report
}

func (a *app) measureLoad(cmd *cobra.Command, f *benchFlags, name string) error {
	live := newLive(a)
	f.config.Progress = live.show
	report, err := load.Run(cmd.Context(), f.config)
	live.end()
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(benchDocument{name, a.durability, f.latency, f.commitLatency, f.profile, report})
	}
	return a.printf("%s", benchText(report))
}

// benchTitle says what is measured.
func (a *app) benchTitle(f *benchFlags, where string) string {
	c := &f.config
	kind, combining := "FIFO queue", "on"
	switch {
	case c.Jobs && c.Priorities > 0:
		kind = "work queue with " + priorities(c.Priorities)
	case c.Jobs:
		kind = "work queue"
	case c.Priorities > 0:
		kind = "priority queue of " + priorities(c.Priorities)
	}
	if !c.Combining {
		combining = "off"
	}
	return fmt.Sprintf("%s and %s at a %s, items of %s\n%s, combining %s, staging %s\n%s%s, seed %d\n\n",
		plural(c.Producers, "producer"), plural(c.Consumers, "consumer"), kind, size(int64(c.Size)),
		plural(c.Handles, "handle"), combining, c.Staging, where, a.speed(f), c.Seed)
}

func priorities(n int) string {
	if n == 1 {
		return "1 priority"
	}
	return count(n) + " priorities"
}

// speed says what decides on the speed of the store.
func (a *app) speed(f *benchFlags) (text string) {
	if a.durability != "" {
		text = fmt.Sprintf(" with durability %s", a.durability)
	}
	if f.latency > 0 || f.commitLatency > 0 {
		text += fmt.Sprintf(", %v more for a transaction and %v for a commit", f.latency, f.commitLatency)
	}
	if f.profile != "" {
		text += ", answering as " + f.profile
	}
	return text
}
