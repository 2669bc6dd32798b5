package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// clock is what a handle knows of the time: when something is due, and whom to wake.
type clock struct {
	*alarm

	mu      sync.Mutex
	watches map[chan error]struct{} // of those who lead callers that wait, where there are no signals
}

// alarm knows when something is due next in a queue, for all handles of this process. It has that done as long as one of
// them keeps it, that is, has reserved.
type alarm struct {
	keeper *keeper
	queue  string

	mu      sync.Mutex
	users   int   // handles
	next    int64 // when the next thing is due that is known; 0 is at once
	wake    int64 // when callers that wait are to look again, for a rate
	looked  int64 // when the store was asked
	stale   bool  // something has changed since
	ticks   bool  // there are periodic jobs
	seen    int64 // the time at the last pass of the keeper
	heal    int64 // when periodic jobs are looked at again
	keeping []*engine
	timer   *time.Timer
	ringing bool
	gone    bool // the keeper has forgotten it; only a transaction of a closed handle has it still

	orphans   sync.Mutex // while they are looked for
	noOrphans bool       // that was done
}

const (
	// lookAfter is how long what the store has said counts, in microseconds: others schedule jobs, too.
	lookAfter = 100_000
	// healAfter is how often periodic jobs are looked at whether they are due too far away, likewise.
	healAfter = 600_000_000
	second    = 1_000_000
)

// due tells whether to look at what is due.
func (a *alarm) due(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now >= a.next || now >= a.looked+lookAfter || now < a.looked
}

// set notes when the next thing is due.
func (a *alarm) set(now, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked, a.next = now, next
	a.arm(now)
}

// lookedAt is set, with what else was seen.
func (a *alarm) lookedAt(now, next int64, ticks bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked, a.next, a.ticks = now, next, ticks
	a.arm(now)
}

// sooner notes that something is due at a time.
func (a *alarm) sooner(at int64) {
	a.mu.Lock()
	if at < a.next {
		a.next = at
		a.armNow()
	}
	gone := a.gone
	a.mu.Unlock()
	if gone {
		a.keeper.remember(a.queue)
	}
}

// wakeAt notes that callers that wait are to look again at a time.
func (a *alarm) wakeAt(at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at < a.wake {
		a.wake = at
		a.armNow()
	}
}

// touch notes that something may be due sooner than is known.
func (a *alarm) touch() {
	a.mu.Lock()
	a.stale = true
	gone := a.gone
	a.mu.Unlock()
	if gone {
		a.keeper.remember(a.queue)
	}
}

// armNow is arm at this time. The lock is held.
func (a *alarm) armNow() {
	if len(a.keeping) > 0 {
		a.arm(micros(a.keeping[0].now()))
	}
}

// arm has the alarm ring when the next thing is due, if that is within a second. What is later the keeper sees in time, also
// when the clock steps. The lock is held.
func (a *alarm) arm(now int64) {
	next := min(a.next, a.wake)
	if len(a.keeping) == 0 || a.looked == 0 || next > now+second {
		return
	}
	d := max(0, span(next-now+1))
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.ring)
	} else {
		a.timer.Reset(d)
	}
}

// ring has done what is due, and callers look again that wait.
func (a *alarm) ring() {
	a.mu.Lock()
	if a.ringing || len(a.keeping) == 0 {
		a.mu.Unlock()
		return
	}
	e := a.keeping[0]
	now := micros(e.now())
	due := a.next <= now
	if a.wake <= now {
		a.wake = jobs.Never
	} else if !due {
		a.arm(now) // the clock has been set back, or something was due sooner
		a.mu.Unlock()
		return
	}
	a.ringing = true
	e.background.Add(1)
	a.mu.Unlock()

	defer e.background.Done()
	if due {
		a.keeper.do(func() { e.keepUp() })
	}
	a.mu.Lock()
	a.ringing = false
	waking := slices.Clone(a.keeping)
	if now = micros(e.now()); min(a.next, a.wake) > now {
		a.arm(now)
	} // else it has failed, and the keeper tries it again
	a.mu.Unlock()
	for _, e := range waking {
		e.wake()
	}
}

// keep has the alarm ring for a handle, from now on.
func (a *alarm) keep(e *engine) {
	a.keeper.begin()
	a.mu.Lock()
	keeps := !e.closed.Load()
	if keeps {
		a.keeping = append(a.keeping, e)
		a.arm(micros(e.now()))
	}
	a.mu.Unlock()
	if !keeps {
		a.keeper.end()
	}
}

// leave ends the use by a handle, and waits for what it does.
func (a *alarm) leave(e *engine) {
	a.mu.Lock()
	kept := slices.Contains(a.keeping, e)
	a.keeping = slices.DeleteFunc(a.keeping, func(k *engine) bool { return k == e })
	if len(a.keeping) == 0 {
		a.wake = jobs.Never // nobody waits
		if a.timer != nil {
			a.timer.Stop()
		}
	}
	a.mu.Unlock()
	e.background.Wait()
	a.keeper.leave(a, kept)
}

// tells has each tell deliver something to watch, until ctx ends.
func (c *clock) tells(ctx context.Context, watch chan error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches == nil {
		c.watches = make(map[chan error]struct{})
	}
	c.watches[watch] = struct{}{}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, watch)
	})
}

// tell has those look again who lead callers that wait.
func (c *clock) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for watch := range c.watches {
		give(watch)
	}
}

func give(watch chan error) {
	select {
	case watch <- nil:
	default: // it has something already
	}
}
