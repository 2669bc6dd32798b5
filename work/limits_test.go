package work

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/queue"
)

// limited are engines that take little in one transaction.
var limited = map[string]kv.Limits{
	"128 operations":          {Key: 4096, Value: 512 << 10, Transaction: 1280 << 10, Operations: 128},
	"64 operations, of a few": {Key: 10_000, Value: 30_000, Transaction: 100_000, Operations: 64},
	"of a few":                {Key: 10_000, Value: 30_000, Transaction: 100_000},
}

// crowd is a queue with jobs on such an engine.
type crowd struct {
	*testing.T
	*Queue[string]
	other *Queue[string]
	n     int
	past  atomic.Int64 // nanoseconds that have gone by
	ids   []ID
}

// crowdOf opens a queue in which all that can be limited or kept is. Each fourth job has a key.
func crowdOf(t *testing.T, db kv.DB, n int) *crowd {
	c := &crowd{T: t, n: n}
	o := Options{
		findable: true, Backoff: func(int) time.Duration { return 0 }, Settings: &Settings{
			Keep: time.Hour, KeyLimit: 3, Concurrency: 100_000, Rate: Rate{100_000, time.Second}, KeyRate: Rate{1000, time.Second}, Lease: time.Hour,
		},
	}
	began := time.Now()
	var err error
	for _, q := range []**Queue[string]{&c.Queue, &c.other} {
		*q, err = Open(t.Context(), db, fmt.Sprint("q", len(c.ids)), queue.String(), o)
		testkit.NoError(t, err)
		t.Cleanup(func() { testkit.NoError(t, (*q).Close()) })
		(*q).now = func() time.Time { return began.Add(time.Duration(c.past.Load())) }
		c.ids = append(c.ids, 0)
	}
	c.ids = nil
	return c
}

// job is the i-th one, with the largest texts if it is large.
func (c *crowd) job(i int, large bool) Job {
	j := Job{Unique: fmt.Sprint("unique ", i), UniqueFor: 2 * time.Hour, Meta: map[string]string{"a": "b"}}
	if i%4 == 0 {
		j.Key = fmt.Sprint("key ", i%3)
	}
	if large {
		j.Unique += strings.Repeat("\x00", 1000)
		j.Meta["a"] = strings.Repeat("m", MaxMeta-200)
		if j.Key != "" {
			j.Key += strings.Repeat("k", 1000)
		}
	}
	return j
}

func (c *crowd) fill(delay time.Duration) {
	for i := range c.n {
		j := c.job(len(c.ids), c.n < 50)
		j.Delay = delay
		id, err := c.Put(c.Context(), strings.Repeat("p", 100*(i%5)), j)
		testkit.NoError(c, err)
		c.ids = append(c.ids, id)
	}
}

// lease leases all jobs that can be.
func (c *crowd) lease() (all []*Lease[string]) {
	for {
		some, err := ready(c.Queue)(c.Context(), c.n)
		testkit.NoError(c, err)
		if all = append(all, some...); len(some) == 0 {
			return all
		}
	}
}

func (c *crowd) dead() {
	c.fill(0)
	c.all(c.BuryAll(c.Context(), Filter{}, strings.Repeat("\x00", 2000), nil))
}

// all checks that a bulk verb did something to all jobs.
func (c *crowd) all(n int, err error) {
	c.Helper()
	testkit.NoError(c, err)
	testkit.Equal(c, "jobs", n, c.n)
}

func (c *crowd) count(what string, f Filter, want int) {
	c.Helper()
	n, err := c.Queue.Count(c.Context(), f, nil)
	testkit.NoError(c, err)
	testkit.Equal(c, what, n, want)
}

// each calls a verb of a lease with every lease, at the same time.
func (c *crowd) each(verb func(*Lease[string]) error) {
	c.fill(0)
	leases := c.lease()
	failed := make(chan error, len(leases))
	for _, l := range leases {
		go func() { failed <- verb(l) }()
	}
	for range leases {
		testkit.Check(c, <-failed)
	}
	testkit.Equal(c, "leases", len(leases) >= c.n*3/4, true)
}

