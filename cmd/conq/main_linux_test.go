package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A full disk under standard output loses nothing.
func TestOutputToFullDisk(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	all := numbered("", 10)
	enqueue(t, store, "q", all)
	cmd := command(store, "dequeue", "q", "--all")
	cmd.Stdout = open(t, "/dev/full", os.O_WRONLY)
	_, stderr, code := run(t, cmd)
	if code != 3 || !strings.Contains(stderr, "no space left") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if left := drain(t, store, "q"); !slices.Equal(left, all) {
		t.Errorf("%d of %d items are left", len(left), len(all))
	}
}
