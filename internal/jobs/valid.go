package jobs

import (
	"fmt"
	"math"
	"time"
)

// Bounds of what a dump may say. They are those of package work, or wider.
const (
	maxText     = 1024                         // bytes of a key, a unique name, the name of a periodic job
	maxMeta     = 16 << 10                     // bytes of all metadata
	maxTime     = 253_402_300_800_000_000      // the year 10000
	maxDuration = math.MaxInt64 / 1000         // a time.Duration, in microseconds
	maxFailure  = 3*MaxFailureBytes + len("…") // bytes of an error: what is not UTF-8 was replaced
	maxLease    = int64(30 * 24 * time.Hour / time.Microsecond)
)

func isTime(t int64) bool     { return t >= 0 && t <= maxTime }
func isDuration(d int64) bool { return d >= 0 && d <= maxDuration }
func isLease(d int64) bool    { return d >= 0 && d <= maxLease }
func isTimeout(d int64) bool  { return d == NoTimeout || isLease(d) }

// valid returns what can't be of a job that comes from elsewhere.
func (j *Job) valid() error {
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{isTime(j.Place) && isTime(j.Time) && isTime(j.Created), "a time that is not between 1970 and 9999"},
		{j.Attempts >= 0 && j.Attempts <= math.MaxInt32, "a number of attempts that can't be"},
		{j.MaxAttempts >= -1, "a negative number of most attempts"},
		{isLease(j.Lease), "a lease that is not 0 to 30 days"},
		{isTimeout(j.Timeout), "a time limit that is not up to 30 days"},
		{isDuration(j.UniqueFor), "a unique name for a time that can't be"},
		{len(j.Key) <= maxText && len(j.Unique) <= maxText && len(j.Holder) <= maxText, "a key, a unique name or a holder that is too long"},
		{metaBytes(j.Meta) <= maxMeta, "metadata that are too long"},
		{len(j.Failures) <= MaxFailures, "too many failures"},
		{j.State != Blocked || j.Key != "", "no key, and is blocked"},
		{!j.HasSlot || j.Key != "", "no key, and a slot"},
		{j.State != Done || !j.HasSlot, "a slot, and is done"},
		{j.State != Dead || !j.HasSlot, "a slot, and is dead"},
		{!j.Claims || j.State == Dead && j.Unique != "", "a claim as a dead job has it, and is none, or has no unique text"},
	} {
		if !c.ok {
			return fmt.Errorf("job %d has %s", j.ID, c.what)
		}
	}
	for _, f := range j.Failures {
		if !isTime(f.Time) || len(f.Error) > maxFailure || len(f.Holder) > maxText {
			return fmt.Errorf("job %d has a failure that can't be", j.ID)
		}
	}
	return nil
}

func metaBytes(meta map[string]string) (n int) {
	for name, value := range meta {
		n += len(name) + len(value)
	}
	return n
}

// valid returns what can't be of a periodic job that comes from elsewhere.
func (p *Periodic) valid() error {
	switch {
	case !isTime(p.Next) || !isDuration(p.MaxLate):
		return fmt.Errorf("periodic job %q is due at a time that can't be", p.Name)
	case len(p.Job.Key) > maxText || p.Job.MaxAttempts < -1 || !isLease(p.Job.Lease):
		return fmt.Errorf("periodic job %q has a key, a lease or a number of attempts that can't be", p.Name)
	case len(p.Job.Unique) > maxText || !isDuration(p.Job.UniqueFor) || !isTimeout(p.Job.Timeout) || metaBytes(p.Job.Meta) > maxMeta:
		return fmt.Errorf("periodic job %q has a unique name, a time limit or metadata that can't be", p.Name)
	case p.Overlap < RunToo || p.Overlap > Replace || p.Last < 0 || p.Last > MaxID || !isTime(p.LastPut):
		return fmt.Errorf("periodic job %q has an overlap or a last job that can't be", p.Name)
	}
	if _, err := CronTick(p.Spec, p.Next); err != nil {
		return fmt.Errorf("periodic job %q: %w", p.Name, err)
	}
	return nil
}