// verbs are the methods of a queue, by name, with what they do with many jobs. nil is one that reads or waits for nothing.
var verbs = map[string]func(*crowd){
	"Put": func(c *crowd) {
		failed := make(chan error, c.n)
		for i := range c.n {
			go func() { _, err := c.Put(c.Context(), "", c.job(i, c.n < 50)); failed <- err }()
		}
		for range c.n {
			testkit.Check(c, <-failed)
		}
		c.count("put", Filter{}, c.n)
	},
	"PutAll": func(c *crowd) { // the one that promises a transaction
		_, _, err := c.PutAll(c.Context(), make([]New[string], 1000))
		if c.limits.Operations > 0 {
			testkit.WantError(c, err, kv.ErrTooLarge)
		}
		some := make([]New[string], 5)
		_, _, err = c.PutAll(c.Context(), some)
		testkit.NoError(c, err)
	},
	"ReserveWait": func(c *crowd) {
		c.fill(0)
		for range c.n / 2 {
			_, err := c.ReserveWait(c.Context())
			testkit.NoError(c, err)
		}
	},
	"ReserveWaitN": func(c *crowd) {
		c.fill(0)
		l, err := c.ReserveWaitN(c.Context(), c.n)
		testkit.NoError(c, err)
		testkit.Equal(c, "leased", len(l) > 0, true)
	},
	"ReserveWaitN with options": func(c *crowd) {
		c.fill(0)
		_, err := c.ReserveWaitN(c.Context(), c.n, ReserveOptions{Lease: time.Minute, Holder: strings.Repeat("h", MaxText)})
		testkit.NoError(c, err)
	},
	"ReserveN": func(c *crowd) {
		c.fill(0)
		l, err := ready(c.Queue)(c.Context(), c.n)
		testkit.NoError(c, err)
		testkit.Equal(c, "leased at once", len(l) >= c.n*3/4 || c.limits.Operations == 0, true)
		testkit.Equal(c, "leased", len(l)+len(c.lease()) >= c.n*3/4, true)
	},
	"Reserve": func(c *crowd) {
		c.fill(time.Minute)
		c.past.Add(int64(time.Hour))
		_, err := ready(c.Queue)(c.Context(), c.n, ReserveOptions{Lease: time.Minute})
		testkit.NoError(c, err)
	},
	"reserveID": func(c *crowd) {
		c.fill(time.Hour)
		for _, id := range c.ids[1:4] {
			_, err := c.reserveID(c.Context(), id, ReserveOptions{})
			testkit.NoError(c, err)
		}
	},
	"reserveIDWith": func(c *crowd) {
		c.fill(time.Hour)
		for _, id := range c.ids[1:4] {
			_, err := c.reserveID(c.Context(), id, ReserveOptions{Lease: time.Minute})
			testkit.NoError(c, err)
		}
	},
	"Kick":         func(c *crowd) { c.dead(); c.one(func(id ID) error { return c.Kick(c.Context(), id) }) },
	"Delete":       func(c *crowd) { c.fill(0); c.one(func(id ID) error { return c.Delete(c.Context(), id) }) },
	"deleteFree":   func(c *crowd) { c.fill(0); c.one(func(id ID) error { return c.deleteFree(c.Context(), id) }) },
	"Bury":         func(c *crowd) { c.fill(0); c.one(func(id ID) error { return c.Bury(c.Context(), id, "x") }) },
	"Cancel":       func(c *crowd) { c.fill(0); c.one(func(id ID) error { return c.Cancel(c.Context(), id) }) },
	"Reprioritise": func(c *crowd) { c.fill(0); c.one(func(id ID) error { return c.Reprioritise(c.Context(), id, 7) }) },
	"EndLease": func(c *crowd) {
		c.fill(0)
		for _, l := range c.lease() {
			testkit.NoError(c, c.EndLease(c.Context(), l.ID))
		}
	},
	"KickAll": func(c *crowd) { c.dead(); c.past.Add(1); c.all(c.KickAll(c.Context(), Filter{}, nil)) },
	"DeleteAll": func(c *crowd) {
		c.fill(0)
		c.all(c.DeleteAll(c.Context(), Filter{}, nil))
		c.count("left", Filter{}, 0)
	},
	"EndLeases": func(c *crowd) {
		c.fill(0)
		leases := len(c.lease())
		n, err := c.EndLeases(c.Context(), Filter{State: Leased}, nil)
		testkit.NoError(c, err)
		testkit.Equal(c, "ended", n, leases)
	},
	"BuryAll":         (*crowd).dead,
	"CancelAll":       func(c *crowd) { c.fill(0); c.all(c.CancelAll(c.Context(), Filter{}, nil)) },
	"ReprioritiseAll": func(c *crowd) { c.fill(0); c.all(c.ReprioritiseAll(c.Context(), Filter{}, -3, nil)) },
	"kickFirst":       func(c *crowd) { c.dead(); c.all(c.kickFirst(c.Context(), c.n)) },
	"Clear":           func(c *crowd) { c.fill(0); testkit.NoError(c, c.Clear(c.Context())); c.count("left", Filter{}, 0) },
	"Sweep": func(c *crowd) { // jobs that come due, leases that are over, and jobs that were kept
		c.fill(0)
		for i, l := range c.lease() {
			if i%2 == 0 {
				testkit.NoError(c, l.AckResult(c.Context(), []byte(strings.Repeat("r", 5000))))
			}
		}
		c.fill(time.Minute)
		c.past.Add(int64(3 * time.Hour))
		testkit.NoError(c, c.Sweep(c.Context()))
		c.count("scheduled", Filter{State: Scheduled}, 0)
		c.count("leased", Filter{State: Leased}, 0)
		c.count("done", Filter{State: Done}, 0)
	},
	"Every": func(c *crowd) {
		for i := range c.n {
			testkit.NoError(c, c.Every(c.Context(), fmt.Sprint("p", i), "@every 1s", strings.Repeat("\x00", 1000)))
		}
		c.past.Add(int64(time.Minute))
		testkit.NoError(c, c.Sweep(c.Context()))
		c.count("ticked", Filter{}, c.n)
		for i := range c.n {
			testkit.NoError(c, c.RemovePeriodic(c.Context(), fmt.Sprint("p", i)))
		}
	},
	"RunPeriodic": func(c *crowd) {
		testkit.NoError(c, c.Every(c.Context(), "p", "@every 1h", "x"))
		c.one(func(ID) error { _, err := c.RunPeriodic(c.Context(), "p"); return err })
	},
	"Pause": func(c *crowd) { testkit.NoError(c, errors.Join(c.Pause(c.Context()), c.Resume(c.Context()))) },
	"In": func(c *crowd) {
		c.fill(0)
		testkit.NoError(c, c.db.Transact(c.Context(), func(tx kv.Tx) error {
			_, err := c.Queue.In(tx).Put("x", c.job(5000, true))
			return err
		}))
	},
	"Configure": func(c *crowd) {
		c.fill(0)
		testkit.NoError(c, c.Queue.Configure(c.Context(), Settings{KeyLimit: 1000, Lease: time.Hour}))
		c.count("blocked, when the limit is raised and what is due is done", Filter{State: Blocked}, 0)
	},
	"ConfigureFrom": nil, "Settings": nil, "Drained": nil, "Get": nil, "Result": nil, "List": nil, "Page": nil, "Search": nil, "Peek": nil, "Stats": nil, "Close": nil, "Name": nil, "Recalls": nil,
	"Held": nil, "Len": nil, "Count": nil, "Periodics": nil, "readyBelow": nil, "Resume": nil, "RemovePeriodic": nil,
}

