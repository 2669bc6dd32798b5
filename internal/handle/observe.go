package handle

import (
	"sync"

	"github.com/conq-go/conq/internal/staging"
)

// observe tells the handle's observer, if it has one.
func (q *queue) observe(e Event) {
	if q.observer != nil {
		e.Queue = q.name
		q.observer(e)
	}
}

// present is how many callers wait at all ends of a handle.
type present struct {
	sync.Mutex
	callers int
}

// observeWaiting returns a function for one end, which is told how many wait there.
func (q *queue) observeWaiting() func(int) {
	if q.observer == nil {
		return nil
	}
	here := 0
	return func(now int) {
		q.present.Lock()
		defer q.present.Unlock()
		if now == here {
			return
		}
		q.present.callers += now - here
		here = now
		q.observe(Event{Kind: Waiting, Items: q.present.callers})
	}
}

var stagingEvents = map[staging.Kind]EventKind{
	staging.Registered: Requested,
	staging.Fulfilled:  Fulfilled,
	staging.Collected:  Collected,
	staging.Expired:    Expired,
}

func (q *queue) observeStaging() func(staging.Event) {
	if q.observer == nil && q.log == nil {
		return nil
	}
	return func(e staging.Event) {
		if e.Kind == staging.Expired && q.log != nil {
			q.log.Warn("items were put back that a consumer never collected", "queue", q.name, "consumers", e.Requests, "items", e.Items)
		}
		q.observe(Event{Kind: stagingEvents[e.Kind], Calls: e.Requests, Items: e.Items})
	}
}
