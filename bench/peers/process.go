package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process that runs as long as its peer is open.
type server struct {
	cmd    *exec.Cmd
	addr   string // host:port on loopback
	port   int
	log    string        // file with what it says
	exited chan struct{} // closed when it has
	stop   os.Signal     // asks it to
}

const (
	starting = 30 * time.Second // that a server may take to answer
	stopping = 20 * time.Second // and to stop, before it is killed
	tries    = 3                // as another program may take the port first
)

// startServer runs a program on a free port of loopback until ready has no error.
func startServer(ctx context.Context, dir string, command func(port int) *exec.Cmd, ready func(context.Context, string) error) (*server, error) {
	var all []error
	for range tries {
		s, err := tryServer(ctx, dir, command, ready)
		if err == nil {
			return s, nil
		}
		if all = append(all, err); !errors.Is(err, errStopped) {
			break // it does not lack a port
		}
	}
	return nil, errors.Join(all...)
}

func tryServer(ctx context.Context, dir string, command func(port int) *exec.Cmd, ready func(context.Context, string) error) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := command(port)
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{
		cmd: cmd, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), port: port, log: log.Name(),
		exited: make(chan struct{}), stop: syscall.SIGTERM,
	}
	go func() {
		_ = cmd.Wait() // what it said is in the log
		close(s.exited)
	}()
	if err := s.await(ctx, ready); err != nil {
		err = fmt.Errorf("%s: %w%s", filepath.Base(cmd.Path), err, s.said())
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// freePort returns a port that nobody uses at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var errStopped = errors.New("it has stopped")

// await waits until the server answers.
func (s *server) await(ctx context.Context, ready func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var last error
	for {
		if last = ready(ctx, s.addr); last == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errStopped
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w (%w)", last, ctx.Err())
		case <-look.C:
		}
	}
}

// mortal is a peer whose server may end before it should.
type mortal interface {
	ended() <-chan struct{} // closed when it has
	// died returns an error with what the server said last if it has ended, or does in a moment.
	died(moment time.Duration) error
}

// whileAlive returns a context that also ends with a peer's server, as not all clients
// notice that: NATS's and etcd's try to connect again. why is to be called at last with an
// error of the peer, and adds that its server has ended if so.
func whileAlive(ctx context.Context, p peer) (alive context.Context, why func(error) error) {
	m, ok := p.(mortal)
	if !ok {
		return ctx, func(err error) error { return err }
	}
	alive, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-m.ended():
		case <-alive.Done():
		}
	}()
	return alive, func(err error) error {
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if died := m.died(aMoment); died != nil {
			return fmt.Errorf("%w; %w", err, died)
		}
		return err
	}
}

// aMoment is what it may take from the end of a server's connections to that of its process.
const aMoment = 200 * time.Millisecond

func (s *server) ended() <-chan struct{} { return s.exited }

func (s *server) died(moment time.Duration) error {
	select {
	case <-s.exited:
		return fmt.Errorf("%s: %w%s", filepath.Base(s.cmd.Path), errStopped, s.said())
	case <-time.After(moment):
		return nil
	}
}

// said returns the end of the log.
func (s *server) said() string {
	text, err := os.ReadFile(s.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "; it said:\n" + strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// pid implements peer.
func (s *server) pid() int { return s.cmd.Process.Pid }

// close asks the server to stop, and kills it if it does not.
func (s *server) close() error {
	if err := s.cmd.Process.Signal(s.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.kill()
		return err
	}
	timer := time.NewTimer(stopping)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil
	case <-timer.C:
		s.kill()
		return fmt.Errorf("%s did not stop within %v and was killed", filepath.Base(s.cmd.Path), stopping)
	}
}

func (s *server) kill() {
	killAll(s.cmd)
	<-s.exited
}

// answers tells whether somebody listens there.
func answers(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// lookFor returns the path of a program, which may be in one of further places.
func lookFor(name string, places ...string) (string, bool) {
	if found, err := exec.LookPath(name); err == nil {
		return found, true
	}
	for _, pattern := range places {
		found, _ := filepath.Glob(filepath.Join(pattern, name))
		if len(found) > 0 {
			return slices.Max(found), true
		}
	}
	return "", false
}

// selfCommand runs this program again: it has servers in it, and steps of
// measurements that need a process of their own.
func selfCommand(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.Command(self, args...)
}

// debian returns what tells that a program is missing, and which of Debian's
// packages has it.
func debian(program, pack string, places ...string) func() string {
	return func() string {
		if _, found := lookFor(program, places...); found {
			return ""
		}
		return fmt.Sprintf("%s is missing: apt-get install %s", program, pack)
	}
}

// processTime returns the processor time that a process and its children have
// used, those included that have ended and were waited for.
func processTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	times, parents := map[int]time.Duration{}, map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		one, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		times[one], parents[one] = parseStat(text)
	}
	var sum time.Duration
	for one, used := range times {
		for of := one; of > 1; of = parents[of] {
			if of == pid {
				sum += used
				break
			}
		}
	}
	return sum
}

// parseStat returns the time and the parent of a process that a line of
// /proc/PID/stat tells.
func parseStat(text []byte) (used time.Duration, parent int) {
	const tick = time.Second / 100         // of the kernel, for user programs
	name := bytes.LastIndexByte(text, ')') // which may have spaces
	f := bytes.Fields(text[min(name+1, len(text)):])
	if len(f) < 15 {
		return 0, 0
	}
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(string(field), 10, 64)
		used += time.Duration(n) * tick
	}
	parent, _ = strconv.Atoi(string(f[1]))
	return used, parent
}