// ofLease are those of a lease.
var ofLease = map[string]func(*crowd, *Lease[string]) error{
	"Ack":       func(c *crowd, l *Lease[string]) error { return l.Ack(c.Context()) },
	"AckResult": func(c *crowd, l *Lease[string]) error { return l.AckResult(c.Context(), make([]byte, 12_000)) },
	"Extend":    func(c *crowd, l *Lease[string]) error { return l.Extend(c.Context(), time.Minute) },
	"Release":   func(c *crowd, l *Lease[string]) error { return l.Release(c.Context(), 0) },
	"ReleaseAs": func(c *crowd, l *Lease[string]) error { return l.ReleaseAs(c.Context(), 0, 5) },
	"release in place": func(c *crowd, l *Lease[string]) error {
		return l.release(c.Context(), 0, &jobs.NewPriority{Priority: 5, OldPlace: true})
	},
	"Fail": func(c *crowd, l *Lease[string]) error {
		return l.Fail(c.Context(), errors.New(strings.Repeat("\xff", 3000)))
	},
	"FailAfter": func(c *crowd, l *Lease[string]) error {
		return l.FailAfter(c.Context(), time.Hour, errors.New(strings.Repeat("x", 3000)))
	},
	"Bury":    func(c *crowd, l *Lease[string]) error { return l.Bury(c.Context(), strings.Repeat("\x00", 3000)) },
	"bury as": func(c *crowd, l *Lease[string]) error { return l.bury(c.Context(), "x", new(int64(6))) },
	"In": func(c *crowd, l *Lease[string]) error {
		return c.db.Transact(c.Context(), func(tx kv.Tx) error { return l.In(tx).AckResult([]byte("x")) })
	},
	"Deadline": nil, "Queue": nil, "Token": nil,
}

// one calls a verb with each job, some at the same time.
func (c *crowd) one(verb func(ID) error) {
	failed := make(chan error, c.n)
	ids := c.ids
	if len(ids) == 0 {
		ids = make([]ID, c.n)
	}
	for _, id := range ids {
		go func() { failed <- verb(id) }()
	}
	for range ids {
		testkit.Check(c, <-failed)
	}
}

