package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/rogpeppe/go-internal/testscript"
)

// conq is the command, in a process of its own: what these tests are about is what processes do to each other.
// The test binary is that, too.
const conq = "conq"

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){conq: main}) }

// command returns a run of conq on a store.
func command(store string, args ...string) *exec.Cmd {
	return exec.Command(conq, append([]string{"--store", store}, args...)...)
}

// run runs conq to its end.
func run(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs conq, which must exit with a code, and returns what it printed.
func must(t *testing.T, code int, cmd *exec.Cmd) string {
	t.Helper()
	stdout, stderr, got := run(t, cmd)
	if got != code {
		t.Fatalf("%q: exit code %d, want %d: %s", cmd.Args, got, code, stderr)
	}
	return stdout
}

// drain returns what is left in a queue.
func drain(t *testing.T, store, queue string) []string {
	t.Helper()
	stdout, stderr, code := run(t, command(store, "dequeue", queue, "--all"))
	if code > 1 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return lines(stdout)
}

// lines returns the complete lines of text.
func lines(text string) []string {
	all := strings.Split(text, "\n")
	return all[:len(all)-1]
}

// numbered returns n lines that are all different.
func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s line %d", prefix, i)
	}
	return all
}

func enqueue(t *testing.T, store, queue string, items []string) {
	t.Helper()
	cmd := command(store, "enqueue", queue)
	cmd.Stdin = strings.NewReader(strings.Join(items, "\n") + "\n")
	must(t, 0, cmd)
}

// seeded returns a random source, and prints how to get the same one.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("CONQ_TEST_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to repeat: CONQ_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestFileOf100000Lines(t *testing.T) {
	const n = 100_000
	random := seeded(t)
	var text bytes.Buffer
	for range n {
		line := make([]byte, random.IntN(60))
		for i := range line {
			if line[i] = byte(random.Uint32()); line[i] == '\n' {
				line[i] = '\r'
			}
		}
		text.Write(append(line, '\n'))
	}
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	testkit.NoError(t, os.WriteFile(in, text.Bytes(), 0o600))
	store := filepath.Join(t.TempDir(), "store")

	cmd := command(store, "enqueue", "q")
	cmd.Stdin = open(t, in, os.O_RDONLY)
	must(t, 0, cmd)
	cmd = command(store, "dequeue", "q", "--all")
	cmd.Stdout = open(t, out, os.O_WRONLY|os.O_CREATE)
	must(t, 0, cmd)

	got, err := os.ReadFile(out)
	testkit.NoError(t, err)
	if !bytes.Equal(got, text.Bytes()) {
		t.Errorf("%d bytes went in, %d different ones came out", text.Len(), len(got))
	}
	must(t, 1, command(store, "dequeue", "q"))
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o600)
	testkit.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// stream is a "conq enqueue --ack" whose input is open.
type stream struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr bytes.Buffer
}

func startStream(t *testing.T, store string) *stream {
	t.Helper()
	return startCommand(t, command(store, "enqueue", "q", "--ack"))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *stream {
	t.Helper()
	s := &stream{cmd: cmd}
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if s.stdout, err = s.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = &s.stderr
	testkit.NoError(t, s.cmd.Start())
	return s
}

// send sends an item and waits for its acknowledgement.
func (s *stream) send(t *testing.T, line string, want int) {
	t.Helper()
	fmt.Fprintln(s.stdin, line)
	var acked int
	if _, err := fmt.Fscanln(s.stdout, &acked); err != nil || acked != want {
		t.Fatalf("acknowledged %d, %v: %s", acked, err, &s.stderr)
	}
}

// wait waits for the end and returns the exit code.
func (s *stream) wait() int {
	io.Copy(io.Discard, s.stdout)
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// An item is stored when it has been read, though the input goes on; meanwhile
// the store is in use, and whoever else wants it learns by whom. A signal ends it.
func TestStreamAndSecondProcess(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := startStream(t, store)
	s.send(t, "first", 1)
	s.send(t, "second", 2)
	_, stderr, code := run(t, command(store, "dequeue", "q"))
	if code != 3 || !strings.Contains(stderr, fmt.Sprint(s.cmd.Process.Pid)) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("second process: exit code %d, %s", code, stderr)
	}
	end := os.Interrupt
	if signal.Ignored(end) { // these tests run in the background of a script
		end = syscall.SIGTERM
	}
	testkit.NoError(t, s.cmd.Process.Signal(end))
	if code := s.wait(); code != 3 || !strings.Contains(s.stderr.String(), `2 items put into "q" before that`) {
		t.Errorf("interrupted: exit code %d, %s", code, &s.stderr)
	}
	if got := drain(t, store, "q"); strings.Join(got, " ") != "first second" {
		t.Errorf("stored %q", got)
	}
}

// What follows a queue, of a store or a server, is ended by a signal, which is no failure. What it has taken it has printed.
func TestFollowEnds(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := &served{t: t, store: filepath.Join(t.TempDir(), "served")}
	s.start()
	defer s.end(syscall.SIGTERM)
	for _, store := range []string{store, "http://" + s.address} {
		must(t, 0, command(store, "push", "p", "--priority", "1", "one"))
		f := startCommand(t, command(store, "pop", "p", "--follow"))
		var line string
		if _, err := fmt.Fscanln(f.stdout, &line); err != nil || line != "one" {
			t.Errorf("%s: %q, %v", store, line, err)
		}
		testkit.NoError(t, f.cmd.Process.Signal(syscall.SIGTERM))
		if code := f.wait(); code != 0 || f.stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %s", store, code, &f.stderr)
		}
		must(t, 1, command(store, "pop", "p"))
	}
}

// If nobody reads the acknowledgements any longer, it says how far it came.
func TestAcknowledgementsUnread(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := startStream(t, store)
	s.send(t, "first", 1)
	s.stdout.Close()
	fmt.Fprintln(s.stdin, "second")
	if code := s.wait(); code != 3 || !strings.Contains(s.stderr.String(), `2 items put into "q" before that`) {
		t.Errorf("exit code %d, %s", code, &s.stderr)
	}
	if got := drain(t, store, "q"); strings.Join(got, " ") != "first second" {
		t.Errorf("stored %q", got)
	}
}

// Who has read enough ends the command, which is no failure, and loses no more than what the pipe
// held.
func TestBrokenPipe(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	all := numbered("", 5000)
	enqueue(t, store, "q", all)
	r, w, err := os.Pipe()
	testkit.NoError(t, err)
	cmd := command(store, "dequeue", "q", "--all")
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	testkit.NoError(t, cmd.Start())
	w.Close()
	got := make([]byte, 1000)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd.Wait()
	text := stderr.String()
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(text, "broken pipe") || !strings.HasSuffix(text, " items removed before that\n") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	left := drain(t, store, "q")
	if !isSuffix(all, left) {
		t.Fatalf("%d lines are left, and are not the last ones", len(left))
	}
	// What the pipe held when it was closed was written out, though nobody read it.
	const inPipe = 64 << 10
	gone := len(strings.Join(all[:len(all)-len(left)], "\n"))
	if gone > len(got)+inPipe {
		t.Errorf("%d bytes are gone", gone)
	}
}
