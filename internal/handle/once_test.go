package handle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// opened calls open until it succeeds: it has no outcome to lose.
func opened[T any](t testkit.TB, open func() (T, error)) T {
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
	case errors.Is(err, conq.ErrEmpty), reads.TooOld(err):
	default:
		l.t.Errorf("%s: %v", l.what, err)
	}
}

// Every verb happens exactly once, whatever becomes of commits, with and without
// staging, in several processes at once.
func TestExactlyOnce(t *testing.T) {
	for storm, faults := range testkit.Storms {
		for mode, staging := range stagings {
			t.Run(storm+" "+mode, func(t *testing.T) {
				for seed := range uint64(testkit.Cases(6)) {
					what := fmt.Sprintf("seed %d", seed)
					testkit.Bubble(t, func(t *testing.T) { exactlyOnce(t, what, seed, faults, staging) })
				}
			})
		}
	}
}

func exactlyOnce(t *testing.T, what string, seed uint64, faults faulty.Options, staging conq.Staging) {
	faults.Limits.Value = 100
	c := testkit.NewCluster(t, 1000*seed, faults)
	defer c.Close()
	const processes, clients, calls = 3, 2, 12
	ledgers := make([]*ledger, 2*processes*clients)
	dbs := []kv.DB{c.Process(), c.Process(), c.Process()}
	testkit.Together(len(ledgers), func(i int) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		l := &ledger{t: t, what: what}
		ledgers[i] = l
		o := conq.Options{Staging: staging, FIFOTies: i%2 == 0, NoCombining: i%3 == 0}
		if db := dbs[i%processes]; i < len(ledgers)/2 {
			q := opened(t, func() (*conq.Queue[string], error) { return conq.OpenQueue(t.Context(), db, "q", conq.String(), o) })
			l.useQueue(q, r, i, calls)
		} else {
			p := opened(t, func() (*conq.PriorityQueue[string], error) {
				return conq.OpenPriorityQueue(t.Context(), db, "p", conq.String(), o)
			})
			l.usePriorityQueue(p, r, i, calls)
		}
	})
	for _, db := range c.Nodes() {
		db.Flush()
	}
	checkBalance(t, what, c.Inner, ledgers)
}

// checkBalance checks that what was put in came out or is still there, once, when
// all staged results that nobody waits for have gone back.
func checkBalance(t *testing.T, what string, db kv.DB, ledgers []*ledger) {
	t.Helper()
	pass(time.Minute) // any lease
	q := newQueue(t, db, conq.String())
	testkit.NoError(t, q.Reclaim(t.Context()))
	p := newPriorityQueue(t, db, conq.String())
	testkit.NoError(t, p.Reclaim(t.Context()))
	var put, got []string
	for _, l := range ledgers {
		put, got = append(put, l.put...), append(got, l.got...)
	}
	for _, v := range []endVerbs{{take: q.DequeueN}, {take: valuesOf(p.PopN, conq.Min)}} {
		for {
			values, err := v.take(t.Context(), 100)
			if errors.Is(err, conq.ErrEmpty) {
				break
			}
			testkit.NoError(t, err)
			got = append(got, values...)
		}
	}
	slices.Sort(put)
	slices.Sort(got)
	testkit.EqualSlices(t, what+": items that came out", got, put)
	testkit.Equal(t, what+": keys left", len(left(t, db)), 0)
}

func (l *ledger) useQueue(q *conq.Queue[string], r *rand.Rand, id, calls int) {
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
	ctx, cancel := context.WithTimeoutCause(l.t.Context(), time.Minute, conq.ErrEmpty)
	defer cancel()
	return verb(ctx, n)
}

