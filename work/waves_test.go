package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// waveDB counts the waves of reads of all transactions: what was asked for by the time of a read comes with that.
type waveDB struct {
	kv.DB
	waves int
}

func (db *waveDB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return db.DB.Transact(ctx, func(tx kv.Tx) error { return f(waveTx{tx, waveReader{tx, &waves{db: db}}}) })
}

func (db *waveDB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	return db.DB.ReadTransact(ctx, func(r kv.Reader) error { return f(waveReader{r, &waves{db: db}}) })
}

// waves are those of one transaction.
type waves struct {
	db             *waveDB
	asked, fetched []kv.Read
}

func (w *waves) read(what kv.Read) {
	is := func(r kv.Read) bool {
		return (r.Key == nil) == (what.Key == nil) && bytes.Equal(r.Key, what.Key) && r.Options == what.Options &&
			bytes.Equal(r.Range.Begin, what.Range.Begin) && bytes.Equal(r.Range.End, what.Range.End)
	}
	if i := slices.IndexFunc(w.fetched, is); i >= 0 {
		w.fetched = slices.Delete(w.fetched, i, i+1)
		return
	}
	w.db.waves++
	w.fetched = append(w.fetched, slices.DeleteFunc(w.asked, is)...)
	w.asked = nil
}

type waveReader struct {
	kv.Reader
	w *waves
}

func (r waveReader) Get(key []byte) ([]byte, error) {
	r.w.read(kv.Read{Key: bytes.Clone(key)})
	return r.Reader.Get(key)
}

func (r waveReader) Range(over kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	r.w.read(kv.Read{Range: over, Options: o})
	return r.Reader.Range(over, o)
}

func (r waveReader) Snapshot() kv.Reader { return waveReader{r.Reader.Snapshot(), r.w} }

func (r waveReader) Prefetch(reads []kv.Read) { r.w.asked = append(r.w.asked, reads...) }

type waveTx struct {
	kv.Tx
	r waveReader
}

func (t waveTx) Get(key []byte) ([]byte, error) { return t.r.Get(key) }

func (t waveTx) Range(over kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return t.r.Range(over, o)
}

func (t waveTx) Snapshot() kv.Reader { return t.r.Snapshot() }

func (t waveTx) Prefetch(reads []kv.Read) { t.r.Prefetch(reads) }

// together runs a verb of each lease in one transaction.
func together(q *Queue[string], held []*Lease[string], do func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error) error {
	var calls []*actionCall
	for _, l := range held {
		calls = append(calls, &actionCall{Context: context.Background(), Request: action{verb: &verb{
			loads: []int64{int64(l.ID)}, key: l.Key,
			do: func(q *jobs.Queue, tx kv.Tx, now int64) error { return do(l, q, tx, now) },
		}}})
	}
	q.reserve.run(calls)
	var errs []error
	for _, c := range calls {
		errs = append(errs, c.Err)
	}
	return errors.Join(errs...)
}

// What a verb reads it asks for at once: it waits for as many waves of reads for 64 jobs as it does for 8.
func TestWaves(t *testing.T) {
	ctx := context.Background()
	type call = func(t *testing.T, q *Queue[string], n int, held []*Lease[string]) error
	whole := func(n, got int, err error) error {
		if err == nil && got != n {
			err = fmt.Errorf("%d jobs of %d", got, n)
		}
		return err
	}
	reserve := func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
		got, err := ready(q)(ctx, n)
		return whole(n, len(got), err)
	}
	each := func(do func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error) call {
		return func(_ *testing.T, q *Queue[string], _ int, held []*Lease[string]) error { return together(q, held, do) }
	}
	dead := each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.Bury(tx, int64(l.ID), l.token, now, "", nil)
	})
	reclaim := func(q *Queue[string]) error {
		q.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
		return q.Sweep(ctx)
	}
	of := Job{}
	keyed := Job{Key: "each"}
	for _, c := range []struct {
		name   string
		job    Job
		leased bool
		before call // is not counted
		call   call
		most   int // waves
	}{
		{name: "reserve", job: of, call: reserve, most: 4},
		{name: "reserve jobs with keys", job: keyed, call: reserve, most: 5},
		{name: "ack", leased: true, most: 2, call: each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
			return q.Ack(tx, int64(l.ID), l.token, now, nil)
		})},
		{name: "ack jobs with keys", job: keyed, leased: true, most: 2, call: each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
			return q.Ack(tx, int64(l.ID), l.token, now, nil)
		})},
		{name: "extend", leased: true, most: 2, call: each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
			return drop(q.Extend(tx, int64(l.ID), l.token, now, now+1e6))
		})},
		{name: "fail", leased: true, most: 2, call: each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
			return drop(q.Fail(tx, int64(l.ID), l.token, now, now+1e6, ""))
		})},
		{name: "release", leased: true, most: 2, call: each(func(l *Lease[string], q *jobs.Queue, tx kv.Tx, now int64) error {
			return q.Release(tx, int64(l.ID), l.token, now, 0, nil)
		})},
		{name: "put", most: 3, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			all := make([]New[string], n)
			for i := range all {
				all[i].Job = Job{Key: fmt.Sprint("new ", i), Unique: fmt.Sprint(i), Priority: int64(i)}
			}
			ids, _, err := q.PutAll(ctx, all)
			return whole(n, len(ids), err)
		}},
		{name: "kick", leased: true, before: dead, most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			got, err := q.KickAll(ctx, Filter{State: Dead}, nil)
			return whole(n, got, err)
		}},
		{name: "kick the first", leased: true, before: dead, most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			got, err := q.kickFirst(ctx, n)
			return whole(n, got, err)
		}},
		{name: "delete", most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			got, err := q.DeleteAll(ctx, Filter{}, nil)
			return whole(n, got, err)
		}},
		{name: "list", most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			got, _, err := q.Page(ctx, Filter{State: Ready}, nil, n)
			return whole(n, len(got), err)
		}},
		{name: "come due", job: Job{Delay: time.Minute}, most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			return reclaim(q)
		}},
		{name: "come due with keys", job: Job{Key: "each", Delay: time.Minute}, most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			return reclaim(q)
		}},
		{name: "expire", leased: true, most: 6, call: func(_ *testing.T, q *Queue[string], n int, _ []*Lease[string]) error {
			return reclaim(q)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[int]int{}
			for _, n := range []int{8, 32} {
				synctest.Test(t, func(t *testing.T) {
					db := &waveDB{DB: faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})}
					defer db.Close()
					q := open(t, db, Options{Settings: &Settings{Lease: time.Minute}})
					putMany(t, q, n, func(i int) Job {
						j := c.job
						if j.Key != "" {
							j.Key = fmt.Sprint("key ", i)
						}
						return j
					})
					var held []*Lease[string]
					if c.leased {
						var err error
						held, err = ready(q)(ctx, n)
						noError(t, whole(n, len(held), err))
					}
					if c.before != nil {
						noError(t, c.before(t, q, n, held))
					}
					before := db.waves
					noError(t, c.call(t, q, n, held))
					got[n] = db.waves - before
					noError(t, q.Close())
				})
			}
			if got[32] > got[8] || got[32] > c.most {
				t.Errorf("%d waves of reads for 8 jobs, %d for 32, of at most %d", got[8], got[32], c.most)
			}
		})
	}
}

func drop[V any](_ V, err error) error { return err }
