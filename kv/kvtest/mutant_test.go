package kvtest

import (
	"context"
	"flag"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

var all = flag.Bool("kvtest.all", false, "run every case against each broken engine, and log which fail")

func TestMain(m *testing.M) {
	flag.Parse()
	// Failures of rapid are wanted here: don't keep or shrink them.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// mutant breaks an engine in one way. Fields that are nil break nothing.
type mutant struct {
	name   string
	caught []string // the cases that have to fail, as "family/case"
	hangs  bool     // is noticed only when patience ends

	limits func(kv.Limits) kv.Limits // what Limits tells

	// Of a DB.
	transact     func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error
	readTransact func(db kv.DB, ctx context.Context, f func(kv.Reader) error) error
	close        func(db kv.DB, closed bool) error
	keeps        func(kv.KeyValue) bool // what outlives Close; nil if nothing does

	// Of a Reader, in ReadTransact, Transact and Snapshot.
	get    func(r kv.Reader, key []byte) ([]byte, error)
	scan   func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error]
	latest func(opts kv.RangeOptions, get bool) bool // reads that see the store as it is now

	// Of a Tx.
	txGet      func(tx kv.Tx, key []byte) ([]byte, error)
	txScan     func(tx kv.Tx, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error]
	snapshot   func(tx kv.Tx) kv.Reader
	set        func(tx kv.Tx, key, value []byte)
	clear      func(tx kv.Tx, key []byte)
	clearRange func(tx kv.Tx, s kv.Range)
	add        func(tx kv.Tx, key []byte, delta int64)
	depend     func(tx kv.Tx, s kv.Range)
	prefetch   func(tx kv.Tx, reads []kv.Read)
	noSync     func(tx kv.Tx)
	watch      func(tx kv.Tx, key []byte) <-chan error
	onCommit   func(tx kv.Tx, f func())
	begin      func(tx kv.Tx)
}

// brokenDB is db with the defect m.
type brokenDB struct {
	kv.DB
	m      *mutant
	closed atomic.Bool
	kept   []kv.KeyValue // by Close
}

func (db *brokenDB) Limits() kv.Limits {
	if db.m.limits != nil {
		return db.m.limits(db.DB.Limits())
	}
	return db.DB.Limits()
}

func (db *brokenDB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	broken := func(tx kv.Tx) error {
		if db.m.begin != nil {
			db.m.begin(tx)
		}
		return f(brokenTx{tx, db})
	}
	if f == nil {
		broken = nil
	}
	if db.m.transact != nil {
		return db.m.transact(db.DB, ctx, broken)
	}
	return db.DB.Transact(ctx, broken)
}

func (db *brokenDB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	broken := func(r kv.Reader) error { return f(brokenReader{r, db}) }
	if f == nil {
		broken = nil
	}
	if db.m.readTransact != nil {
		return db.m.readTransact(db.DB, ctx, broken)
	}
	return db.DB.ReadTransact(ctx, broken)
}

func (db *brokenDB) Close() error {
	closed := db.closed.Swap(true)
	if db.m.keeps != nil && !closed {
		db.kept, _ = now(db.DB, func(r kv.Reader) ([]kv.KeyValue, error) {
			return collect(r.Range(kv.Range{}, kv.RangeOptions{}))
		})
	}
	if db.m.close != nil {
		return db.m.close(db.DB, closed)
	}
	return db.DB.Close()
}

// now reads db in a transaction of its own.
func now[T any](db kv.DB, f func(kv.Reader) (T, error)) (result T, err error) {
	err = db.ReadTransact(context.Background(), func(r kv.Reader) error {
		result, err = f(r)
		return err
	})
	return result, err
}

type brokenReader struct {
	kv.Reader
	*brokenDB
}

func (r brokenReader) Get(key []byte) ([]byte, error) {
	if r.m.latest != nil && r.m.latest(kv.RangeOptions{}, true) {
		return now(r.DB, func(r kv.Reader) ([]byte, error) { return r.Get(key) })
	}
	if r.m.get != nil {
		return r.m.get(r.Reader, key)
	}
	return r.Reader.Get(key)
}

func (r brokenReader) Range(s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	if r.m.latest != nil && r.m.latest(opts, false) {
		pairs, err := now(r.DB, func(r kv.Reader) ([]kv.KeyValue, error) { return collect(r.Range(s, opts)) })
		return listed(pairs, err)
	}
	if r.m.scan != nil {
		return r.m.scan(r.Reader, s, opts)
	}
	return r.Reader.Range(s, opts)
}

func (r brokenReader) Snapshot() kv.Reader { return brokenReader{r.Reader.Snapshot(), r.brokenDB} }

// listed returns pairs, then err.
func listed(pairs []kv.KeyValue, err error) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for _, pair := range pairs {
			if !yield(pair, nil) {
				return
			}
		}
		if err != nil {
			yield(kv.KeyValue{}, err)
		}
	}
}

type brokenTx struct {
	kv.Tx
	db *brokenDB
}

func (tx brokenTx) Get(key []byte) ([]byte, error) {
	if tx.db.m.txGet != nil {
		return tx.db.m.txGet(tx.Tx, key)
	}
	return brokenReader{tx.Tx, tx.db}.Get(key)
}

func (tx brokenTx) Range(s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	if tx.db.m.txScan != nil {
		return tx.db.m.txScan(tx.Tx, s, opts)
	}
	return brokenReader{tx.Tx, tx.db}.Range(s, opts)
}

