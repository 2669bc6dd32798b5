package main

import (
	"strings"
	"testing"
	"time"
)

func example() *report {
	rate := func(v float64) result { return result{Items: 1000, Rate: v, CPU: 0.002} }
	m := func(factor float64) measured {
		return measured{Fill: rate(1e5 * factor), Drain: rate(2e4 * factor), Transfer: rate(1000 * factor), Empty: 1000, Full: 201_000, Left: 1_500_000}
	}
	runs := []measured{m(1), m(3), m(2)}
	runs[0].Fill.Put = latency{1.234, 123.4}
	runs[1].Fill.Put = latency{12.34, 1234}
	runs[2].Fill.Put = latency{3.456, 12345}
	r := &report{
		Machine:  machine{OS: "os", Arch: "arch", CPU: "cpu", Cores: 2, Load: "0.5", Sync: 200},
		settings: settings{Payload: 128, Items: 9, Time: time.Second, Priorities: 3, Runs: 3},
		Lines: []*line{
			{Shape: shape{1, 2}, System: "good", Crash: "nothing", Outage: "50 ms", Runs: runs},
			{Shape: shape{1, 2}, System: "absent", Crash: "a", Outage: "b", Missing: "x is missing: apt-get install y"},
			{Shape: shape{1, 2}, System: "bad", Crash: "a", Outage: "b", Errors: []string{"lost one"}},
			{Shape: shape{1, 2}, System: "late", Crash: "a", Outage: "b", AtMost: "5 items: slow"},
		},
	}
	r.summarize()
	return r
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	r := example()
	r.Interrupted = true
	r.print(&b)
	const want = `os/arch, cpu, 2 cores, load 0.5, fsync 200 µs
128-byte items, at most 9 or 1s a phase, 3 priorities; medians of 3 runs

clients  system  crash loses  power failure loses  fill/s  drain/s  transfer/s  fill put µs  drain take µs  transfer put µs  transfer take µs  B/item  left MB  CPU s/M
1x2      good    nothing      50 ms                200k    40.0k    2000        3.46/1234    0.00/0.00      0.00/0.00        0.00/0.00         200     1.5      3.0
1x2      absent  a            b                    missing
1x2      bad     a            b                    failed
1x2      late    a            b                    not measured
latencies: p50/p99; disk: bytes an item when full, and left in the end; CPU: seconds a million items, with the server's
absent was left out. x is missing: apt-get install y
1x2 bad failed: lost one
late got at most 5 items: slow

          1k                   10k                  100k                 1M      items a second: F fill, D drain, T transfer
          +--------------------+--------------------+--------------------+
1x2 good        T                           D             F

Interrupted: not all was measured.
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Rates that meet are one mark, and nothing measured is no plot.
func TestPlot(t *testing.T) {
	r := example()
	r.Lines = r.Lines[:1]
	r.Lines[0].Median = &summary{Fill: 100, Drain: 100, Transfer: 100}
	var b strings.Builder
	r.plot(&b)
	if got := strings.Count(b.String(), "*"); got != 1 {
		t.Errorf("%d marks:\n%s", got, &b)
	}
	r.Lines[0].Median = nil
	b.Reset()
	r.plot(&b)
	if b.String() != "" {
		t.Errorf("a plot of nothing:\n%s", &b)
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.126: "0.13", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 9994: "9994", 9996: "10.0k",
		123456: "123k", 999400: "999k", 999600: "1.00M", 12.3e6: "12.3M",
	} {
		if got := short(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
