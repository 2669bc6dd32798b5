package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/load"
	"github.com/google/go-cmp/cmp"
)

// interrupter ends a context with the first bytes that are written to it.
type interrupter struct {
	bytes.Buffer
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	i.interrupt()
	return i.Buffer.Write(p)
}

// An interrupt after the first phase ends all that follow, with a report.
func TestBenchInterrupted(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--json=false", "\nInterrupted: "}, {"--json", `"interrupted":true,"phases":[{"name":"fill",`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stdout bytes.Buffer
		stderr := &interrupter{interrupt: cancel}
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: stderr}
		code := a.run(ctx, []string{"bench", "--items", "50", "--store", "memory:", c.flag})
		if code != exitDone || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("exit code %d, %s\n%s", code, stderr.String(), &stdout)
		}
	}
}

func TestBenchText(t *testing.T) {
	report := &load.Report{
		Interrupted: true,
		Phases: []load.Result{{
			Name: load.Fill,
			Put: load.PhaseCalls{Batch: 15.96, Calls: load.Calls{
				Verb: "push", Count: 12345, PerSecond: 6172.5, Rates: []float64{0, 6000, 12000},
				Latency: load.Latency{P50: 0.25, P99: 1.26, P999: 99.94, Max: 1234},
			}},
			TransactionsPerItem: 0.0626, ConflictsPerItem: 0,
		}, {
			Name:                load.Drain,
			Take:                load.PhaseCalls{Batch: 1, Calls: load.Calls{Verb: "pop", Count: 7, PerSecond: 7, Rates: []float64{7, 7}}},
			TransactionsPerItem: 2.5, ConflictsPerItem: 0.125, Conflicts: 1234,
			Verbs:   map[string]load.Attempts{"pop": {Transactions: 5000, Conflicts: 1200}, "other": {Transactions: 50, Conflicts: 34}},
			Staging: load.Staged{Requests: 1000, Fulfilments: 30, Served: 33.33, Expired: 2},
		}},
	}
	want := `   phase           items   a second      p50      p99     p99.9        max
    fill   push   12,345      6,172   250 µs   1.3 ms   99.9 ms   1,234 ms
   drain    pop        7          7     0 µs     0 µs      0 µs       0 µs

   phase   transactions/item   conflicts/item   batch in   batch out   requests   fulfilments   served by each   expired
    fill               0.063            0.000       16.0           -          0             0              0.0         0
   drain               2.500            0.125          -         1.0      1,000            30             33.3         2

drain: conflicts of transactions: other 34 of 50, pop 1,200 of 5,000
`
	text := benchText(report)
	if !strings.HasPrefix(text, want) {
		t.Errorf("difference (-want +got):\n%s", cmp.Diff(want, text))
	}
	for _, want := range []string{"12,000 ┤", "fill: push calls a second, over time\n", "\nInterrupted: the last phase"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "drain: pop calls") {
		t.Error("two rates are plotted")
	}
}

func TestLiveText(t *testing.T) {
	got := liveText(load.Progress{Phase: "fill"}) + "\n" + liveText(load.Progress{Phase: "drain", Elapsed: 2e9, Took: 4000})
	want := "fill             0.0 s  in         0  out         0          0/s\n" +
		"drain            2.0 s  in         0  out     4,000      2,000/s"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
