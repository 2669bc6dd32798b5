package etcd_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
)

var (
	outageItems = flag.Int("outage.items", 30_000, "how many items go through commands while members are down")
	outageJobs  = flag.Int("outage.jobs", 30_000, "how many jobs do")
)

// outages takes one or two members away, killed or stopped, again and again, until end is called. With two away nothing commits.
func outages(t *testing.T, c *cluster) (end func() map[string]int) {
	x := newChaos(c)
	var over atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; !over.Load() && t.Context().Err() == nil; n++ {
			first, d := x.random.IntN(3), time.Duration(500+x.random.IntN(3000))*time.Millisecond
			away := []*member{c.members[first], c.members[(first+1)%3]}[:1+n%2]
			name := fmt.Sprintf("%d members ", len(away))
			if n/2%2 == 0 {
				name += "killed"
				for _, m := range away {
					m.kill()
				}
			} else {
				name += "stopped"
				for _, m := range away {
					m.pause(t)
				}
			}
			wait(t.Context(), d)
			for _, m := range away {
				if m.process == nil {
					m.start(t)
				} else {
					m.resume(t)
				}
			}
			c.leader(t)
			x.counts[name]++
			wait(t.Context(), time.Duration(x.random.IntN(1500))*time.Millisecond)
		}
	})
	end = func() map[string]int {
		over.Store(true)
		group.Wait()
		return x.counts
	}
	t.Cleanup(func() { end() })
	return end
}

// outlets are processes that write items to files, a line each.
type outlets struct {
	t     *testing.T
	dir   string
	all   []*exec.Cmd
	says  []*bytes.Buffer
	files []string
}

func startOutlets(t *testing.T, n int, binary string, args ...string) *outlets {
	c := &outlets{t: t, dir: t.TempDir()}
	for i := range n {
		path := filepath.Join(c.dir, fmt.Sprint(i))
		out, err := os.Create(path)
		testkit.NoError(t, err)
		defer out.Close()
		cmd, says := exec.Command(binary, args...), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, says
		testkit.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		c.all, c.says, c.files = append(c.all, cmd), append(c.says, says), append(c.files, path)
	}
	return c
}

// lines counts what was written so far.
func (c *outlets) lines() map[string]int {
	counts := make(map[string]int)
	for _, path := range c.files {
		text, err := os.ReadFile(path)
		testkit.NoError(c.t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(line, "\n") {
				counts[strings.TrimSpace(line)]++
			}
		}
	}
	return counts
}

// await waits until so many different items are out, as long as there are more from time to time.
func (c *outlets) await(n int) {
	c.t.Helper()
	most, since := -1, time.Now()
	for {
		got := len(c.lines())
		if got >= n {
			return
		}
		if got > most {
			most, since = got, time.Now()
		}
		if time.Since(since) > patience {
			c.t.Fatalf("%d of %d items came out, and no more in %v", got, n, patience)
		}
		wait(c.t.Context(), 200*time.Millisecond)
	}
}

// end has all end, as an operator does, and wants them to do so without an error.
func (c *outlets) end() {
	c.t.Helper()
	for i, cmd := range c.all {
		testkit.NoError(c.t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			c.t.Errorf("consumer %d has ended: %v, %s", i, err, c.says[i])
		}
	}
}

