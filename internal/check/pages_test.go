package check_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// A page ends after so many keys, or bytes: so it can be read in the time of a transaction, and
// what was found is told soon.
func TestCheckPages(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	for i := range 100 {
		testkit.Write(t, db, kv.KeyValue{Key: testkit.Packed(t, nil, "other", i), Value: make([]byte, 100_000)})
	}
	for _, page := range []int{3, 0} {
		var keys []int
		var before check.CheckReport
		_, found := runPages(t, db, page, check.CheckOptions{Progress: func(r check.CheckReport) {
			keys = append(keys, r.Keys-before.Keys)
			before = r
		}})
		testkit.Equal(t, "found", found, "other keys 100~")
		want := append(slices.Repeat([]int{3}, 33), 1)
		if page == 0 {
			want = []int{42, 42, 16} // of over 4 MiB
		}
		testkit.EqualSlices(t, "keys of each page", keys, want)
	}
}

// Who waits for items gets those that a check puts back.
func TestCheckWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Options{})
		defer db.Close()
		q, err := conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{Staging: conq.StagingNever})
		testkit.NoError(t, err)
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		stageItems(t, db, testkit.Laid("q"), opID(7), 1, time.Now().Add(time.Minute))
		got := make(chan string, 1)
		go func() {
			v, _ := q.DequeueWait(t.Context())
			got <- v
		}()
		synctest.Wait()
		testkit.Equal(t, "items before", len(got), 0)
		report, err := check.Settings{Now: func() time.Time { return time.Now().Add(time.Hour) }}.Check(context.Background(), db, check.CheckOptions{Repair: true})
		testkit.NoError(t, err)
		testkit.Equal(t, "put back", report.PutBack, 1)
		synctest.Wait()
		testkit.Equal(t, "items", len(got), 1)
		testkit.Equal(t, "item", <-got, "a")
	})
}
