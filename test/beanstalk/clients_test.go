package beanstalk

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	client "github.com/beanstalkd/go-beanstalk"
)

// Clients of four languages do the same with conq as with beanstalkd, unchanged.
func TestClients(t *testing.T) {
	conq := startConq(t, t.TempDir())
	defer conq.kill()
	servers := map[string]string{"conq": conq.addr}
	if _, err := exec.LookPath("beanstalkd"); err == nil {
		servers["beanstalkd"] = startBeanstalkd(t).addr // whether the scripts ask for what it does
	}
	for name, addr := range servers {
		t.Run(name, func(t *testing.T) {
			t.Run("go-beanstalk", func(t *testing.T) { useGo(t, addr) })
			for _, c := range []struct{ name, what, probe string }{
				{"ruby", "clients/beaneater.rb", "require 'beaneater'"},
				{"php", "clients/pheanstalk.php", "require 'Pheanstalk/autoload.php';"},
				{"node", "clients/jackd.cjs", "require('jackd')"},
			} {
				t.Run(c.what, func(t *testing.T) { useScript(t, addr, c.name, c.what, c.probe) })
			}
		})
	}
}

// useScript runs a script of another language.
func useScript(t *testing.T, addr, interpreter, script, probe string) {
	eval := map[string]string{"php": "-r"}[interpreter]
	if eval == "" {
		eval = "-e"
	}
	if out, err := exec.Command(interpreter, eval, probe).CombinedOutput(); err != nil {
		skip(t, "%s can't use its client: .ci/run beanstalk installs it: %v\n%.300s", interpreter, err, out)
	}
	host, port, err := net.SplitHostPort(addr)
	check(t, err)
	tube := strings.NewReplacer("/", "-", ".", "-").Replace(script)
	cmd := exec.CommandContext(t.Context(), interpreter, script, host, port, tube)
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func useGo(t *testing.T, addr string) {
	conn, err := client.Dial("tcp", addr)
	check(t, err)
	defer conn.Close()
	tube, set := client.NewTube(conn, "go"), client.NewTubeSet(conn, "go", "go2")
	put, err := tube.Put([]byte("from go"), 7, 0, time.Minute)
	check(t, err)
	id, body, err := set.Reserve(5 * time.Second)
	check(t, err)
	if id != put || string(body) != "from go" {
		t.Fatalf("reserved %d %q", id, body)
	}
	check(t, conn.Touch(id))
	check(t, conn.Bury(id, 3))
	buried, _, err := tube.PeekBuried()
	check(t, err)
	kicked, err := tube.Kick(10)
	check(t, err)
	if buried != id || kicked != 1 {
		t.Fatalf("job %d is buried, %d were kicked", buried, kicked)
	}
	stats, err := conn.StatsJob(id)
	check(t, err)
	if stats["state"] != "ready" || stats["pri"] != "3" || stats["buries"] != "1" || stats["tube"] != "go" {
		t.Fatalf("stats %v", stats)
	}
	_, _, err = set.Reserve(0)
	check(t, err)
	check(t, conn.Release(id, 1, time.Hour))
	check(t, conn.KickJob(id))
	body, err = conn.ReserveJob(id)
	check(t, err)
	if string(body) != "from go" {
		t.Fatalf("body %q", body)
	}
	check(t, tube.Pause(0))
	check(t, conn.Delete(id))
	_, _, err = set.Reserve(0)
	if !errors.Is(err, client.ErrTimeout) {
		t.Fatalf("a job is left: %v", err)
	}
	tubes, err := conn.ListTubes()
	check(t, err)
	if len(tubes) < 2 {
		t.Fatalf("tubes %v", tubes)
	}
	all, err := conn.Stats()
	check(t, err)
	if all["cmd-put"] == "0" {
		t.Fatalf("stats %v", all)
	}
}
