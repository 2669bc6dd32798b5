// Package load puts load on a queue and measures it: what `conq bench` runs. It
// has producers fill a queue, consumers drain it, and both work on it at once, and
// tells how many items a second went through, how long calls took, and what they
// cost in transactions and conflicts.
//
// It checks nothing: that is what package demo is for.
//
// # What is counted where
//
//   - Items and latencies: by the clients, one call an item. A call that found
//     nothing, or was ended with its phase, is not counted.
//   - Transactions and conflicts: between the queue and the store, so all are
//     counted, whatever they were for. A conflict is an attempt that had to be
//     made again.
//   - Batches, staging, and which verbs had the conflicts: from what
//     conq.Options.Observe and work.Options.Observe are told.
//
// What is put in to reach a depth is in none of these. All counters are shared by
// the clients, and atomic or behind a lock.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

// Phase is a way to work on the queue.
type Phase = string

// The phases.
const (
	Fill     = "fill"     // producers only
	Drain    = "drain"    // consumers only, until the queue is empty
	Transfer = "transfer" // both at once, consumers wait for items
)

// Phases are all of them, in an order that makes sense.
var Phases = []Phase{Fill, Drain, Transfer}

// Settings say how much load of which kind. They are part of the report.
type Settings struct {
	// Producers and Consumers are the numbers of concurrent clients.
	Producers int `json:"producers"`
	Consumers int `json:"consumers"`
	// Size is the length of an item in bytes.
	Size int `json:"item_bytes"`
	// Priorities is how many different ones a priority queue gets, evenly. 0 stands
	// for a FIFO queue.
	Priorities int `json:"priorities"`
	// Jobs has it be a work queue, whose jobs are put, then reserved and acknowledged.
	Jobs bool `json:"jobs,omitempty"`
	// Depth is how many items are in the queue, at least, when a phase begins.
	Depth int `json:"depth"`
	// Items is how many go through each phase. Default: 0, as many as the time
	// allows.
	Items int `json:"items"`
	// Duration is how long each phase takes at most. Default: 0, until the items
	// are through. One of Items and Duration must be given.
	Duration time.Duration `json:"duration_ns"`
	// Handles is how many handles the clients share evenly. If there are several,
	// they meet as those of separate processes would: nothing in memory tells one
	// of what another does.
	Handles int `json:"handles"`
	// Combining has calls of one handle share transactions.
	Combining bool `json:"combining"`
	// Staging is auto, always or never.
	Staging string `json:"staging"`
	// Seed decides on payloads and priorities.
	Seed uint64 `json:"seed"`
}

// Transactions is how many are under way at most: one for each client, or where calls share them,
// for each handle in each direction.
func (c *Config) Transactions() (most int) {
	for _, p := range c.Phases {
		n := 0
		for phase, clients := range map[Phase]int{Drain: c.Producers, Fill: c.Consumers} {
			if c.Combining {
				clients = min(clients, c.Handles)
			}
			if p != phase {
				n += clients
			}
		}
		most = max(most, n)
	}
	return most
}

// Config says how to run.
type Config struct {
	Settings
	// Open opens the store. The queue that is worked on must be empty.
	Open func() (kv.DB, error)
	// Phases are run in this order.
	Phases []Phase
	// Clear removes the items that are left in the end.
	Clear bool
	// Progress is told now and then how things are. Default: nobody is.
	Progress func(Progress)
}

// MaxClients is the largest number of producers, consumers, or handles.
const MaxClients = 10_000

// stagings are the values of Settings.Staging.
var stagings = map[string]conq.Staging{
	"auto": conq.StagingAuto, "always": conq.StagingAlways, "never": conq.StagingNever,
}

// Check returns the first thing that is wrong with c.
func (c *Config) Check() error {
	_, staging := stagings[c.Staging]
	switch {
	case c.Jobs && c.Staging != "auto":
		return errors.New("jobs are never staged: leave staging out")
	case c.Items < 0 || c.Duration < 0 || c.Depth < 0 || c.Size < 0 || c.Priorities < 0:
		return fmt.Errorf("%d items, duration %v, depth %d, size %d, %d priorities: none may be negative",
			c.Items, c.Duration, c.Depth, c.Size, c.Priorities)
	case c.Items == 0 && c.Duration == 0:
		return errors.New("items or a duration must be given, or it would not end")
	case !slices.ContainsFunc([]int{c.Producers, c.Consumers, c.Handles}, outOfBounds):
	default:
		return fmt.Errorf("%d producers, %d consumers, %d handles: 1 to %d of each are allowed",
			c.Producers, c.Consumers, c.Handles, MaxClients)
	}
	if !staging {
		return fmt.Errorf("unknown staging %.60q: there are always, auto, never", c.Staging)
	}
	return c.checkPhases()
}

