package work

import (
	"sync"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// alarm knows when something is due next, and wakes the callers that wait then.
type alarm struct {
	ring func()

	mu     sync.Mutex
	next   int64 // when the next thing is due that is known; 0 is at once
	looked int64 // when the store was asked
	timer  *time.Timer
	news   chan error // of the caller who leads those that wait, where there are no signals
}

// lookAfter is how long what the store has said counts, in microseconds: others schedule jobs, too.
const lookAfter = 100_000

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
}

// sooner notes that something is due at a time.
func (a *alarm) sooner(at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = min(a.next, at)
}

// at returns when the next thing is due that is known.
func (a *alarm) at() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// start has the alarm ring when the next thing is due.
func (a *alarm) start(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == jobs.Never {
		return
	}
	d := max(0, span(a.next-micros(now)+1))
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.ring)
	} else {
		a.timer.Reset(d)
	}
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}

// wait returns what delivers something at the next tell.
func (a *alarm) wait() chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news = make(chan error, 1)
	return a.news
}

// tell has the one look again that waited last: only one leads at a time.
func (a *alarm) tell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.news != nil {
		give(a.news)
	}
}

func give(news chan error) {
	select {
	case news <- nil:
	default: // there is news already
	}
}
