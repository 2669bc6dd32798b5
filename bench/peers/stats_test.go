package main

import (
	"slices"
	"testing"
	"time"
)

func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		values []int
		want   int
	}{{nil, 0}, {[]int{3}, 3}, {[]int{9, 1}, 1}, {[]int{9, 1, 5}, 5}, {[]int{4, 3, 2, 1}, 2}} {
		if got := middle(c.values); got != c.want {
			t.Errorf("%v: %d, want %d", c.values, got, c.want)
		}
	}
}

func TestLatency(t *testing.T) {
	var a, b []time.Duration
	for i := range 100 {
		a = append(a, time.Duration(2*i+1)*time.Microsecond)
		b = append(b, time.Duration(200-2*i)*time.Microsecond)
	}
	if got, want := latencyOf([][]time.Duration{a, nil, b}), (latency{100, 198}); got != want {
		t.Errorf("of 1 to 200: %+v, want %+v", got, want)
	}
	if got := latencyOf(nil); got != (latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got, want := latencyOf([][]time.Duration{{time.Millisecond}}), (latency{1000, 1000}); got != want {
		t.Errorf("of one: %+v", got)
	}
}

// Each run has all of them, and orders differ, also in who follows whom.
func TestRotated(t *testing.T) {
	for n := range 30 {
		values := make([]int, n)
		for i := range values {
			values[i] = i
		}
		var last []int
		for run := range 7 {
			got := rotated(values, run)
			if !slices.Equal(slices.Sorted(slices.Values(got)), values) {
				t.Fatalf("run %d of %v: %v", run, values, got)
			}
			if n > 1 && slices.Equal(got, last) {
				t.Errorf("runs %d and %d of %d are the same: %v", run-1, run, n, got)
			}
			last = got
		}
	}
	if a, b := rotated([]int{0, 1, 2, 3, 4}, 0), rotated([]int{0, 1, 2, 3, 4}, 1); a[1]-a[0] == b[1]-b[0] {
		t.Errorf("%v and %v: the same comes after each", a, b)
	}
}
