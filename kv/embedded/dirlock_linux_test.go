package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
)

// A store stays locked when its files are read, as by who copies them, until it is closed.
func TestLockStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockFile)
	db := mustOpen(t, dir, Options{})
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	testkit.NoError(t, err)
	defer f.Close()
	take := func() error {
		return syscall.FcntlFlock(f.Fd(), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
	}
	if err := take(); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("the lock of an open store could be had: %v", err)
	}
	testkit.NoError(t, db.Close())
	if err := take(); err != nil {
		t.Errorf("the lock of a store that was closed: %v", err)
	}
	if _, err := vfs.Default.Lock(path); err == nil { // as builds before this do
		t.Error("the file could be locked for the process, too")
	}
}

// To lock a file changes nothing of it.
func TestLockLeavesFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockFile)
	testkit.NoError(t, os.WriteFile(path, []byte("as it was"), 0o600))
	mustOpen(t, dir, Options{})
	if text, err := os.ReadFile(path); string(text) != "as it was" {
		t.Errorf("the file holds %q, error %v", text, err)
	}
}

// A store that was closed can be opened though a process that is being started has its lock open
// still: it has all files for a moment.
func TestLockOfStartedProcess(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, Options{})
	inherited, err := syscall.Dup(int(db.lock.(lockedFile).Fd()))
	testkit.NoError(t, err)
	defer syscall.Close(inherited)
	testkit.NoError(t, db.Close())
	testkit.Check(t, mustOpen(t, dir, Options{}).Close())
}