// No verb fails as it is over the limits of an engine, however many jobs there are, and whatever is done to them: it does
// less in a transaction, and goes on in the next one. A new verb needs a case.
func TestNoneTooLarge(t *testing.T) {
	covers(t, reflect.TypeFor[*Queue[string]](), verbs)
	covers(t, reflect.TypeFor[*Lease[string]](), ofLease)
	for name, limits := range limited {
		for _, n := range []int{20, 150} {
			for _, shared := range []bool{false, true} {
				open := func(t *testing.T) *crowd {
					db := testkit.NewMemory(t, limits)
					if shared {
						db = faulty.New(db, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
					}
					return crowdOf(t, db, n)
				}
				t.Run(fmt.Sprintf("%s/%d jobs/shared=%v", name, n, shared), func(t *testing.T) {
					t.Parallel()
					for verb, do := range verbs {
						if do != nil {
							t.Run(verb, func(t *testing.T) { do(open(t)) })
						}
					}
					for verb, do := range ofLease {
						if do != nil {
							t.Run("Lease."+verb, func(t *testing.T) {
								c := open(t)
								c.each(func(l *Lease[string]) error { return do(c, l) })
							})
						}
					}
					t.Run("Run", func(t *testing.T) { open(t).run(1) })
					t.Run("Union", func(t *testing.T) { open(t).run(2) })
				})
			}
		}
	}
}

// run has 64 workers do all jobs, of one queue or of both.
func (c *crowd) run(queues int) {
	c.fill(0)
	var source Source[string] = c.Queue
	if queues > 1 {
		u, err := NewUnion(c.Queue, c.other)
		testkit.NoError(c, err)
		for i := range c.n {
			testkit.Drop(c.other.Put(c.Context(), "x", c.job(1000+i, false)))
		}
		source = u
	}
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	var done atomic.Int64
	failed := runAll(ctx, source, &done, int64(queues*c.n), stop)
	testkit.NoError(c, failed)
	testkit.Equal(c, "done", done.Load(), int64(queues*c.n))
}

// runAll runs handlers that count, until there were enough.
func runAll(ctx context.Context, source Source[string], done *atomic.Int64, enough int64, stop func()) error {
	return Run(ctx, source, func(context.Context, *Lease[string]) error {
		if done.Add(1) == enough {
			stop()
		}
		return nil
	}, RunOptions{Workers: 64})
}

// covers checks that each method has a case.
func covers[F any](t *testing.T, of reflect.Type, cases map[string]F) {
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !has(cases, name) {
			t.Errorf("%v.%s has no case: what does it do with many jobs on an engine that limits operations?", of, name)
		}
	}
}

func has[F any](cases map[string]F, name string) bool { _, ok := cases[name]; return ok }

// A queue of many others in a union does not make its transactions too large.
func TestUnionOfMany(t *testing.T) {
	db := testkit.NewMemory(t, limited["64 operations, of a few"])
	var queues []*Queue[string]
	for i := range 70 {
		q, err := Open(t.Context(), db, fmt.Sprint("q", i), queue.String(), Options{Settings: &Settings{Concurrency: 10}})
		testkit.NoError(t, err)
		defer q.Close()
		testkit.Drop(q.Put(t.Context(), "x"))
		testkit.Drop(q.Put(t.Context(), "y", Job{Delay: time.Minute}))
		q.now = func() time.Time { return time.Now().Add(time.Hour) }
		queues = append(queues, q)
	}
	u, err := NewUnion(queues...)
	testkit.NoError(t, err)
	n := 0
	for n < 140 {
		got, err := ready(u)(t.Context(), 100)
		testkit.NoError(t, err)
		if n += len(got); len(got) == 0 {
			t.Fatalf("%d jobs, want 140", n)
		}
	}
}

// Nor where it looks at queues of which it knows nothing yet, or at which something is due in one of them.
func TestUnionOfManyIdle(t *testing.T) {
	for name, limits := range limited {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", shared ", shared), func(t *testing.T) {
				db := testkit.NewMemory(t, limits)
				if shared {
					db = faulty.New(db, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
				}
				const n = 150
				var queues []*Queue[string]
				later := false
				for i := range n {
					q, err := Open(t.Context(), db, fmt.Sprint("q", i), queue.String(), Options{Settings: &Settings{Concurrency: 10}})
					testkit.NoError(t, err)
					defer q.Close()
					q.now = func() time.Time {
						if later {
							return time.Now().Add(time.Hour)
						}
						return time.Now()
					}
					queues = append(queues, q)
				}
				u, err := NewUnion(queues...)
				testkit.NoError(t, err)
				testkit.Drop(queues[n-1].Put(t.Context(), "x"))
				testkit.Drop(queues[n-1].Put(t.Context(), "y", Job{Delay: time.Minute}))
				for _, want := range []string{"x", "y"} {
					l, err := u.ReserveWait(t.Context())
					testkit.NoError(t, err)
					testkit.Equal(t, "job", l.Value, want)
					testkit.NoError(t, l.Ack(t.Context()))
					later = true
				}
			})
		}
	}
}
