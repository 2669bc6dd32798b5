package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain has the test binary be the servers and processes that the program
// starts of itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == serveArgument || os.Args[1] == childArgument) {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// invoke runs the program.
func invoke(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, said strings.Builder
	if got := run(args, &out, &said); got != want {
		t.Fatalf("%q: exit code %d, want %d\n%s\n%s", args, got, want, &out, &said)
	}
	return out.String(), said.String()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-payload 15", "-payload 15: 16 to 4194304 are allowed"},
		{"-items 0", "-items 0: 1 to 100000000 are allowed"},
		{"-time 0s", "-time 0s: more than 0s and up to 24h0m0s are allowed"},
		{"-time 100000h", "-time 100000h0m0s: more than 0s and up to 24h0m0s are allowed"},
		{"-priorities 0", "-priorities 0: 1 to 2147483647 are allowed"},
		{"-runs 0", "-runs 0: 1 to 1000 are allowed"},
		{"-producers 1,2", "there must be as many numbers of either"},
		{"-producers x", `"x": numbers from 1 to 10000 are allowed`},
		{"-consumers 10001", `"10001": numbers from 1 to 10000 are allowed`},
		{"-class often", `-class "often": there are [power process none]`},
		{"-peers nobody", "there is no such system, only:\n  conq-queue/always"},
		{"-peers [", "missing closing ]"},
		{"-bogus", "flag provided but not defined: -bogus"},
		{"bogus", `unknown argument "bogus": only flags are allowed, or first one of allocs, depth, jobs`},
		{"depth -items 0", "numbers must be positive"},
		{"depth -items 4", "-items 4: at least 5 are needed, as many as a round takes"},
		{"priorities -items 4", "-items 4: at least 5 are needed, as many as a round takes"},
		{"depth -durability x", `durability "x" is not one of always, interval, memory`},
		{"jobs -workers 0", `clients: "0": numbers from 1 to 10000 are allowed`},
		{"jobs -peers nats", "there is no such system, only:\n  conq-queue/always"},
		{"serve me", "it is not meant to be called by hand"},
		{"child me", "it is not meant to be called by hand"},
	} {
		_, said := invoke(t, exitUsage, strings.Fields(c.args)...)
		contains(t, said, c.want)
	}
}

func TestHelpAndList(t *testing.T) {
	_, said := invoke(t, exitOK, "-help")
	contains(t, said, "usage: peers", "-producers", "memory, payload")
	out, _ := invoke(t, exitOK, "-list")
	contains(t, strings.Join(strings.Fields(out), " "), "goque-priority process", "redis-list/always power", "conq-queue/memory none")
	if n := strings.Count(out, "\n"); n != len(systems()) {
		t.Errorf("%d lines for %d systems", n, len(systems()))
	}
	out, _ = invoke(t, exitOK, "-list", "-peers", "^conq-", "-class", "power,none")
	if want := 4; strings.Count(out, "\n") != want {
		t.Errorf("%d systems of conq are chosen, want %d:\n%s", strings.Count(out, "\n"), want, out)
	}
}

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Figures that can't be written are a failure.
func TestFullOutput(t *testing.T) {
	for _, args := range []string{
		"-list", "-peers conq-queue/memory -short -items 20", "-peers conq-queue/memory -short -items 20 -json",
		"allocs -items 20", "allocs -items 20 -json",
	} {
		var said strings.Builder
		if code := run(strings.Fields(args), full{}, &said); code != exitFailed {
			t.Errorf("%s: exit code %d", args, code)
		}
		contains(t, said.String(), "peers: no space left")
	}
}

func TestShort(t *testing.T) {
	o, err := parseOptions([]string{"-short", "-items", "7"}, os.Stderr)
	if err != nil || o.Items != 7 || o.Runs != 1 || o.Time.String() != "300ms" {
		t.Errorf("%+v, %v", o, err)
	}
}

