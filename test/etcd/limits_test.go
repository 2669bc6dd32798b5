package etcd_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/work"
)

// As many workers and jobs as do not fit into a transaction of etcd, by the library and by the command.
func TestManyWorkers(t *testing.T) {
	const jobs, commands, workers = 1000, 200, 64
	c := startCluster(t, clusterOptions{})
	o := c.options()
	db := open(t, o)
	q, err := work.Open(t.Context(), db, "jobs", conq.String(), work.Options{Settings: &work.Settings{Concurrency: 1000}})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.Check(t, q.Close()) })
	put := func(n int) {
		failed := make(chan error, n)
		for i := range n {
			go func() {
				_, err := q.Put(t.Context(), "x", work.Job{Key: fmt.Sprint(i / 2), Unique: fmt.Sprint(i)})
				failed <- err
			}()
		}
		for range n {
			testkit.NoError(t, <-failed)
		}
	}
	put(jobs)
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int64
	testkit.NoError(t, work.Run(ctx, q, func(context.Context, *work.Lease[string]) error {
		if done.Add(1) == jobs {
			stop()
		}
		return nil
	}, work.RunOptions{Workers: workers}))
	testkit.Equal(t, "done", done.Load(), jobs)

	put(jobs)
	n, err := q.CancelAll(t.Context(), work.Filter{}, nil)
	testkit.NoError(t, err)
	testkit.Equal(t, "cancelled", n, jobs)
	n, err = q.KickAll(t.Context(), work.Filter{State: work.Dead}, nil)
	testkit.NoError(t, err)
	testkit.Equal(t, "kicked", n, jobs)

	n, err = q.DeleteAll(t.Context(), work.Filter{}, nil)
	testkit.NoError(t, err)
	testkit.Equal(t, "deleted", n, jobs)

	put(commands)
	binary := buildConq(t)
	cmd := exec.CommandContext(t.Context(), binary, "--store", storeURL(o), "work", "jobs", "-j", fmt.Sprint(workers), "--drain", "--", "true")
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	cmd.WaitDelay = time.Second
	testkit.NoError(t, cmd.Run())
	left, err := q.Len(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "left", left, 0)

}
