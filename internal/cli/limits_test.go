package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// step is a command, what it reads, and how many lines it writes: -1 is any number.
type step struct {
	command, stdin string
	lines          int
}

// many are all commands that read or write a store, with far more items and jobs than one transaction takes.
func many(n int) (steps []step) {
	lines := strings.Repeat("x\n", n)
	add := func(stdin string, lines int, commands ...string) {
		for _, c := range commands {
			steps = append(steps, step{c, stdin, lines})
		}
	}
	add(lines, -1, "enqueue q", "enqueue q --ack", "push p --priority 1", "push p --priority 2 --ack")
	add("", 2*n, "peek q --all", "peek p --all", "peek p --max --all")
	add("", -1, "ls", "top", "stat", "stat q", "stat p", "check", "check --repair")
	add("", 1, "move q r --all", "move p s --all")
	add("", n, fmt.Sprint("dequeue r -n ", n), fmt.Sprint("pop s --max -n ", n))
	add("", n, "dequeue r --all --commit-first", "pop s --all --commit-first")
	add(lines, -1, "enqueue q", "push p --priority 3")
	add("", n, "dequeue q --all", "pop p --all")
	add(lines, -1, "enqueue q", "push p --priority 3")
	add("", 1, "purge q --yes", "purge p --yes")

	add(lines, n, "put keyed --ids --key k", "put w --ids --delay 1h", "put w --ids --max-attempts 1", "put w --ids")
	add("", -1, "put w --unique u x")
	add("", -1, "every w tick @hourly x", "every w", "every w tick --run", "job w ID", "jobs w", "stat w", "set w --concurrency 100", "set w --concurrency 0", "pause w", "resume w")
	add("", -1, "set w --order relaxed", "work w -j 40 --drain -- true", "put w again --max-attempts 1", "work w --drain -- false")
	add("", 1, "kick w --all-matching all", "cancel w --all-matching all", "retry w --all-matching all", "bury w --all-matching all", "delete w --all-matching state=dead")
	add(lines, n, "put w --ids", "put w --ids --max-attempts 1")
	add("", -1, "every w tick --remove", "purge keyed --yes")
	add(lines, n, "put w2 --ids")
	add("", -1, "rm w2 --yes", "check")
	return steps
}

// elsewhere are the commands that don't work on a store that there is.
var elsewhere = map[string]bool{
	"serve": true, "token": true, "demo-worker": true, "help": true, "completion": true, "load": true, "dump": true, "demo": true, "bench": true,
}

// No command fails as it is over the limits of an engine.
func TestNoneTooLarge(t *testing.T) {
	const n = 150
	var db kv.DB
	kv.Register("limited", func(context.Context, string) (kv.DB, error) { return db, nil })
	called := make(map[string]bool)
	for _, limits := range []kv.Limits{
		{Key: 4096, Value: 512 << 10, Transaction: 1280 << 10, Operations: 128}, {Key: 10_000, Value: 30_000, Transaction: 100_000, Operations: 64},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(limits.Operations, " operations, shared ", shared), func(t *testing.T) {
				stored := kept{memory.New(memory.Options{Limits: limits})}
				if db = stored; shared {
					db = unsure{stored}
				}
				id := "" // of a job
				call := func(s step) string {
					t.Helper()
					stdout, stderr := new(written), new(written)
					a := &app{stdin: strings.NewReader(s.stdin), stdout: stdout, stderr: stderr}
					words := strings.Fields(strings.ReplaceAll(s.command, "ID", id))
					called[words[0]] = true
					code := a.run(t.Context(), append([]string{"--store=limited:"}, words...))
					if got := strings.Count(stdout.String(), "\n"); code != 0 || s.lines >= 0 && got != s.lines {
						t.Fatalf("%s: exit code %d, %d lines, want %d: %s", s.command, code, got, s.lines, stderr)
					}
					if strings.Contains(s.command, "--ids") {
						id, _, _ = strings.Cut(stdout.String(), "\n")
					}
					return stdout.String()
				}
				for _, s := range many(n) {
					call(s)
				}
				for _, command := range []string{"enqueue q", "push p --priority 1"} {
					call(step{command, strings.Repeat("x\n", n), -1})
				}
				dump := call(step{"dump", "", -1})
				for _, how := range []string{"--append", "--replace", "--dry-run --append"} {
					call(step{"load " + how, dump, -1})
				}
				for _, name := range []string{"q", "p", "w", "r", "s", "keyed"} {
					call(step{"rm --yes " + name, "", -1})
				}
				call(step{"demo --items 400", "", -1})
				call(step{"bench --items 400 --handles 2", "", -1})
				report, err := conq.Check(t.Context(), db)
				testkit.NoError(t, err)
				testkit.Equal(t, "faults", report.Faults, 0)
			})
		}
	}
	for _, c := range (&app{}).root().Commands() {
		if name := c.Name(); !called[name] && !elsewhere[name] {
			t.Errorf("conq %s has no case: what does it do with many items on an engine that limits operations?", name)
		}
	}
}

// kept outlives its Close.
type kept struct{ kv.DB }

func (kept) Close() error { return nil }

// written is what a command writes, and what those write that it runs, at the same time.
type written struct {
	mu   sync.Mutex
	text []byte
}

func (o *written) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

func (o *written) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
