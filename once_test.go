package conq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// storms are faults under which every verb must still happen once.
var storms = map[string]faulty.Options{
	"dropped":  {Dropped: 0.3},
	"applied":  {Applied: 0.3},
	"late":     {Late: 0.3, LateSteps: 30},
	"too old":  {TooOld: 0.005, Dropped: 0.1, Applied: 0.1},
	"all":      {Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, LateSteps: 50},
	"all slow": {Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, Delay: 0.3, MaxDelay: 5 * time.Millisecond},
}

const onceSeeds = 6

// opened calls open until it succeeds: it has no outcome to lose.
func opened[T any](t tb, open func() (T, error)) T {
	t.Helper()
	for range 1000 {
		v, err := open()
		if err == nil {
			return v
		}
		if !errors.Is(err, kv.ErrCommitUnknown) && !reads.TooOld(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("does not open")
	panic("not reached")
}

// ledger is what a client has put in and got out.
type ledger struct {
	t        *testing.T
	what     string
	put, got []string
	n        int
}

// item returns a new value; some lie over several keys.
func (l *ledger) item(client int) string {
	l.n++
	return fmt.Sprint(client, ":", l.n, strings.Repeat(".", 60*(l.n%3)))
}

// note notes values if err is nil. Otherwise nothing has happened: an error for
// which nobody can tell is a failure, as no context ends.
func (l *ledger) note(to *[]string, values []string, err error) {
	switch {
	case err == nil:
		*to = append(*to, values...)
	case errors.Is(err, ErrEmpty), reads.TooOld(err):
	default:
		l.t.Errorf("%s: %v", l.what, err)
	}
}

// Every verb happens exactly once, whatever becomes of commits, with and without
// staging, in several processes at once.
func TestExactlyOnce(t *testing.T) {
	for storm, faults := range storms {
		for mode, staging := range stagings {
			t.Run(storm+" "+mode, func(t *testing.T) {
				for seed := range uint64(onceSeeds) {
					what := fmt.Sprintf("seed %d", seed)
					synctest.Test(t, func(t *testing.T) { exactlyOnce(t, what, seed, faults, staging) })
				}
			})
		}
	}
}

func exactlyOnce(t *testing.T, what string, seed uint64, faults faulty.Options, staging Staging) {
	faults.Limits.Value = 100
	c := newCluster(t, 1000*seed, faults)
	defer c.close()
	const processes, clients, calls = 3, 2, 12
	ledgers := make([]*ledger, 2*processes*clients)
	dbs := []kv.DB{c.process(), c.process(), c.process()}
	together(len(ledgers), func(i int) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		l := &ledger{t: t, what: what}
		ledgers[i] = l
		o := Options{Staging: staging, FIFOTies: i%2 == 0, NoCombining: i%3 == 0}
		if db := dbs[i%processes]; i < len(ledgers)/2 {
			q := opened(t, func() (*Queue[string], error) { return OpenQueue(db, "q", String(), o) })
			l.useQueue(q, r, i, calls)
		} else {
			p := opened(t, func() (*PriorityQueue[string], error) { return OpenPriorityQueue(db, "p", String(), o) })
			l.usePriorityQueue(p, r, i, calls)
		}
	})
	for _, db := range c.nodes {
		db.Flush()
	}
	checkBalance(t, what, c.inner, ledgers)
}

// checkBalance checks that what was put in came out or is still there, once, when
// all staged results that nobody waits for have gone back.
func checkBalance(t *testing.T, what string, db kv.DB, ledgers []*ledger) {
	t.Helper()
	pass(time.Minute) // any lease
	q, err := OpenQueue(db, "q", String(), Options{Staging: StagingAlways})
	noError(t, err)
	p, err := OpenPriorityQueue(db, "p", String(), Options{Staging: StagingAlways})
	noError(t, err)
	var put, got []string
	for _, l := range ledgers {
		put, got = append(put, l.put...), append(got, l.got...)
	}
	for _, v := range []endVerbs{{take: q.DequeueN}, {take: valuesOf(p.PopMinN)}} {
		for {
			values, err := v.take(t.Context(), 100)
			if errors.Is(err, ErrEmpty) {
				break
			}
			noError(t, err)
			got = append(got, values...)
		}
	}
	slices.Sort(put)
	slices.Sort(got)
	equalSlices(t, what+": items that came out", got, put)
	equal(t, what+": keys left", len(left(t, db)), 0)
}

func (l *ledger) useQueue(q *Queue[string], r *rand.Rand, id, calls int) {
	ctx := l.t.Context()
	for range calls {
		switch r.IntN(6) {
		case 0, 1:
			v := l.item(id)
			l.note(&l.put, []string{v}, q.Enqueue(ctx, v))
		case 2:
			values := []string{l.item(id), l.item(id), l.item(id)}
			l.note(&l.put, values, q.EnqueueAll(ctx, values))
		case 3:
			v, err := q.Dequeue(ctx)
			l.note(&l.got, []string{v}, err)
		case 4:
			values, err := q.DequeueN(ctx, 1+r.IntN(4))
			l.note(&l.got, values, err)
		case 5:
			v := l.item(id) // so that there is something to wait for
			l.note(&l.put, []string{v}, q.Enqueue(ctx, v))
			if l.put[len(l.put)-1] == v {
				values, err := l.wait(q.DequeueWaitN, 1+r.IntN(2))
				l.note(&l.got, values, err)
			}
		}
	}
}

// wait calls a verb that waits, but not for ever: others may have taken all.
func (l *ledger) wait(verb func(context.Context, int) ([]string, error), n int) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(l.t.Context(), time.Minute, ErrEmpty)
	defer cancel()
	return verb(ctx, n)
}

