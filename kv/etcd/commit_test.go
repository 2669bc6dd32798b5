package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/memory"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A commit that fills the database is done, and then refused like those after it, which are
// not. Lanes find out, and do not go on for ever.
func TestFullDatabase(t *testing.T) {
	f := newFakeCluster()
	db := f.open(t)
	add := func(tx kv.Tx) (struct{}, error) {
		value, err := tx.Get([]byte("a"))
		tx.Set([]byte("a"), append(value, '+'))
		return struct{}{}, err
	}
	value := func() string { return string(testkit.Value(t, db, []byte("a"))) }
	lane := kv.NewOnce(db, []byte("outcome"), nil)

	n := 0
	f.refuses = func() (before, after error) {
		if n++; n == 1 {
			return nil, rpctypes.ErrGRPCNoSpace
		}
		return rpctypes.ErrGRPCNoSpace, nil
	}
	if _, err := kv.TransactOnce(t.Context(), lane, add); err != nil || value() != "+" {
		t.Errorf("a commit that was done and refused: error %v, and the value is %q, want +", err, value())
	}
	n = 0
	err := db.Transact(t.Context(), func(tx kv.Tx) error { _, err := add(tx); return err })
	if !errors.Is(err, kv.ErrCommitUnknown) || value() != "++" {
		t.Errorf("the same without a lane: error %v, and the value is %q, want ErrCommitUnknown and ++", err, value())
	}
	for name, lane := range map[string]*kv.Once{"the same": lane, "a new": kv.NewOnce(db, []byte("another"), nil)} {
		_, err := kv.TransactOnce(t.Context(), lane, add)
		if err == nil || errors.Is(err, kv.ErrCommitUnknown) || !strings.Contains(err.Error(), "no space") || value() != "++" {
			t.Errorf("%s lane, when the database is full: error %v, and the value is %q, want one that says so, and ++", name, err, value())
		}
	}

	// While others go on, it can't be told. A lane ends when they do.
	f.refuses = func() (before, after error) {
		if n++; n < 5 {
			f.revision++
		}
		return rpctypes.ErrGRPCNoSpace, nil
	}
	n = 0
	if _, err := kv.TransactOnce(t.Context(), lane, add); err == nil || !strings.Contains(err.Error(), "no space") || value() != "++" {
		t.Errorf("while others go on: error %v, and the value is %q, want one that says that there is no space, and ++", err, value())
	}
	f.refuses = nil
	if _, err := kv.TransactOnce(t.Context(), lane, add); err != nil || value() != "+++" {
		t.Errorf("with space again: error %v, and the value is %q, want +++", err, value())
	}
}

// Keys that are cleared in a range of which only a part was seen go, and none between them.
func TestClearsInPartsUnseen(t *testing.T) {
	f := newFakeCluster()
	db := f.open(t)
	const queue = "\x02q\x00"
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("%s%04d", queue, i))
	}
	set(t, db, keys...)
	for _, gone := range [][2]int{{200, 250}, {100, 240}, {128, 290}, {3, 5}, {7, 8}} { // 129 are seen
		want := slices.DeleteFunc(f.store(db), func(key string) bool { return key == keys[gone[0]] || key == keys[gone[1]] })
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.AddReadConflict(kv.Range{Begin: []byte(queue), End: []byte(queue + "\xff")})
			tx.Clear([]byte(keys[gone[0]]))
			tx.Clear([]byte(keys[gone[1]]))
			return nil
		}))
		if got := f.store(db); !slices.Equal(got, want) {
			t.Fatalf("%d keys are left, want %d", len(got), len(want))
		}
	}
}

// What a store takes a key for that it has written does not make its transactions conflict for ever when
// others have written it since.
func TestKnownKeyOfOthers(t *testing.T) {
	f := newFakeCluster()
	db, others := f.open(t), f.open(t)
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		_, err := tx.Get([]byte("k"))
		tx.Set([]byte("k"), nil)
		return err
	}))
	set(t, others, "k")
	attempts := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		if attempts++; attempts > 2 {
			return errors.New("it conflicts with nothing")
		}
		tx.AddReadConflict(kv.KeyRange([]byte("k")))
		tx.Set([]byte("x"), nil)
		return nil
	}))
	if attempts != 2 {
		t.Errorf("%d attempts, want one that meets the write of the others, and one more", attempts)
	}
}

// A queue of a store that one process has for itself refuses transactions of a cluster; those of
// another connection to the cluster are the store's.
func TestForeign(t *testing.T) {
	local := memory.New(memory.Options{})
	defer local.Close()
	f := newFakeCluster()
	db, again := f.open(t), f.open(t)
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		if !kvext.Foreign(local, tx) || kvext.Foreign(db, tx) || kvext.Foreign(again, tx) {
			t.Error("a transaction of a cluster is not taken for what it is")
		}
		return nil
	}))
}

// A transaction that adds to what its store has added to before is one request, and others that have added, cleared or set it
// meanwhile are counted all the same.
func TestAddsKnown(t *testing.T) {
	f := newFakeCluster()
	db, others := f.open(t), f.open(t)
	key, want := []byte("n"), int64(0)
	add := func(db *DB, delta int64, requests int) {
		t.Helper()
		before := f.requests
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Add(key, delta)
			return nil
		}))
		want += delta
		testkit.Equal(t, "requests", f.requests-before, requests)
		testkit.Equal(t, "sum", string(testkit.Value(t, db, key)), string(overlay.Sum(nil, want)))
	}
	add(db, 5, 2) // it reads the key
	add(db, 7, 1)
	add(others, 10, 2)
	add(db, -3, 2) // it is refused, with what there is
	add(db, 1, 1)
	for _, write := range []func(kv.Tx){
		func(tx kv.Tx) { tx.Clear(key) },
		func(tx kv.Tx) { tx.ClearRange(kv.KeyRange(key)) },
		func(tx kv.Tx) { tx.Set(key, overlay.Sum(nil, 0)) },
	} {
		for _, of := range []*DB{db, others} {
			testkit.NoError(t, of.Transact(t.Context(), func(tx kv.Tx) error { write(tx); return nil }))
			want = 0
			add(db, 2, 2)
			add(db, 2, 1)
		}
	}
}
