package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// exported returns the records of a queue, as a dump has them.
func exported(t interface{ Fatal(...any) }, db kv.DB, q *Queue) (kinds []int64, data [][]byte) {
	add := func(r *Record) {
		kinds, data = append(kinds, int64(r.Kind)), append(data, r.Encode())
	}
	err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
		settings, err := q.ExportSettings(r)
		if err != nil {
			return err
		}
		for pair, err := range r.Range(q.Slots(), kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			used, err := q.UsedSlots(pair)
			if err != nil {
				return err
			}
			settings.Queue.Slots = max(settings.Queue.Slots, used)
		}
		add(settings)
		for _, part := range q.Exported() {
			for pair, err := range r.Range(part, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				record, err := q.Export(r, pair)
				if err != nil {
					return err
				}
				if record != nil {
					add(record)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds, data
}

// imported puts records into a queue, some in each transaction.
func imported(t interface{ Fatal(...any) }, db kv.DB, q *Queue, now int64, kinds []int64, data [][]byte) (total Imported) {
	ctx := context.Background()
	var m *Importer
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.ReadTransact(ctx, func(r kv.Reader) error {
		empty, err := q.IsEmpty(r)
		if err != nil {
			return err
		}
		free, err := Free(r, db)
		m = q.Import(free, empty)
		return err
	}))
	for i := range kinds {
		r, err := ParseRecord(kinds[i], data[i])
		must(err)
		var done Imported
		must(db.Transact(ctx, func(tx kv.Tx) (err error) {
			done, err = m.Put(tx, now, []*Record{r})
			return err
		}))
		m.Committed(done)
		total.Jobs += done.Jobs
		total.Duplicates += done.Duplicates
		total.NewIDs += done.NewIDs
	}
	for next := []byte(nil); ; {
		must(db.Transact(ctx, func(tx kv.Tx) (err error) {
			next, err = q.Admit(tx, now, next, 2)
			return err
		}))
		if next == nil {
			return total
		}
	}
}

// Move brings the queue into another store, in which the verbs go on.
func (m *model) Move(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "move") > 0 {
		return
	}
	kinds, data := exported(t, m.db, m.q)
	m.db.Close()
	m.db = memory.New(memory.Options{})
	m.q = NewQueue("q", kv.Limits{Value: rapid.SampledFrom([]int{0, 3}).Draw(t, "other value limit")}, m.config)
	if n := imported(t, m.db, m.q, m.now, kinds, data); n != (Imported{Jobs: len(m.jobs)}) {
		t.Fatalf("of %d jobs: %+v", len(m.jobs), n)
	}
	m.changed(func(kv.Tx) error { return nil })
	for _, j := range m.of(Leased) {
		if j.token = 0; j.cancelled {
			j.state, j.time, j.slot, j.cancelled = Dead, m.now, false, false
			m.endClaim(j)
		} else {
			j.state, j.attempts = Ready, j.attempts-1
		}
	}
	for _, j := range m.of(Blocked) {
		if m.used(j.key) == 0 && m.rates[j.key] <= m.now {
			j.state, j.slot = Ready, true
		}
	}
}

// each record as it may be in a dump, of a queue with all that there is.
func sampleRecords(t testing.TB) (kinds []int64, data [][]byte) {
	db := memory.New(memory.Options{})
	defer db.Close()
	id := int64(0)
	q := NewQueue("q", kv.Limits{Value: 4}, Config{
		Settings: Settings{Keep: 1000, KeyRate: Rate{N: 1, Period: 50}, Rate: Rate{N: 100, Period: 1000}}, NewID: func(context.Context) (int64, error) { id++; return id, nil },
	})
	err := db.Transact(context.Background(), func(tx kv.Tx) error {
		id = 0
		token := int64(100)
		request := Request{N: 2, Holder: "h\x00", Lease: 500, NewToken: func() int64 { token++; return token }}
		for i, n := range []New{
			{Payload: []byte("done"), Unique: "kept", UniqueFor: 900}, {Payload: []byte("dead"), Unique: "dead"}, {Payload: []byte("leased, over several keys"), Key: "a"},
			{Payload: []byte("blocked"), Key: "a", Meta: map[string]string{"m": "\x00", "": "é"}}, {At: 5000, Lease: 2000, MaxAttempts: 3}, {Key: "b", Priority: math.MinInt64, Timeout: 7},
		} {
			if _, err := q.Put(tx, q.Places(), 10, &n); err != nil {
				return err
			}
			if i != 1 {
				continue
			}
			found, err := q.Reserve(tx, 20, request)
			if err != nil {
				return err
			}
			got := found.Jobs
			if err := errors.Join(q.Ack(tx, got[0].ID, got[0].Token, 21, []byte{}), q.Bury(tx, got[1].ID, got[1].Token, 21, "why\xff", nil)); err != nil {
				return err
			}
		}
		if _, err := q.Reserve(tx, 30, request); err != nil {
			return err
		}
		if err := q.Pause(tx, true); err != nil {
			return err
		}
		return q.SetPeriodic(tx, &Periodic{Name: "p", Spec: "@daily", Next: 50, MaxLate: 7, Overlap: Skip, Last: 3, LastPut: 10, Job: New{
			Payload: []byte("x"), Key: "k", Lease: 5000, Unique: "u", UniqueFor: 5, Timeout: 9, Meta: map[string]string{"m": "v"},
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return exported(t, db, q)
}

// TestImportAgain puts the same records in twice: jobs get other ids, and unique ones are there once.
func TestImportAgain(t *testing.T) {
	kinds, data := sampleRecords(t)
	db := memory.New(memory.Options{})
	defer db.Close()
	q := NewQueue("other", kv.Limits{}, Config{})
	imported(t, db, q, 40, kinds, data)
	if again := imported(t, db, q, 41, kinds, data); again != (Imported{Jobs: 6, NewIDs: 6}) {
		t.Errorf("the second time: %+v", again)
	}
	if problems := checked(t, db, q); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
		last, err := lastID(r)
		counts, _ := q.Counts(r)
		if last != 12 || fmt.Sprint(counts) != "map[ready:2 scheduled:2 blocked:4 dead:2 done:2]" { // the first of each key, and none of the second time
			t.Errorf("last id %d, jobs by state %v", last, counts)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImportAvoidsGivenIDs: an id that a process may be giving to another job is not that of one from a dump.
func TestImportAvoidsGivenIDs(t *testing.T) {
	kinds, data := sampleRecords(t)
	for _, limits := range []kv.Limits{{}, {Shared: true}} {
		db := memory.New(memory.Options{Limits: limits})
		ids := ShareIDs(db)
		first, err := ids.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := NewQueue("q", db.Limits(), Config{NewID: ids.Take})
		if n := imported(t, db, q, 40, kinds, data); first != 1 || n.NewIDs != 6 {
			t.Errorf("%+v: %+v after id %d", limits, n, first)
		}
		err = db.Transact(context.Background(), func(tx kv.Tx) error {
			for range 20 {
				id, err := ids.Take(t.Context())
				if err != nil {
					return err
				}
				if _, err := q.Load(tx, id); err != ErrNotFound && !limits.Shared {
					t.Errorf("id %d is given again: %v", id, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ids.Leave()
		db.Close()
	}
}

// TestParseRecordRefuses: what can't be is named.
func TestParseRecordRefuses(t *testing.T) {
	job := func(change func(*Record)) []byte {
		r := &Record{Kind: JobRecord, Job: &Job{ID: 1, State: Ready, Place: 1}}
		change(r)
		return r.Encode()
	}
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct {
		kind RecordKind
		data []byte
		want string
	}{
		{0, nil, "a record of kind 0"},
		{SettingsRecord, nil, "settings"},
		{SettingsRecord, withInts(nil, 3, 1, 0, 0), "format 3"},
		{SettingsRecord, withInts(nil, 2, 0, 0, 0), "0 slots"},
		{SettingsRecord, withInts(nil, 2, 1, 0, math.MaxInt64), "last id"},
		{SettingsRecord, withInts(nil, 2, 1, 0, 0, 2), "format 2"},
		{SettingsRecord, withInts(nil, 2, 1, 0, 0, 1, 1, 0, -1), "a lease"},
		{JobRecord, nil, "cut off"},
		{JobRecord, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "cut off"},
		{JobRecord, job(func(*Record) {})[:28], "cut off"},
		{JobRecord, append(job(func(*Record) {}), 1), "result"},
		{JobRecord, job(func(r *Record) { r.Job.ID = 0 }), "id 0"},
		{JobRecord, job(func(r *Record) { r.Job.ID = math.MaxInt64 }), "id 9223372036854775807"},
		{JobRecord, job(func(r *Record) { r.Job.State = 7 }), "state 7"},
		{JobRecord, job(func(r *Record) { r.Job.Place = math.MaxInt64 }), "time"},
		{JobRecord, job(func(r *Record) { r.Job.Time = -1 }), "time"},
		{JobRecord, job(func(r *Record) { r.Job.Attempts = -1 }), "attempts"},
		{JobRecord, job(func(r *Record) { r.Job.MaxAttempts = -2 }), "most attempts"},
		{JobRecord, job(func(r *Record) { r.Job.Lease = -1 }), "lease"},
		{JobRecord, job(func(r *Record) { r.Job.Timeout = -2 }), "time limit"},
		{JobRecord, job(func(r *Record) { r.Job.UniqueFor = math.MaxInt64 }), "unique"},
		{JobRecord, job(func(r *Record) { r.Job.Key = long }), "too long"},
		{JobRecord, job(func(r *Record) { r.Job.Meta = map[string]string{"m": strings.Repeat("x", maxMeta)} }), "metadata"},
		{JobRecord, job(func(r *Record) { r.Job.Failures = make([]Failure, MaxFailures+1) }), "failures"},
		{JobRecord, job(func(r *Record) { r.Job.Failures = []Failure{{Time: -1}} }), "failure"},
		{JobRecord, job(func(r *Record) { r.Job.State = Blocked }), "blocked"},
		{JobRecord, job(func(r *Record) { r.Job.HasSlot = true }), "a slot"},
		{JobRecord, job(func(r *Record) { r.Job.HasSlot, r.Job.Key, r.Job.State = true, "k", Dead }), "dead"},
		{KeyRecord, nil, "key"},
		{KeyRecord, withInts(withString(nil, long), 1), "string of up to"},
		{KeyRecord, withInts(withString(nil, "k"), -1), "time -1"},
		{ClaimRecord, withInts(withString(nil, "k"), 1), `unique name "k"`},
		{PeriodicRecord, nil, "name"},
		{PeriodicRecord, (&Record{Kind: PeriodicRecord, Periodic: &Periodic{Name: "p", Spec: "often"}}).Encode(), "often"},
		{PeriodicRecord, (&Record{Kind: PeriodicRecord, Periodic: &Periodic{Name: "p", Spec: "@daily", Next: -1}}).Encode(), "due at a time"},
		{PeriodicRecord, (&Record{Kind: PeriodicRecord, Periodic: &Periodic{Name: "p", Spec: "@daily", Job: New{Lease: math.MaxInt64}}}).Encode(), "lease"},
	} {
		if _, err := ParseRecord(int64(c.kind), c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("kind %d, %x: error %v, want %q", c.kind, c.data, err, c.want)
		}
	}
}

// FuzzRecord: whatever bytes a record has, it is an error, or can be put in, and the queue is sound.
func FuzzRecord(f *testing.F) {
	kinds, data := sampleRecords(f)
	for i := range kinds {
		f.Add(kinds[i], data[i])
	}
	f.Fuzz(func(t *testing.T, kind int64, b []byte) {
		r, err := ParseRecord(kind, b)
		if err != nil {
			return
		}
		again, err := ParseRecord(kind, r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("%x is read as %+v (%v)", r.Encode(), again, err)
		}
		db := memory.New(memory.Options{})
		defer db.Close()
		id := int64(MaxID)
		q := NewQueue("q", kv.Limits{}, Config{NextTick: CronTick, Settings: Settings{KeyRate: Rate{N: 1, Period: 10}}, NewID: func(context.Context) (int64, error) { id++; return id, nil }})
		imported(t, db, q, 100, []int64{kind, kind}, [][]byte{b, b})
		if problems := checked(t, db, q); len(problems) > 0 {
			t.Fatalf("%x: %v", b, problems)
		}
		err = db.Transact(context.Background(), func(tx kv.Tx) error {
			if _, err := q.Due(tx, maxTime, 100); err != nil {
				return err
			}
			_, err := q.Reserve(tx, maxTime, Request{N: 10, Lease: 5, NewToken: func() int64 { return 1 }})
			return err
		})
		if err != nil && !strings.Contains(err.Error(), "never due") {
			t.Fatal(err)
		}
		if problems := checked(t, db, q); len(problems) > 0 {
			t.Fatalf("%x, when all is due: %v", b, problems)
		}
	})
}
