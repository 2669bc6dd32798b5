package main

import (
	"bufio"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// batch is how many items "conq dequeue" takes at once.
const batch = 1000

func isPrefix(all, part []string) bool {
	return len(part) <= len(all) && slices.Equal(all[:len(part)], part)
}

func isSuffix(all, part []string) bool {
	return len(part) <= len(all) && slices.Equal(all[len(all)-len(part):], part)
}

// Whatever the moment at which "conq enqueue" is killed, the queue holds the
// first items of the input, at least those that were acknowledged and at most
// those that were sent, and nothing else. All rounds use one store, so that each
// also recovers what the kill before it left.
func TestKillWhileEnqueueing(t *testing.T) {
	testkit.Long(t)
	for _, durability := range []string{"always", "interval"} {
		t.Run(durability, func(t *testing.T) {
			killWhileEnqueueing(t, "embedded:"+filepath.Join(t.TempDir(), "store")+"?durability="+durability)
		})
	}
}

func killWhileEnqueueing(t *testing.T, store string) {
	const n = 4000
	rounds := 3 * *kills
	random := seeded(t)
	inTheMiddle := 0
	for round := range rounds {
		all := numbered("round "+strconv.Itoa(round), n)
		sent, acked := killEnqueue(t, store, all, random)
		got := drain(t, store, "q")
		if !isPrefix(all, got) || len(got) < acked || len(got) > sent {
			t.Fatalf("round %d: %d sent, %d acknowledged, %d stored; a prefix: %v",
				round, sent, acked, len(got), isPrefix(all, got))
		}
		if 0 < len(got) && len(got) < n {
			inTheMiddle++
		}
	}
	if inTheMiddle < rounds/4 {
		t.Errorf("only %d of %d kills met it in the middle of its work", inTheMiddle, rounds)
	}
}

// killEnqueue runs "conq enqueue --ack" and kills it once it has acknowledged a
// random number of items. It returns how many lines were sent, and acknowledged.
func killEnqueue(t *testing.T, store string, all []string, random *rand.Rand) (sent, acked int) {
	target := random.IntN(len(all))
	cmd := command(store, "enqueue", "q", "--ack")
	stdin, err := cmd.StdinPipe()
	testkit.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, cmd.Start())
	sizes := rand.New(rand.NewPCG(random.Uint64(), 0))
	written := make(chan int)
	go func() { written <- send(stdin, all, sizes) }()
	killed := false
	for acks := bufio.NewScanner(stdout); acks.Scan(); {
		if acked, err = strconv.Atoi(acks.Text()); err != nil {
			t.Fatal(err)
		}
		if acked > target && !killed {
			killed = true
			kill(t, cmd)
		}
	}
	sent = <-written
	cmd.Wait()
	return sent, acked
}

// send writes lines in pieces of random size until that fails, and returns how
// many whole lines it got rid of.
func send(w io.WriteCloser, all []string, random *rand.Rand) (sent int) {
	defer w.Close()
	text := strings.Join(all, "\n") + "\n"
	done := 0
	for done < len(text) {
		size := 1 + random.IntN(4000)
		n, err := io.WriteString(w, text[done:min(done+size, len(text))])
		if done += n; err != nil {
			break
		}
	}
	return strings.Count(text[:done], "\n")
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	testkit.NoError(t, cmd.Process.Kill())
}

// What a killed "conq dequeue" has written, and what is left, is everything: at
// most the last batch is in both.
func TestKillWhileDequeueing(t *testing.T) {
	testkit.Long(t)
	killDequeues(t, func(t *testing.T, n, written, left int) {
		if twice := written + left - n; twice < 0 || twice > batch {
			t.Errorf("%d written, %d left of %d: %d are in both", written, left, n, twice)
		}
	})
}

// With --commit-first nothing is in both, and at most the last batch in neither.
func TestKillWhileDequeueingCommitFirst(t *testing.T) {
	testkit.Long(t)
	killDequeues(t, func(t *testing.T, n, written, left int) {
		if lost := n - written - left; lost < 0 || lost > batch {
			t.Errorf("%d written, %d left of %d: %d are lost", written, left, n, lost)
		}
	}, "--commit-first")
}

func killDequeues(t *testing.T, check func(t *testing.T, n, written, left int), flags ...string) {
	const n = 12_000
	rounds := 2 * *kills
	random := seeded(t)
	store := filepath.Join(t.TempDir(), "store")
	inTheMiddle := 0
	for round := range rounds {
		all := numbered("round "+strconv.Itoa(round), n)
		enqueue(t, store, "q", all)
		out := filepath.Join(t.TempDir(), "out")
		target := random.Int64N(int64(len(strings.Join(all, "\n"))))
		written := killDequeue(t, command(store, append([]string{"dequeue", "q", "--all"}, flags...)...), out, target)
		left := drain(t, store, "q")
		if !isPrefix(all, written) || !isSuffix(all, left) {
			t.Fatalf("round %d: %d written (in order: %v), %d left (in order: %v)",
				round, len(written), isPrefix(all, written), len(left), isSuffix(all, left))
		}
		check(t, n, len(written), len(left))
		if len(left) > 0 {
			inTheMiddle++
		}
	}
	if inTheMiddle < rounds/4 {
		t.Errorf("only %d of %d kills met it in the middle of its work", inTheMiddle, rounds)
	}
}

// killDequeue runs a command that writes to a file, kills it once the file has
// more than target bytes, and returns the whole lines in it.
func killDequeue(t *testing.T, cmd *exec.Cmd, path string, target int64) []string {
	f := open(t, path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	cmd.Stdout = f
	testkit.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	waitForSize(t, f, target, ended)
	cmd.Process.Kill() // unless it has ended already
	<-ended
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	return lines(string(text))
}

// waitForSize returns when f has more than target bytes, or ended is closed.
func waitForSize(t *testing.T, f *os.File, target int64, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		info, err := f.Stat()
		testkit.NoError(t, err)
		if info.Size() > target {
			return
		}
	}
}
