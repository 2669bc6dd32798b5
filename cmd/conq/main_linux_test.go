package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// What a script runs in the background ignores interrupts, which end what is in the foreground.
func TestIgnoredInterrupt(t *testing.T) {
	cmd := command(filepath.Join(t.TempDir(), "store"), "enqueue", "q", "--ack")
	cmd.Args = append([]string{"sh", "-c", `trap "" INT; exec "$0" "$@"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	s := startCommand(t, cmd)
	s.send(t, "first", 1)
	testkit.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.send(t, "second", 2)
	testkit.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
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
	testkit.NoError(t, err)
	testkit.NoError(t, cmd.Start())
	out := bufio.NewReader(stdout)
	if _, err := out.ReadString('\n'); err != nil { // the store is open
		t.Fatal(err)
	}
	testkit.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
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
