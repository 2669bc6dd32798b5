package load

import (
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	timings := newTimings()
	for i := range 1000 {
		timings.Record(time.Duration(i+1) * time.Millisecond)
	}
	c := timings.calls("take", 2*time.Second, []float64{1})
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*0.998 || got > want*1.002 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("p50", c.Latency.P50, 500)
	near("p99", c.Latency.P99, 990)
	near("p99.9", c.Latency.P999, 999)
	near("max", c.Latency.Max, 1000)
	near("a second", c.PerSecond, 500)
	if c.Count != 1000 || c.Verb != "take" {
		t.Errorf("%+v", c)
	}
}

// What can't be kept counts as the nearest that can.
func TestExtremeTimings(t *testing.T) {
	timings := newTimings()
	timings.Record(0)
	timings.Record(30 * time.Hour)
	c := timings.calls("take", time.Hour, nil)
	if hour := 3_600_000.0; c.Count != 2 || c.Latency.P50 > 0.002 || c.Latency.Max < hour*0.998 || c.Latency.Max > hour*1.002 {
		t.Errorf("%+v", c)
	}
}

// However many samples there are, few are kept, and their rates are exact.
func TestSeries(t *testing.T) {
	for _, n := range []int{0, 1, maxSamples - 1, maxSamples, 10_000} {
		var s series
		for i := range n {
			s.add(sample{time.Duration(i+1) * time.Second, 3 * (i + 1), i + 1})
		}
		put, take := s.rates()
		if len(put) != len(take) || len(put) > n || len(put) >= maxSamples || len(put) < min(n, maxSamples/2) {
			t.Errorf("%d samples: %d and %d rates", n, len(put), len(take))
		}
		for i := range put {
			if put[i] != 3 || take[i] != 1 {
				t.Fatalf("%d samples: rate %d is %v in and %v out", n, i, put[i], take[i])
			}
		}
	}
}
