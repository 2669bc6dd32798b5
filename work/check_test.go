package work_test

import (
	"context"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// TestCheck damages a work queue in each of its keys: conq.Check finds that, and repairs what follows from the rest.
func TestCheck(t *testing.T) {
	ctx := context.Background()
	var keys [][]byte
	build := func() kv.DB {
		db := memory.New(memory.Options{})
		q, err := work.Open(ctx, db, "jobs", queue.String(), work.Options{Settings: &work.Settings{KeyLimit: 1}})
		testkit.NoError(t, err)
		for i := range 4 {
			_, err := q.Put(ctx, "v", work.Job{Key: []string{"", "a", "a", "b"}[i]})
			testkit.NoError(t, err)
		}
		_, err = q.ReserveN(ctx, 1)
		testkit.NoError(t, err)
		testkit.NoError(t, q.Every(ctx, "p", "@daily", "v"))
		testkit.NoError(t, q.Close())
		return db
	}
	check := func(db kv.DB, repair bool) conq.CheckReport {
		report, err := conq.Check(ctx, db, conq.CheckOptions{Repair: repair})
		testkit.NoError(t, err)
		return report
	}
	db := build()
	report := check(db, false)
	testkit.Equal(t, "faults of a sound queue", report.Faults, 0)
	testkit.Equal(t, "jobs", report.Jobs, 4)
	testkit.Equal(t, "unchecked keys", report.Unchecked, 0)
	testkit.NoError(t, db.ReadTransact(ctx, func(r kv.Reader) error {
		for pair, err := range r.Range(kv.PrefixRange([]byte("\x01conq\x00\x02work\x00\x02")), kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			keys = append(keys, pair.Key)
		}
		return nil
	}))
	repaired := 0
	for _, key := range keys {
		db := build()
		testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error { tx.Clear(key); return nil }))
		if report := check(db, false); report.Sound() && report.Jobs == 4 {
			continue // a count of none
		}
		check(db, true)
		again := check(db, true)
		testkit.Equal(t, "repairs at the second time", again.Repaired, 0)
		if again.Sound() {
			repaired++
		}
		testkit.NoError(t, db.Close())
	}
	if repaired < len(keys)/2 {
		t.Errorf("%d of %d kinds of damage were repaired", repaired, len(keys))
	}
}
