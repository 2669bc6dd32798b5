package watch

import (
	"math/rand/v2"
	"slices"
	"time"
)

// reservoirSize is how many durations stand for all of a step. The 99th percentile of 256 is that of all within
// about one percent of rank.
const reservoirSize = 256

// reservoir is a uniform sample of durations (Vitter's algorithm R).
type reservoir struct {
	seen int
	of   []float32 // seconds
}

func (r *reservoir) add(d time.Duration) {
	r.seen++
	seconds := float32(max(0, d.Seconds()))
	if len(r.of) < reservoirSize {
		r.of = append(r.of, seconds)
	} else if i := rand.IntN(r.seen); i < reservoirSize {
		r.of[i] = seconds
	}
}

// percentiles returns the 50th, 95th and 99th in seconds, or zeros if there was nothing, and empties the reservoir.
func (r *reservoir) percentiles() (p [3]float64) {
	if len(r.of) == 0 {
		return p
	}
	slices.Sort(r.of)
	for i, percent := range percents {
		p[i] = float64(r.of[min(len(r.of)-1, len(r.of)*percent/100)])
	}
	r.seen, r.of = 0, r.of[:0]
	return p
}

// latency is the durations of one kind, of a queue, by span.
type latency struct {
	first Field
	by    [spans]reservoir
}

func (l *latency) add(d time.Duration) {
	for i := range l.by {
		l.by[i].add(d)
	}
}

// set writes the percentiles of a step that is over.
func (l *latency) set(r *ring) {
	for i, v := range l.by[r.span].percentiles() {
		r.set(l.first+Field(i), v)
	}
}
