package main

import (
	"cmp"
	"slices"
	"time"
)

// middle returns the median of values, or the zero value if there are none. Of an
// even number it is the smaller of the two in the middle.
func middle[T cmp.Ordered](values []T) T {
	if len(values) == 0 {
		var none T
		return none
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// medianOf returns the median of what f gives for the values.
func medianOf[S any, T cmp.Ordered](values []S, f func(S) T) T {
	all := make([]T, len(values))
	for i, v := range values {
		all[i] = f(v)
	}
	return middle(all)
}

// latency is how long calls took.
type latency struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

// latencyOf returns that of calls by several clients.
func latencyOf(calls [][]time.Duration) latency {
	all := slices.Concat(calls...)
	slices.Sort(all)
	return latency{micros(percentile(all, 50)), micros(percentile(all, 99))}
}

// percentile returns the smallest duration that p percent of all do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ratio is a / b, or 0 if b is.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// rotated returns the values in an order that differs from run to run, so that
// none always comes after the same other, or first. Each run has all of them.
func rotated[T any](values []T, run int) []T {
	n := len(values)
	if n == 0 {
		return nil
	}
	// A stride that has no divisor in common with n visits all.
	stride := 1
	for k := 0; k < run; {
		stride++
		if gcd(stride, n) == 1 {
			k++
		}
	}
	all := make([]T, n)
	for i := range all {
		all[i] = values[(run+i*stride)%n]
	}
	return all
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