func (l *ledger) usePriorityQueue(p *PriorityQueue[string], r *rand.Rand, id, calls int) {
	ctx := l.t.Context()
	take := []func(context.Context, int) ([]string, error){
		valuesOf(p.PopMinN), valuesOf(p.PopMaxN), valuesOf(p.PopMinWaitN), valuesOf(p.PopMaxWaitN),
	}
	for range calls {
		switch r.IntN(5) {
		case 0, 1:
			v := l.item(id)
			l.note(&l.put, []string{v}, p.Push(ctx, v, r.Int64N(3)))
		case 2:
			a, b := l.item(id), l.item(id)
			l.note(&l.put, []string{a, b}, p.PushAll(ctx, []Prioritized[string]{{a, r.Int64N(3)}, {b, r.Int64N(3)}}))
		case 3:
			pop := p.PopMin
			if r.IntN(2) == 0 {
				pop = p.PopMax
			}
			v, err := pop(ctx)
			l.note(&l.got, []string{v}, err)
		case 4:
			values, err := l.wait(take[r.IntN(len(take))], 1+r.IntN(4))
			l.note(&l.got, values, err)
		}
	}
}

// Clear happens once: what is enqueued after it stays, whatever had become of its
// first attempts.
func TestExactlyOnceClear(t *testing.T) {
	for storm, faults := range storms {
		for seed := range uint64(40) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1000*seed, faults)
				defer c.close()
				db := c.process()
				q := opened(t, func() (*Queue[string], error) { return OpenQueue(db, "q", String()) })
				p := opened(t, func() (*PriorityQueue[string], error) { return OpenPriorityQueue(db, "p", String()) })
				for i := range 5 {
					noError(t, q.Enqueue(t.Context(), fmt.Sprint("old ", i)))
					noError(t, p.Push(t.Context(), fmt.Sprint("old ", i), 1))
					noError(t, q.Clear(t.Context()))
					noError(t, p.Clear(t.Context()))
					noError(t, q.Enqueue(t.Context(), "new"))
					noError(t, p.Push(t.Context(), "new", 2))
					db.Flush()
					fresh, err := OpenQueue(c.inner, "q", String())
					noError(t, err)
					equalSlices(t, fmt.Sprint(storm, seed, " queue"), list(t, fresh.All(t.Context())), []string{"new"})
					freshP, err := OpenPriorityQueue(c.inner, "p", String())
					noError(t, err)
					equalSlices(t, fmt.Sprint(storm, seed, " priority queue"), list(t, freshP.All(t.Context())),
						[]Prioritized[string]{{"new", 2}})
				}
			})
		}
	}
}

