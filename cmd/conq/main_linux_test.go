package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// What a script runs in the background ignores interrupts, which end what is in the foreground.
func TestIgnoredInterrupt(t *testing.T) {
	cmd := command(filepath.Join(t.TempDir(), "store"), "enqueue", "q", "--ack")
	cmd.Args = append([]string{"sh", "-c", `trap "" INT; exec "$0" "$@"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	s := startCommand(t, cmd)
	s.send(t, "first", 1)
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.send(t, "second", 2)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != 3 || !strings.Contains(s.stderr.String(), `2 items put into "q" before that`) {
		t.Errorf("exit code %d, %s", code, &s.stderr)
	}
}

// The end of its terminal ends a command as other signals do: nothing stays of its temporary store.
func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("these tests run under nohup")
	}
	temp := t.TempDir()
	cmd := exec.Command(conq, "bench", "--duration", "1h", "--phase", "transfer", "--durability", "memory")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if _, err := out.ReadString('\n'); err != nil { // the store is open
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 { // 3 if it was not at work yet
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