// putLines puts so many lines in by a command that reads them from standard input.
func putLines(t *testing.T, n int, binary string, args ...string) {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(lines.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// judge wants each of n items, and once, if that is promised.
func judge(t *testing.T, what string, counts map[string]int, n int, once bool) {
	t.Helper()
	lost, twice := 0, 0
	for i := range n {
		switch times := counts[fmt.Sprint(i)]; {
		case times == 0:
			lost++
		case times > 1:
			twice++
		}
	}
	if lost > 0 || once && twice > 0 || len(counts) > n {
		t.Errorf("%s: of %d items %d are lost and %d came twice; %d different ones came", what, n, lost, twice, len(counts))
	}
	t.Logf("%s: %d items, %d came twice", what, n, twice)
}

// Commands put items in and take them out while one and two members of three are killed and stopped: none is lost, none comes twice
// that is removed before it is written, and no command ends by itself.
func TestCommandsThroughOutages(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	binary := buildConq(t)
	for _, test := range []struct {
		name      string
		put, take []string
		processes int
		once      bool
	}{
		{"dequeue commit-first", []string{"enqueue", "q"}, []string{"dequeue", "q", "--follow", "--commit-first"}, 4, true},
		{"dequeue", []string{"enqueue", "q"}, []string{"dequeue", "q", "--follow"}, 1, true},
		{"several that dequeue", []string{"enqueue", "q"}, []string{"dequeue", "q", "--follow"}, 3, false},
		{"pop commit-first", []string{"push", "p", "--priority", "1"}, []string{"pop", "p", "--follow", "--commit-first"}, 4, true},
		{"pop", []string{"push", "p", "--priority", "1"}, []string{"pop", "p", "--max", "--follow"}, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := "--store=" + storeURL(c.options())
			putLines(t, 1, binary, append(test.put, store)...)
			taken := startOutlets(t, test.processes, binary, append(test.take, store)...)
			taken.await(1)
			end := outages(t, c)
			putLines(t, *outageItems, binary, append(test.put, store)...)
			taken.await(*outageItems)
			counts := end()
			taken.end()
			lines := taken.lines()
			lines["0"]-- // the first
			judge(t, test.name, lines, *outageItems, test.once)
			t.Log(counts)
		})
	}
}

// Jobs that commands work off while members are away are all done.
func TestWorkThroughOutages(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	binary, store := buildConq(t), "--store="+storeURL(c.options())
	end := outages(t, c)
	putLines(t, *outageJobs, binary, "put", "jobs", store, "--max-attempts=-1")
	testkit.NoError(t, exec.Command(binary, store, "set", "jobs", "--order", "relaxed").Run())
	done := startOutlets(t, 2, binary, store, "work", "jobs", "-j", "16", "--", "sh", "-c", `echo "$(cat)"`)
	done.await(*outageJobs)
	t.Log(end())
	done.end()
	judge(t, "work", done.lines(), *outageJobs, false)
}

// Clients of a server whose cluster is away for a while lose nothing, and get nothing twice.
func TestClientsThroughOutages(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	binary, address := buildConq(t), freeAddresses(t, 1)[0]
	serves, says := exec.Command(binary, "serve", "--store", storeURL(c.options()), "--listen", address), new(bytes.Buffer)
	serves.Stderr = says
	testkit.NoError(t, serves.Start())
	defer func() {
		testkit.NoError(t, serves.Process.Signal(syscall.SIGTERM))
		testkit.NoError(t, serves.Wait())
	}()
	remote, err := client.Dial(t.Context(), "http://"+address, client.Options{Patience: patience})
	testkit.NoError(t, err)
	defer remote.Close()
	q, err := client.OpenQueue(t.Context(), remote, "q", conq.String())
	testkit.NoError(t, err)
	end := outages(t, c)
	var putting, taking sync.WaitGroup
	counts, puts := newTally(), 100 // at once, as calls that come together share a transaction
	for p := range puts {
		putting.Go(func() {
			for i := p; i < *outageItems && !t.Failed(); i += puts {
				testkit.Check(t, q.Enqueue(t.Context(), fmt.Sprint(i)))
			}
		})
	}
	working, stop := context.WithCancel(t.Context())
	defer stop()
	for range 64 {
		taking.Go(func() {
			for working.Err() == nil {
				v, err := q.DequeueWait(working)
				if err == nil {
					counts.count(counts.took, v)
				} else if working.Err() == nil {
					t.Errorf("DequeueWait: %v", err)
					return
				}
			}
		})
	}
	putting.Wait()
	for last, since := -1, time.Now(); !t.Failed(); wait(t.Context(), 100*time.Millisecond) {
		counts.mu.Lock()
		n := len(counts.took)
		counts.mu.Unlock()
		if n > last {
			last, since = n, time.Now()
		}
		if n >= *outageItems || time.Since(since) > patience {
			break
		}
	}
	t.Log(end())
	stop()
	taking.Wait()
	judge(t, "clients", counts.took, *outageItems, true)
}
