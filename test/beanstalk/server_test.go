// Package beanstalk tests conq serve --beanstalk from outside: with clients as they are, beside beanstalkd itself,
// and with servers that are killed. It is a module of its own, so that users of conq do not pay for what it needs.
package beanstalk

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var (
	program  string // conq, built from what is here
	required = flag.Bool("required", false, "fail where a test would be skipped, as a client or beanstalkd is missing")
)

// skip skips a test that needs what is not installed.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if *required {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "conq-beanstalk")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "conq")
	build := exec.Command("go", "build", "-o", program, "./cmd/conq")
	build.Dir, build.Stderr = "../..", os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a process that speaks the protocol.
type server struct {
	addr string
	cmd  *exec.Cmd
	done chan struct{}
}

var servesAt = regexp.MustCompile(`protocol=beanstalk address=(\S+)`)

// startConq starts a server of the store in a directory.
func startConq(t testing.TB, dir string, flags ...string) *server {
	t.Helper()
	args := append([]string{"serve", "--store", dir, "--listen", "127.0.0.1:0", "--beanstalk", "127.0.0.1:0"}, flags...)
	cmd := exec.Command(program, args...)
	log, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	s := &server{cmd: cmd, done: make(chan struct{})}
	addr := make(chan string, 1)
	go func() {
		defer close(s.done)
		defer close(addr)
		var all strings.Builder
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&all, lines.Text())
			if m := servesAt.FindStringSubmatch(lines.Text()); m != nil {
				addr <- m[1]
			}
		}
		_ = cmd.Wait() // it was killed, mostly
		if strings.Contains(all.String(), "panic") {
			t.Errorf("the server has ended so:\n%s", all.String())
		}
	}()
	if s.addr = <-addr; s.addr == "" {
		t.Fatal("conq serve has not started")
	}
	return s
}

// kill ends a server without a warning.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

// startBeanstalkd starts Debian's beanstalkd, or skips the test where there is none.
func startBeanstalkd(t testing.TB) *server {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		skip(t, "there is no beanstalkd to compare with: apt-get install beanstalkd")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr := l.Addr().String()
	check(t, l.Close())
	host, port, err := net.SplitHostPort(addr)
	check(t, err)
	s := &server{addr: addr, cmd: exec.Command(path, "-l", host, "-p", port), done: make(chan struct{})}
	check(t, s.cmd.Start())
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // it is killed
	}()
	t.Cleanup(s.kill)
	for t.Context().Err() == nil {
		if c, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr); err == nil {
			check(t, c.Close())
			break
		}
		select {
		case <-s.done:
			t.Fatal("beanstalkd has ended")
		default:
		}
	}
	return s
}