// The order of one producer holds through unknown outcomes.
func TestExactlyOnceOrder(t *testing.T) {
	for storm, faults := range storms {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 7, faults)
			defer c.close()
			db := c.process()
			q := opened(t, func() (*Queue[string], error) { return OpenQueue(db, "q", String()) })
			const producers, each = 5, 20
			together(producers, func(p int) {
				for i := 1; i <= each; i++ {
					if err := q.Enqueue(t.Context(), fmt.Sprintf("%d:%d:", p, i)); !reads.TooOld(err) {
						report(t, err)
					}
				}
			})
			db.Flush()
			calm, err := OpenQueue(c.inner, "q", String())
			noError(t, err)
			last := make(map[string]int)
			for _, v := range list(t, calm.All(t.Context())) {
				p, i := parse(t, v)
				if i <= last[p] {
					t.Errorf("%s: producer %s: %d after %d", storm, p, i, last[p])
				}
				last[p] = i
			}
		})
	}
}

// A call whose context ends while the outcome of its commit is unknown says so,
// and with which cause; then the item is there or not, but never twice.
func TestUnknownOutcome(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1000*seed, faulty.Options{Dropped: 0.3, Applied: 0.3, Late: 0.3, CommitLatency: time.Millisecond})
			defer c.close()
			db := c.process()
			q := opened(t, func() (*Queue[string], error) { return OpenQueue(db, "q", String()) })
			errs := make([]error, 8)
			together(len(errs), func(i int) {
				cause := fmt.Errorf("cause %d", i)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(seed%20)*200*time.Microsecond, cause)
				defer cancel()
				if errs[i] = q.Enqueue(ctx, fmt.Sprint(i)); errs[i] != nil {
					wantError(t, errs[i], cause)
				}
			})
			db.Flush()
			times := make([]int, len(errs))
			calm, err := OpenQueue(c.inner, "q", String())
			noError(t, err)
			for _, v := range list(t, calm.All(t.Context())) {
				times[v[0]-'0']++
			}
			for i, err := range errs {
				switch unknown := errors.Is(err, kv.ErrCommitUnknown); {
				case times[i] > 1, err == nil && times[i] != 1, err != nil && !unknown && times[i] != 0:
					t.Errorf("seed %d: item %d is there %d times after %v", seed, i, times[i], err)
				}
			}
		})
	}
}

// interloper lets a test act between the attempts of a transaction.
type interloper struct {
	kv.DB
	ran   func()          // the function has run, and its commit follows
	after func(err error) // of each call
}

func (i interloper) Transact(ctx context.Context, f func(kv.Tx) error) error {
	err := i.DB.Transact(ctx, func(tx kv.Tx) error {
		err := f(tx)
		i.ran()
		return err
	})
	i.after(err)
	return err
}

// A commit of unknown outcome lands late, when another attempt has found one item more: those that were
// taken are the first one's.
func TestLateCommitWins(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for name, take := range map[string]func(*PriorityQueue[string]) ([]Prioritized[string], error){
			"PopMinN": func(p *PriorityQueue[string]) ([]Prioritized[string], error) {
				return p.PopMinN(context.Background(), 3)
			},
			"PopMinWaitN": func(p *PriorityQueue[string]) ([]Prioritized[string], error) {
				return p.PopMinWaitN(context.Background(), 3)
			},
		} {
			t.Run(fmt.Sprint(name, " shared ", shared), func(t *testing.T) {
				inner := newMemory(t, kv.Limits{})
				other, err := OpenPriorityQueue(inner, "p", String())
				noError(t, err)
				armed, lost := false, false
				db := faulty.New(inner, 1, faulty.Options{
					Limits: kv.Limits{Shared: shared, UnknownCommits: true},
					Choose: func() faulty.Fate {
						if armed {
							armed = false
							return faulty.Fate{Outcome: faulty.Late}
						}
						return faulty.Fate{}
					},
				})
				p, err := OpenPriorityQueue(interloper{
					DB: db,
					ran: func() {
						if lost {
							lost = false
							db.Flush()
						}
					},
					after: func(err error) {
						if lost = errors.Is(err, kv.ErrCommitUnknown); lost {
							noError(t, other.PushAll(t.Context(), []Prioritized[string]{{"c", 9}}))
						}
					},
				}, "p", String(), Options{Staging: StagingNever})
				noError(t, err)
				noError(t, other.PushAll(t.Context(), []Prioritized[string]{{"a", 5}, {"b", 5}}))
				armed = true
				got, err := take(p)
				noError(t, err)
				equalSlices(t, "taken", got, []Prioritized[string]{{"a", 5}, {"b", 5}})
				equalSlices(t, "left", list(t, other.All(t.Context())), []Prioritized[string]{{"c", 9}})
			})
		}
	}
}
