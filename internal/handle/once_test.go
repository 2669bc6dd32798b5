package handle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

// Clear happens once: what is enqueued after it stays, whatever had become of its
// first attempts.
func TestExactlyOnceClear(t *testing.T) {
	for storm, faults := range testkit.Storms {
		for seed := range uint64(40) {
			testkit.Bubble(t, func(t *testing.T) {
				c := testkit.NewCluster(t, 1000*seed, faults)
				defer c.Close()
				db := c.Process()
				q := opened(t, func() (*conq.Queue[string], error) { return conq.OpenQueue(db, "q", conq.String()) })
				p := opened(t, func() (*conq.PriorityQueue[string], error) { return conq.OpenPriorityQueue(db, "p", conq.String()) })
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
			"PopMinN": func(p *conq.PriorityQueue[string]) ([]conq.Prioritized[string], error) {
				return p.PopMinN(context.Background(), 3)
			},
			"PopMinWaitN": func(p *conq.PriorityQueue[string]) ([]conq.Prioritized[string], error) {
				return p.PopMinWaitN(context.Background(), 3)
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
				p, err := conq.OpenPriorityQueue(interloper{
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
