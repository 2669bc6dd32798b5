package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// A command of "conq work" dies with it, however that ends, and what the command has started has all of the job's input.
func TestKilledWithItsCommand(t *testing.T) {
	dir := t.TempDir()
	store, went, size := filepath.Join(dir, "store"), filepath.Join(dir, "go"), filepath.Join(dir, "size")
	testkit.NoError(t, syscall.Mkfifo(went, 0o600))
	put := command(store, "put", "q")
	put.Stdin = strings.NewReader(strings.Repeat("x", 300_000)) // more than a pipe holds
	must(t, 0, put)
	cmd := command(store, "work", "q", "--", "sh", "-c", fmt.Sprintf(`exec 3<&0
		setsid sh -c 'read -r x < %s; wc -c > %s.part; mv %s.part %s' <&3 > /dev/null 2>&1 &
		echo $$; exec sleep 600 > /dev/null`, went, size, size, size))
	stdout, err := cmd.StdoutPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, cmd.Start())
	var pid int
	_, err = fmt.Fscan(bufio.NewReader(stdout), &pid)
	testkit.NoError(t, err)
	kill(t, cmd)
	cmd.Wait()
	until(t, "the command has ended", func() bool { return !lives(pid) })

	testkit.NoError(t, os.WriteFile(went, []byte("go\n"), 0o600))
	var got []byte
	until(t, "the input was read", func() bool {
		got, err = os.ReadFile(size)
		return err == nil
	})
	testkit.Equal(t, "bytes of input", strings.TrimSpace(string(got)), "300000")
}

// lives tells whether a process has not ended.
func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not for a minute: %s", what)
		}
	}
}