func (tx brokenTx) Snapshot() kv.Reader {
	if tx.db.m.snapshot != nil {
		return tx.db.m.snapshot(tx.Tx)
	}
	return brokenReader{tx.Tx.Snapshot(), tx.db}
}

func (tx brokenTx) Set(key, value []byte) {
	if tx.db.m.set != nil {
		tx.db.m.set(tx.Tx, key, value)
		return
	}
	tx.Tx.Set(key, value)
}

func (tx brokenTx) Clear(key []byte) {
	if tx.db.m.clear != nil {
		tx.db.m.clear(tx.Tx, key)
		return
	}
	tx.Tx.Clear(key)
}

func (tx brokenTx) ClearRange(s kv.Range) {
	if tx.db.m.clearRange != nil {
		tx.db.m.clearRange(tx.Tx, s)
		return
	}
	tx.Tx.ClearRange(s)
}

func (tx brokenTx) Add(key []byte, delta int64) {
	if tx.db.m.add != nil {
		tx.db.m.add(tx.Tx, key, delta)
		return
	}
	tx.Tx.Add(key, delta)
}

func (tx brokenTx) AddReadConflict(s kv.Range) {
	if tx.db.m.depend != nil {
		tx.db.m.depend(tx.Tx, s)
		return
	}
	tx.Tx.AddReadConflict(s)
}

func (tx brokenTx) Prefetch(reads []kv.Read) {
	if tx.db.m.prefetch != nil {
		tx.db.m.prefetch(tx.Tx, reads)
	}
}

func (tx brokenTx) NoSync() {
	if tx.db.m.noSync != nil {
		tx.db.m.noSync(tx.Tx)
	}
}

func (tx brokenTx) Watch(key []byte) <-chan error {
	if tx.db.m.watch != nil {
		return tx.db.m.watch(tx.Tx, key)
	}
	return tx.Tx.Watch(key)
}

func (tx brokenTx) OnCommit(f func()) {
	if tx.db.m.onCommit != nil {
		tx.db.m.onCommit(tx.Tx, f)
		return
	}
	tx.Tx.OnCommit(f)
}

// engine returns memory stores with the defect m, whose limits are small and
// whose clock can be moved.
func (m *mutant) engine() Engine {
	var offset atomic.Int64
	open := func() kv.DB {
		return &brokenDB{m: m, DB: memory.New(memory.Options{
			Limits: kv.Limits{Key: 30, Value: 50, Transaction: 300_000},
			Now:    func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
		})}
	}
	e := Engine{
		Open:    func(*testing.T) kv.DB { return open() },
		Advance: func(d time.Duration) { offset.Add(int64(d)) },
	}
	if m.keeps != nil {
		e.Reopen = func(t *testing.T, db kv.DB) kv.DB { return m.reopen(t, db, open()) }
	}
	return e
}

// reopen fills db with what is kept of old.
func (m *mutant) reopen(t *testing.T, old, db kv.DB) kv.DB {
	for kept := range slices.Chunk(old.(*brokenDB).kept, 1000) {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			for _, pair := range kept {
				if m.keeps(pair) {
					tx.Set(pair.Key, pair.Value)
				}
			}
			return nil
		}))
	}
	return db
}

// find returns the case of that name.
func find(t *testing.T, name string) testCase {
	t.Helper()
	for _, family := range families {
		for _, c := range family.cases {
			if family.name+"/"+c.name == name {
				return c
			}
		}
	}
	t.Fatalf("there is no case %q", name)
	return testCase{}
}

func TestEveryMutantIsCaught(t *testing.T) {
	for _, m := range mutants() {
		patience := patience
		if m.hangs {
			patience = 300 * time.Millisecond
		}
		t.Run(m.name, func(t *testing.T) {
			if len(m.caught) == 0 {
				t.Error("no case is named that has to fail")
			}
			for _, name := range m.caught {
				failed, said := false, ""
				for n := 0; n < 20 && !failed; n++ { // the random ones need some luck
					failed, said = record(t, find(t, name), m.engine(), patience)
				}
				if !failed {
					t.Errorf("%s passed", name)
				} else if *all {
					t.Logf("%s: %.300s", name, said)
				}
			}
			if *all {
				t.Logf("caught by %s", strings.Join(catching(t, &m, min(patience, 3*time.Second)), ", "))
			}
		})
	}
}

// catching returns the cases that fail with m.
func catching(t *testing.T, m *mutant, patience time.Duration) []string {
	var names []string
	for _, family := range families {
		for _, c := range family.cases {
			if c.needs.missing(m.engine()) != "" {
				continue
			}
			if failed, _ := record(t, c, m.engine(), patience); failed {
				names = append(names, family.name+"/"+c.name)
			}
		}
	}
	return names
}

// TestNoDefectPasses guards against a recorder, or a wrapper, that fails of
// itself: then the mutants would prove nothing.
func TestNoDefectPasses(t *testing.T) {
	for _, family := range families {
		for _, c := range family.cases {
			m := &mutant{}
			if c.needs == reopening {
				m.keeps = func(kv.KeyValue) bool { return true }
			}
			if failed, said := record(t, c, m.engine(), patience); failed {
				t.Errorf("%s/%s fails without a defect: %s", family.name, c.name, said)
			}
		}
	}
}

func TestCasesAreNamedOnceAndHaveRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, family := range families {
		for _, c := range family.cases {
			name := family.name + "/" + c.name
			if seen[name] || c.rule == "" || c.check == nil {
				t.Errorf("case %q is there twice, or has no rule or no check", name)
			}
			seen[name] = true
		}
	}
}
