package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// TestOpenForgetsOutcomes: opening a queue removes the outcome keys of processes that have died long ago, and none that
// was used lately.
func TestOpenForgetsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Options{})
		process := func() *Queue[string] {
			db := faulty.New(inner, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
			q, err := Open(t.Context(), db, "jobs", queue.String())
			noError(t, err)
			_, err = q.Put(context.Background(), "v")
			noError(t, err)
			return q
		}
		keys := func() (n int) {
			noError(t, inner.ReadTransact(context.Background(), func(r kv.Reader) error {
				for _, err := range r.Range(jobs.Outcomes("jobs").Range(), kv.RangeOptions{}) {
					if err != nil {
						return err
					}
					n++
				}
				return nil
			}))
			return n
		}
		process()
		process()
		time.Sleep(kv.OutcomeAge - time.Hour)
		lately := process()
		if n := keys(); n != 3 {
			t.Errorf("%d outcome keys after three processes", n)
		}
		time.Sleep(2 * time.Hour)
		q := process()
		if n := keys(); n != 2 {
			t.Errorf("%d outcome keys are left, not those of the process before and of this one", n)
		}
		noError(t, lately.Close())
		noError(t, q.Close())
		if n := keys(); n != 0 {
			t.Errorf("%d outcome keys after Close", n)
		}
		noError(t, inner.Close())
	})
}