func (l *ledger) usePriorityQueue(p *conq.PriorityQueue[string], r *rand.Rand, id, calls int) {
	ctx := l.t.Context()
	take := []func(context.Context, int) ([]string, error){
		valuesOf(p.PopN, conq.Min), valuesOf(p.PopN, conq.Max), valuesOf(p.PopWaitN, conq.Min), valuesOf(p.PopWaitN, conq.Max),
	}
	for range calls {
		switch r.IntN(5) {
		case 0, 1:
			v := l.item(id)
			l.note(&l.put, []string{v}, p.Push(ctx, v, r.Int64N(3)))
		case 2:
			a, b := l.item(id), l.item(id)
			l.note(&l.put, []string{a, b}, p.PushAll(ctx, []conq.Prioritized[string]{{Value: a, Priority: r.Int64N(3)}, {Value: b, Priority: r.Int64N(3)}}))
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
	for storm, faults := range testkit.Storms {
		for seed := range uint64(40) {
			testkit.Bubble(t, func(t *testing.T) {
				c := testkit.NewCluster(t, 1000*seed, faults)
				defer c.Close()
				db := c.Process()
				q := opened(t, func() (*conq.Queue[string], error) { return conq.OpenQueue(t.Context(), db, "q", conq.String()) })
				p := opened(t, func() (*conq.PriorityQueue[string], error) {
					return conq.OpenPriorityQueue(t.Context(), db, "p", conq.String())
				})
				for i := range 5 {
					testkit.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("old ", i)))
					testkit.NoError(t, p.Push(t.Context(), fmt.Sprint("old ", i), 1))
					testkit.NoError(t, q.Clear(t.Context()))
					testkit.NoError(t, p.Clear(t.Context()))
					testkit.NoError(t, q.Enqueue(t.Context(), "new"))
					testkit.NoError(t, p.Push(t.Context(), "new", 2))
					db.Flush()
					fresh := newQueue(t, c.Inner, conq.String())
					testkit.EqualSlices(t, fmt.Sprint(storm, seed, " queue"), testkit.List(t, fresh.All(t.Context())), []string{"new"})
					freshP := newPriorityQueue(t, c.Inner, conq.String())
					testkit.EqualSlices(t, fmt.Sprint(storm, seed, " priority queue"), testkit.List(t, freshP.All(t.Context())),
						[]conq.Prioritized[string]{{Value: "new", Priority: 2}})
				}
			})
		}
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
		for name, take := range map[string]func(*conq.PriorityQueue[string]) ([]conq.Prioritized[string], error){
			"PopN": func(p *conq.PriorityQueue[string]) ([]conq.Prioritized[string], error) {
				return p.PopN(context.Background(), conq.Min, 3)
			},
			"PopWaitN": func(p *conq.PriorityQueue[string]) ([]conq.Prioritized[string], error) {
				return p.PopWaitN(context.Background(), conq.Min, 3)
			},
		} {
			t.Run(fmt.Sprint(name, " shared ", shared), func(t *testing.T) {
				inner := testkit.NewMemory(t, kv.Limits{})
				other := newPriorityQueue(t, inner, conq.String())
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
				p, err := conq.OpenPriorityQueue(t.Context(), interloper{
					DB: db,
					ran: func() {
						if lost {
							lost = false
							db.Flush()
						}
					},
					after: func(err error) {
						if lost = errors.Is(err, kv.ErrCommitUnknown); lost {
							testkit.NoError(t, other.PushAll(t.Context(), []conq.Prioritized[string]{{Value: "c", Priority: 9}}))
						}
					},
				}, "p", conq.String(), conq.Options{Staging: conq.StagingNever})
				testkit.NoError(t, err)
				testkit.NoError(t, other.PushAll(t.Context(), []conq.Prioritized[string]{{Value: "a", Priority: 5}, {Value: "b", Priority: 5}}))
				armed = true
				got, err := take(p)
				testkit.NoError(t, err)
				testkit.EqualSlices(t, "taken", got, []conq.Prioritized[string]{{Value: "a", Priority: 5}, {Value: "b", Priority: 5}})
				testkit.EqualSlices(t, "left", testkit.List(t, other.All(t.Context())), []conq.Prioritized[string]{{Value: "c", Priority: 9}})
			})
		}
	}
}
