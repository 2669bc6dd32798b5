package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A store whose directory is moved while it is open fails before it uses a file of the store that is
// made in its place. Each has what was acknowledged.
func TestMoved(t *testing.T) {
	dir, moved := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "moved")
	db := mustOpen(t, dir, Options{MemTable: smallMemTable, Durability: Interval})
	fill := fillUntilFailed(t, db, 10)
	testkit.NoError(t, os.Rename(dir, moved))
	other := mustOpen(t, dir, Options{})
	mustTransact(t, other, func(tx kv.Tx) { tx.Set([]byte("other"), nil) })
	testkit.NoError(t, other.Close())
	n := fill()
	if got, want := contents(t, mustOpen(t, dir, Options{})), []string{"other="}; !slices.Equal(got, want) {
		t.Errorf("the store in its place has %.100q, want %q", got, want)
	}
	if got := contents(t, mustOpen(t, moved, Options{})); len(got) < n {
		t.Errorf("the store that was moved has %d pairs, and %d were acknowledged", len(got), n)
	}
}

// So does one whose lock is removed, when another process could come in.
func TestLockRemoved(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, Options{MemTable: smallMemTable, Durability: Interval})
	fill := fillUntilFailed(t, db, 10)
	testkit.NoError(t, os.Remove(filepath.Join(dir, lockFile)))
	n := fill()
	if got := contents(t, mustOpen(t, dir, Options{})); len(got) < n {
		t.Errorf("the store has %d pairs, and %d were acknowledged", len(got), n)
	}
}

// Where each commit is synced, the first one fails that would be acknowledged in a directory which is not there any more.
func TestRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := mustOpen(t, dir, Options{})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("before"), nil) })
	testkit.NoError(t, os.RemoveAll(dir))
	err := db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set([]byte("after"), nil); return nil })
	if !errors.Is(err, ErrFailed) {
		t.Errorf("a commit after the directory was removed: %v, want that the store has failed", err)
	}
	if err := db.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
}

// fillUntilFailed commits some pairs, and returns what goes on with that until the store has failed,
// closes it, and returns how many were acknowledged.
func fillUntilFailed(t *testing.T, db *DB, some int) func() (acknowledged int) {
	n := 0
	set := func() error {
		return db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Set(fmt.Appendf(nil, "%06d", n), make([]byte, 1000))
			return nil
		})
	}
	for ; n < some; n++ {
		testkit.NoError(t, set())
	}
	return func() int {
		var err error
		for n < 10_000 {
			if err = set(); err != nil {
				break
			}
			n++
		}
		if !errors.Is(err, ErrFailed) {
			t.Errorf("after %d commits: %v, want that the store has failed", n, err)
		}
		if err := db.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("Close: %v", err)
		}
		return n
	}
}
