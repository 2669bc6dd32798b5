package watch

import (
	"math"
	"time"
)

// Field is one of the values that are kept of a queue.
type Field int

// The fields. In, Out and Failed are a second.
const (
	Depth Field = iota
	Ready
	Scheduled
	Leased
	Blocked
	Dead
	In
	Out
	Failed
	Age
	WaitP50
	WaitP95
	WaitP99
	WorkP50
	WorkP95
	WorkP99
	fields
)

// isMean tells that a longer step has the mean of a field. Of others it has the highest value.
func (f Field) isMean() bool { return f == In || f == Out || f == Failed }

// Span is how far a series goes back.
type Span int

// The spans: 10 minutes of seconds, 3 hours of 10 seconds, 2 days of 2 minutes.
const (
	Minutes Span = iota
	Hours
	Days
	spans
)

var levels = [spans]struct {
	step time.Duration
	n    int64
}{{time.Second, 600}, {10 * time.Second, 1080}, {2 * time.Minute, 1440}}

// Step is the time between two points.
func (s Span) Step() time.Duration { return levels[s].step }

// Length is how far it goes back.
func (s Span) Length() time.Duration { return levels[s].step * time.Duration(levels[s].n) }

// code is a value in 16 bits, with 8 bits of mantissa: up to 512 exactly, above to a fifth of a percent. It is a
// float32 without its sign and low bits.
type code uint16

const missing code = math.MaxUint16

func encode(v float64) code {
	if !(v > 0) {
		return 0
	}
	c := (uint64(math.Float32bits(float32(v))) + 1<<14) >> 15
	return code(min(c, uint64(missing-1)))
}

func (c code) value() float64 { return float64(math.Float32frombits(uint32(c) << 15)) }

// chunk is consecutive points of a field; the number of points of each span is a multiple of chunkLen. Where a field has only been 0
// it has none: of most of many queues something is known of a few seconds.
type chunk [chunkLen]code

const chunkLen = 120

// ring has the last points of one span.
type ring struct {
	span  Span
	first int64 // the number of the first slot that was set
	last  int64 // and of the last one; 0 is none
	codes [fields][]*chunk
	gaps  []bool // slots without a point; nil if there are none

	n    int           // of records in the last slot
	over time.Duration // of which they are
	sum  [fields]float32
}

// setBack is by how many slots a clock is set back a little, as it is to follow another one.
const setBack = 2

func (r *ring) slot(now time.Time) int64 { return now.UnixNano() / int64(levels[r.span].step) }

// advance makes the slot of a time the last one. A clock that was set back a little changes the last slot until it has come
// up again; if it was more than that, what was recorded as later is gone. Slots between are gaps, or have only zeros.
func (r *ring) advance(now time.Time, gaps bool) {
	slot, size := r.slot(now), levels[r.span].n
	if r.last-slot > setBack {
		for s := max(slot+1, r.last-size+1); s <= r.last; s++ {
			r.blank(int(s%size), true) // where what is oldest now would be
		}
		r.blank(int(slot%size), false)
		r.last, r.n, r.over, r.sum = slot, 0, 0, [fields]float32{}
		r.first = min(r.first, slot)
	}
	if r.last == 0 || slot-r.last >= size {
		*r = ring{span: r.span, first: slot, last: slot}
	}
	for s := r.last + 1; s <= slot; s++ {
		r.blank(int(s%size), gaps && s < slot)
	}
	if slot > r.last {
		r.last, r.n, r.over, r.sum = slot, 0, 0, [fields]float32{}
	}
}

// blank empties a slot, which may be left so.
func (r *ring) blank(i int, gap bool) {
	for _, codes := range r.codes {
		if codes != nil && codes[i/chunkLen] != nil {
			codes[i/chunkLen][i%chunkLen] = 0
		}
	}
	if gap && r.gaps == nil {
		r.gaps = make([]bool, levels[r.span].n)
	}
	if r.gaps != nil {
		r.gaps[i] = gap
	}
}

func (r *ring) isGap(slot int64) bool { return r.gaps != nil && r.gaps[slot%levels[r.span].n] }

func (r *ring) set(f Field, v float64) {
	c, i := encode(v), r.last%levels[r.span].n
	if r.codes[f] == nil {
		if c == 0 {
			return
		}
		r.codes[f] = make([]*chunk, levels[r.span].n/chunkLen)
	}
	at := &r.codes[f][i/chunkLen]
	if *at == nil {
		if c == 0 {
			return
		}
		*at = new(chunk)
	}
	(*at)[i%chunkLen] = c
}

func (r *ring) get(f Field, slot int64) float64 {
	i := slot % levels[r.span].n
	if r.codes[f] == nil || r.codes[f][i/chunkLen] == nil {
		return 0
	}
	return r.codes[f][i/chunkLen][i%chunkLen].value()
}

// record adds values to the last slot; those that are means are how many there were in so much time. Two looks may be some milliseconds
// apart: less than a second of a slot counts as one.
func (r *ring) record(values *[fields]float64, over time.Duration) {
	r.n++
	r.over += over
	for f := range fields {
		v := values[f]
		if f.isMean() {
			r.sum[f] += float32(v)
			v = float64(r.sum[f]) / max(period, r.over).Seconds()
		} else if r.n > 1 {
			v = max(v, r.get(f, r.last))
		}
		r.set(f, v)
	}
}

// from returns the number of the first slot that is kept.
func (r *ring) from() int64 { return max(r.first, r.last-levels[r.span].n+1) }

func (r *ring) len() int {
	if r.last == 0 {
		return 0
	}
	return int(r.last - r.from() + 1)
}

func (r *ring) values(f Field) []float64 {
	all := make([]float64, r.len())
	for i := range all {
		slot := r.from() + int64(i)
		if r.isGap(slot) {
			all[i] = math.NaN()
		} else {
			all[i] = r.get(f, slot)
		}
	}
	return all
}