func outOfBounds(clients int) bool { return clients < 1 || clients > MaxClients }

func (c *Config) checkPhases() error {
	if len(c.Phases) == 0 {
		return fmt.Errorf("no phases: there are %s", strings.Join(Phases, ", "))
	}
	left := c.Depth > 0
	for _, p := range c.Phases {
		switch {
		case !slices.Contains(Phases, p):
			return fmt.Errorf("unknown phase %.60q: there are %s", p, strings.Join(Phases, ", "))
		case p == Drain && !left:
			return errors.New("there is nothing to drain: have a fill phase before, or a depth")
		}
		left = left || p == Fill
	}
	return nil
}

// Run puts the load on the store. When ctx ends early the report has what was
// measured until then, and there is no error.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	db, err := c.Open()
	if err != nil {
		return nil, err
	}
	// A store that has failed says so again when it is closed.
	defer func() { err = cmp.Or(err, db.Close()) }()
	r := newRun(c, db)
	defer func() { err = cmp.Or(err, r.close()) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.phases(ctx); err != nil && !r.interrupted(ctx, err) {
		if r.clear(ctx) != nil {
			err = fmt.Errorf("%w; items may be left in %q", err, r.handles[0].Name())
		}
		return nil, err
	}
	return r.report, r.clear(ctx)
}

// run is a call of Run.
type run struct {
	config  Config
	db      *countingDB
	counter *counter
	handles []queue
	payload []byte // of all items
	left    int    // items in the queue
	report  *Report
}

func newRun(c Config, db kv.DB) *run {
	counter := new(counter)
	return &run{
		config: c, db: &countingDB{db, c.Handles > 1, counter}, counter: counter, payload: newPayload(&c.Settings),
		report: &Report{Settings: c.Settings, Phases: []Result{}},
	}
}

// open opens the handles and looks whether the queue is empty.
func (r *run) open(ctx context.Context) error {
	for range r.config.Handles {
		q, err := openQueue(r.db, &r.config.Settings, r.counter)
		if err != nil {
			return err
		}
		r.handles = append(r.handles, q)
	}
	n, err := r.handles[0].Len(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("there are already items in %q: purge it, or use another store", r.handles[0].Name())
	}
	return err
}

// close closes the handles.
func (r *run) close() (err error) {
	for _, q := range r.handles {
		err = cmp.Or(err, q.Close())
	}
	return err
}

func (r *run) phases(ctx context.Context) error {
	for _, p := range r.config.Phases {
		if err := r.deepen(ctx); err != nil {
			return err
		}
		w := newWork(r, p)
		err := w.work(ctx)
		r.left += w.meter.Put.Count() - w.meter.Take.Count()
		r.report.Phases = append(r.report.Phases, w.result())
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		w.meter.Done()
	}
	return nil
}

// interrupted tells whether err only says that ctx has ended.
func (r *run) interrupted(ctx context.Context, err error) bool {
	r.report.Interrupted = ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	return r.report.Interrupted
}

// deepen puts items in, many at a time, until the queue is as deep as it should be.
func (r *run) deepen(ctx context.Context) error {
	want, began := max(0, r.config.Depth-r.left), time.Now()
	m := r.newMaker(0)
	for done := 0; done < want; {
		n := min(r.bulk(), want-done)
		if err := r.handles[0].put(ctx, m.items(n)); err != nil {
			return fmt.Errorf("filling the queue to a depth of %d: %w", r.config.Depth, err)
		}
		r.left += n
		done += n
		r.config.Progress(Progress{Phase: "depth", Elapsed: time.Since(began), Put: done, Done: done == want})
	}
	return nil
}

// bulk is how many items a transaction may put in.
func (r *run) bulk() int {
	const most, bytes, operationsPerItem = 1000, 1 << 20, 8
	n := min(most, bytes/(r.config.Size+1))
	if limit := r.db.Limits().Operations; limit > 0 {
		n = min(n, limit/operationsPerItem)
	}
	return max(n, 1)
}

// grace is how long it may take to clear the queue after an interruption.
const grace = time.Minute

func (r *run) clear(ctx context.Context) error {
	if !r.config.Clear {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return r.handles[0].Clear(ctx)
}
