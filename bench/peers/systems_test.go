package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each system that is there does what it promises, alone and with several clients.
func TestSystems(t *testing.T) {
	for _, s := range everySystem() {
		t.Run(s.name, func(t *testing.T) {
			if s.missing != nil {
				if said := s.missing(); said != "" {
					t.Skip(said)
				}
			}
			base := openBase(t)
			for _, clients := range []shape{{1, 1}, {5, 4}} {
				n := settings{Payload: 128, Items: 150, Time: time.Minute, Priorities: 7}
				m, err := measureIn(t.Context(), base, n, clients, s)
				if err != nil {
					t.Fatal(err)
				}
				if m.Fill.Items != 150 || m.Drain.Items != 150 || m.Transfer.Items != 150 || m.Full <= 0 || m.Fill.CPU < 0 {
					t.Errorf("%+v", m)
				}
			}
			if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
		})
	}
}

// everySystem are those of all comparisons.
func everySystem() []system {
	all := systems()
	for _, s := range jobSystems() {
		if !slices.ContainsFunc(all, func(o system) bool { return o.name == s.name }) {
			all = append(all, s)
		}
	}
	return all
}

// openBase is a temporary directory that other users can reach.
func openBase(t *testing.T) string {
	dir, err := os.MkdirTemp("", "peers-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Each line says what survives, in words that fit its class.
func TestPromises(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range everySystem() {
		if seen[s.name] || s.crash == "" || s.outage == "" || s.open == nil {
			t.Errorf("%+v", s)
		}
		seen[s.name] = true
		if (s.class == power) != (s.outage == nothing) || s.class == none && s.crash == nothing {
			t.Errorf("%s: class %s, a crash loses %s, a power failure %s", s.name, s.class, s.crash, s.outage)
		}
	}
}

// As many calls as there are clients in a phase are a full batch of the one that is told.
func TestBboltTold(t *testing.T) {
	const usual = 1000
	for name, want := range map[string][4]int{"bbolt-batch": {usual, usual, usual, usual}, "bbolt-batch-told": {3, 3, 7, 3}} {
		all, err := choose(systems(), "^"+name+"$", "")
		if err != nil {
			t.Fatal(err)
		}
		p, err := all[0].open(t.Context(), env{dir: t.TempDir(), producers: 3, consumers: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		for i, phase := range []string{"warm-up", "fill", "drain", "transfer"} {
			if err := p.(phaser).begin(t.Context(), phase); err != nil {
				t.Fatal(err)
			}
			if got := p.(*boltPeer).db.MaxBatchSize; got != want[i] {
				t.Errorf("%s, %s of 3 producers and 7 consumers: %d calls are a full batch, want %d", name, phase, got, want[i])
			}
		}
	}
}

func TestTooManyPriorities(t *testing.T) {
	for name, want := range map[string]string{"goque-priority": "at most 256", "etcd-recipe-priority": "at most 65536"} {
		all, err := choose(systems(), "^"+name+"$", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all[0].open(t.Context(), env{priorities: 70_000}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sleeper is a server that answers.
func sleeper(t *testing.T) *server {
	s, err := startServer(t.Context(), t.TempDir(), func(port int) *exec.Cmd {
		return exec.Command("sh", "-c", "sleep 1000 & wait")
	}, func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestServerStops(t *testing.T) {
	s := sleeper(t)
	if !alive(s.pid()) {
		t.Fatal("it does not run")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if alive(s.pid()) {
		t.Error("it still runs")
	}
	if err := s.close(); err != nil {
		t.Errorf("to close it again: %v", err)
	}
}

// A server that stops before it answers tells why.
func TestServerFails(t *testing.T) {
	started := 0
	_, err := startServer(t.Context(), t.TempDir(), func(port int) *exec.Cmd {
		started++
		return exec.Command("sh", "-c", "echo port "+strconv.Itoa(port)+" is not nice >&2; exit 3")
	}, answers)
	if err == nil || !strings.Contains(err.Error(), "is not nice") || started != tries {
		t.Errorf("started %d times: %v", started, err)
	}
}

// An interrupt while a server starts ends it.
func TestServerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var cmd *exec.Cmd
	_, err := startServer(ctx, t.TempDir(), func(int) *exec.Cmd {
		cmd = exec.Command("sleep", "1000")
		return cmd
	}, func(context.Context, string) error {
		cancel()
		return errors.New("not yet")
	})
	if !errors.Is(err, context.Canceled) || alive(cmd.Process.Pid) {
		t.Errorf("got %v; alive: %v", err, alive(cmd.Process.Pid))
	}
}

// serverToy is a peer with a server that it does not need, and does not notice the end of.
type serverToy struct {
	toy
	*server
}

func (s *serverToy) client(ctx context.Context) (client, error) { return s.toy.client(ctx) }
func (s *serverToy) pid() int                                   { return s.server.pid() }
func (s *serverToy) close() error                               { return s.server.close() }

// That a server ends in the middle is noticed at once, and said. What fails without that is
// not put down to it.
func TestServerDies(t *testing.T) {
	for name, c := range map[string]struct {
		kills bool
		want  string
	}{"server dies": {true, "drain: take: context canceled; sh: it has stopped"}, "server lives": {false, "drain: take: broken"}} {
		p := &serverToy{server: sleeper(t)}
		p.take1 = func(q *toy) ([]byte, error) {
			if q.takes < 40 { // in the warm-up
				v := q.values[0]
				q.values = q.values[1:]
				return v, nil
			}
			if !c.kills {
				return nil, errors.New("broken")
			}
			p.kill()
			return nil, errEmpty
		}
		s := system{name: "toy", order: unordered, open: func(context.Context, env) (peer, error) { return p, nil }}
		began := time.Now()
		_, err := measureIn(t.Context(), t.TempDir(), settings{Payload: 32, Items: 200, Time: time.Minute, Priorities: 3}, shape{1, 1}, s)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: that took %v", name, took)
		}
	}
}

func TestProcessTime(t *testing.T) {
	used, parent := parseStat([]byte("7 (a ) b) S 42 7 7 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 5 6 7"))
	if used != 1270*time.Millisecond || parent != 42 {
		t.Errorf("%v, parent %d", used, parent)
	}
	if used, parent := parseStat([]byte("7 (a)")); used != 0 || parent != 0 {
		t.Errorf("of a short line: %v, %d", used, parent)
	}
	if processTime(0) != 0 {
		t.Error("a peer without a server has used time")
	}
	// The time of a child counts, also when it has ended.
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done & wait; echo; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if used := processTime(cmd.Process.Pid); used <= 0 {
		t.Errorf("a loop has used %v", used)
	}
	fmt.Fprintln(in)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/x", make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := diskUse(dir); got < 100_000 || got > 200_000 {
		t.Errorf("%d bytes", got)
	}
	if got := diskUse(dir + "/none"); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
}