// The whole program, with systems that are in every process.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-short", "-items", "300", "-runs", "2", "-producers", "1,4", "-consumers", "1,3", "-dir", dir, "-peers", "^conq-|^goque"}
	out, said := invoke(t, exitOK, args...)
	contains(t, out, "300 or 300ms a phase", "medians of 2 runs", "conq-priority/interval", "4x3", "F fill, D drain, T transfer")
	contains(t, said, "run 1 of 2, 1 of 16: 1x1 conq-queue/always")
	out, _ = invoke(t, exitOK, append(args, "-json")...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Lines) != 16 || r.Interrupted || r.Machine.Cores == 0 || r.Machine.Sync <= 0 {
		t.Errorf("%d lines, machine %+v", len(r.Lines), r.Machine)
	}
	for _, l := range r.Lines {
		if len(l.Runs) != 2 || l.Median == nil || l.Crash == "" || l.Outage == "" {
			t.Fatalf("%+v", l)
		}
		for _, m := range l.Runs {
			if m.Fill.Items == 0 || m.Fill.Items != m.Drain.Items || m.Transfer.Rate <= 0 || m.Fill.Put.P99 < m.Fill.Put.P50 || m.Full <= 0 {
				t.Errorf("%s: %+v", l.System, m)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// Jobs beside others that are in every process.
func TestJobs(t *testing.T) {
	dir := t.TempDir()
	args := []string{"jobs", "-short", "-items", "300", "-workers", "1,16", "-dir", dir, "-peers", "^conq|^goqite"}
	out, said := invoke(t, exitOK, args...)
	contains(t, out, "300, or as many as are put in 300ms", "conq-work-run/interval", "put, 16 workers, conq-work/always beside conq-queue/always", "at least 10: ",
		"done, 1 workers, conq-work/interval beside goqite/normal")
	contains(t, said, "run 1 of 1, 1 of 16: 1x1 conq-queue/always")
	out, _ = invoke(t, exitOK, append(args, "-json")...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Lines {
		if m := l.Median; m == nil || m.Fill <= 0 || m.Drain <= 0 || m.Transfer != 0 || m.DrainTake.P50 <= 0 {
			t.Errorf("%s: %+v", l.System, m)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// The bars hold from 16 workers on, among those of one class.
func TestJobFindings(t *testing.T) {
	of := func(system string, class class, workers int, put, done float64) *line {
		return &line{System: system, Class: class, Shape: shape{workers, workers}, Median: &summary{Fill: put, Drain: done}}
	}
	r := &report{Lines: []*line{
		of("conq-work/always", power, 16, 80, 30), of("conq-queue/always", power, 16, 100, 200), of("conq-work-run/always", power, 16, 1, 1),
		of("goqite/full", power, 1, 1, 1), of("river", power, 16, 16, 6), of("conq-queue/interval", process, 16, 1, 1), of("other", power, 16, 40, 40),
		{System: "asynq/always", Class: power, Shape: shape{16, 16}},
	}}
	var got []string
	for _, f := range r.jobFindings() {
		got = append(got, fmt.Sprintf("%s %.2f %s", f.What, f.Ratio, f.verdict()))
	}
	want := []string{
		"put, 16 workers, conq-work/always beside conq-queue/always 0.80 at least 0.7: yes",
		"done, 16 workers, conq-work/always beside conq-queue/always 0.15 at least 0.4: NO",
		"put, 16 workers, conq-work/always beside river 5.00 at least 5: yes",
		"done, 16 workers, conq-work/always beside river 5.00 at least 5: yes",
		"put, 16 workers, conq-work/always beside other 2.00 ",
		"done, 16 workers, conq-work/always beside other 0.75 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestSpecials(t *testing.T) {
	for _, c := range []struct {
		args  string
		parts []string
	}{
		{"depth -items 300 -rounds 3", []string{"dequeue, 300 items", "push, after 300 were taken", "at most 1.3"}},
		{"priorities -items 300 -rounds 3", []string{"pop max, 300 priorities", "at most 1.5"}},
		{"queues -queues 30 -rounds 2", []string{"open a store of 30 queues", "enqueue, on one of 30 queues", "enqueue, on any of 30 of them", "at most 2"}},
		{"payload -items 6 -rounds 1 -clients 2 -durability interval", []string{"drain, items of 1048576 bytes", "MB/s", "at least 0.7"}},
		{"memory -items 20000 -clients 2", []string{"resident, draining", "at most 300: yes", "disk, after conq stat"}},
		{"allocs -items 200", []string{"memory, 64 clients, push and take", "at most 6"}},
	} {
		name, _, _ := strings.Cut(c.args, " ")
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, _ := invoke(t, exitOK, append(strings.Fields(c.args), "-dir", dir)...)
			contains(t, out, c.parts...)
			if said := strings.Contains(out, ", durability "); said == (name == "allocs") {
				t.Errorf("it says a durability: %v, in:\n%s", said, out)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		f    finding
		want string
	}{
		{against("", "", 2, 3).atMost(1.5), "at most 1.5: yes"},
		{against("", "", 2, 3.1).atMost(1.5), "at most 1.5: NO"},
		{against("", "", 2, 1.4).atLeast(0.7), "at least 0.7: yes"},
		{against("", "", 2, 1.3).atLeast(0.7), "at least 0.7: NO"},
		{plain("", "", 7).atMost(6), "at most 6: NO"},
		{plain("", "", 7), ""},
	} {
		if got := c.f.verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}
