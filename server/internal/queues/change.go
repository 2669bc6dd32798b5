package queues

import (
	"cmp"
	"context"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// Verb is what is done to each of many jobs.
type Verb string

// The verbs.
const (
	Retry        Verb = "retry" // dead ones only
	Kick         Verb = "kick"
	Delete       Verb = "delete"
	Cancel       Verb = "cancel"
	Bury         Verb = "bury"
	Reprioritise Verb = "reprioritise"
	EndLeases    Verb = "end-leases"
	Count        Verb = "count" // changes nothing
)

const buriedText = "buried by an operator"

// Change is what is done to all jobs that match.
type Change struct {
	Verb     Verb
	Filter   work.Filter
	Priority int64  // of Reprioritise
	Reason   string // of Bury; "" is that an operator did it
}

var verbs = map[Verb]func(q *Work, ctx context.Context, f work.Filter, progress func(int)) (int, error){
	Retry: (*Work).KickAll, Kick: (*Work).KickAll, Delete: (*Work).DeleteAll, Cancel: (*Work).CancelAll,
	EndLeases:    (*Work).EndLeases,
	Count:        (*Work).Count,
	Bury:         nil, // has a reason
	Reprioritise: nil, // has a priority
}

// do carries a change out.
func (c Change) do(ctx context.Context, q *Work, progress func(int)) (int, error) {
	switch c.Verb {
	case Reprioritise:
		return q.ReprioritiseAll(ctx, c.Filter, c.Priority, progress)
	case Bury:
		return q.BuryAll(ctx, c.Filter, cmp.Or(c.Reason, buriedText), progress)
	}
	return verbs[c.Verb](q, ctx, c.Filter, progress)
}

// Check returns what is wrong with a change, and completes it.
func (c *Change) Check() error {
	if _, known := verbs[c.Verb]; !known {
		return fmt.Errorf("%w: %.40q can't be done to jobs: it is retry, kick, delete, cancel, bury, reprioritise, end-leases or count", kv.ErrInvalid, c.Verb)
	}
	if c.Verb == Retry {
		if c.Filter.State != 0 && c.Filter.State != work.Dead {
			return fmt.Errorf("%w: %v jobs can't be retried: only dead ones; kick makes scheduled ones ready, too", kv.ErrInvalid, c.Filter.State)
		}
		c.Filter.State = work.Dead
	}
	if c.Verb == EndLeases {
		c.Filter.State = work.Leased
	}
	return nil
}

// OfAll tells whether no condition says which jobs, once the change is complete.
func (c *Change) OfAll() bool {
	f := c.Filter
	f.Reverse = false
	return f == work.Filter{}
}

// Of returns how many jobs the change can be of at most, as counted by state.
func (c *Change) Of(s work.Stats) int64 {
	byState := map[work.State]int64{
		work.Ready: s.Ready, work.Scheduled: s.Scheduled, work.Leased: s.Leased, work.Blocked: s.Blocked, work.Dead: s.Dead, work.Done: s.Done,
	}
	if c.Filter.State != 0 {
		return byState[c.Filter.State]
	}
	if c.Verb == Kick {
		return s.Dead + s.Scheduled
	}
	all := int64(0)
	for _, n := range byState {
		all += n
	}
	return all
}

// Jobs begins to change jobs of a queue, which has to exist. Of the status Queue and By are given, and What or nothing.
func (s *Tasks) Jobs(ctx context.Context, set *Set, given Task, c Change) (Task, error) {
	if err := c.Check(); err != nil {
		return Task{}, err
	}
	q, release, err := set.Work(ctx, given.Queue, Existing)
	if err != nil {
		return Task{}, err
	}
	stats, err := q.Stats(ctx)
	if err != nil {
		release()
		return Task{}, err
	}
	if given.Total = c.Of(stats); given.What == "" {
		given.What = c.String()
	}
	status, err := s.Start(given, func(ctx context.Context, progress func(int)) (int, string, error) {
		defer release()
		n, err := c.do(ctx, q, progress)
		return n, "", err
	})
	if err != nil {
		release()
	}
	return status, err
}

// String says what is done, as: delete jobs: dead, that contain "timeout".
func (c Change) String() string {
	what := string(c.Verb)
	if c.Verb == Reprioritise {
		what = fmt.Sprintf("%s to %d", c.Verb, c.Priority)
	}
	return fmt.Sprintf("%s jobs: %v", what, c.Filter)
}
