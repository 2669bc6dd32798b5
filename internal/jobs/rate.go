package jobs

import "github.com/conq-go/conq/kv"

// Rate is at most N starts in any Period, in microseconds, by the generic cell rate algorithm
// (ITU-T I.371): one integer is kept, the theoretical arrival time. The zero Rate is no limit.
type Rate struct {
	N, Period int64
}

func (r Rate) limits() bool { return r.N > 0 && r.Period > 0 }

// each is how far starts are apart once there was a burst.
func (r Rate) each() int64 { return (r.Period-1)/r.N + 1 }

// burst is by how much an arrival time may be ahead for a job to start: so N start at once. Nobody starts 2^40.
func (r Rate) burst() int64 { return (min(r.N, 1<<40) - 1) * r.each() }

// clamp returns an arrival time as it can be now: it is later only if the clock was set back, or the rate was another
// one, and then starts go on as after a burst. What it returns has to be kept for that.
func (r Rate) clamp(arrival, now int64) int64 {
	if !r.limits() {
		return arrival
	}
	return min(arrival, now+r.burst()+r.each())
}

// start returns when a job may start that wants to now, and the arrival time to keep if it
// does so then.
func (r Rate) start(arrival, now int64) (at, next int64) {
	if !r.limits() {
		return now, arrival
	}
	arrival = max(now, r.clamp(arrival, now))
	return max(now, arrival-r.burst()), arrival + r.each()
}

// allowed returns how many of n jobs may start now, when the next one may if those are fewer, and the
// arrival time to keep.
func (r Rate) allowed(arrival, now int64, n int) (count int, next int64, keep int64) {
	for keep = arrival; count < n; count++ {
		at, after := r.start(keep, now)
		if at > now {
			return count, at, keep
		}
		keep = after
	}
	return count, 0, keep
}

// loadInt reads an integer, 0 if there is none.
func loadInt(r kv.Reader, key []byte) (i int64, err error) {
	value, err := r.Get(key)
	if err != nil || value == nil {
		return 0, err
	}
	err = decodeInts(key, value, &i)
	return i, err
}
