package handle

import (
	"sync"

	"github.com/conq-go/conq/internal/staging"
)

// observe tells the handle's observer, if it has one.
func (s *store) observe(e Event) {
	if s.observer != nil {
		e.Queue = s.name
		s.observer(e)
	}
}

// present is how many callers wait at all ends of a handle.
type present struct {
	sync.Mutex
	callers int
}

// observeWaiting returns a function for one end, which is told how many wait there.
func (s *store) observeWaiting() func(int) {
	if s.observer == nil {
		return nil
	}
	here := 0
	return func(now int) {
		s.present.Lock()
		defer s.present.Unlock()
		if now == here {
			return
		}
		s.present.callers += now - here
		here = now
		s.observe(Event{Kind: Waiting, Items: s.present.callers})
	}
}

var stagingEvents = map[staging.Kind]EventKind{
	staging.Registered: Requested,
	staging.Fulfilled:  Fulfilled,
	staging.Collected:  Collected,
	staging.Expired:    Expired,
}

func (s *store) observeStaging() func(staging.Event) {
	if s.observer == nil && s.log == nil {
		return nil
	}
	return func(e staging.Event) {
		if e.Kind == staging.Expired && s.log != nil {
			s.log.Warn("items were put back that a consumer never collected", "queue", s.name, "consumers", e.Requests, "items", e.Items)
		}
		s.observe(Event{Kind: stagingEvents[e.Kind], Calls: e.Requests, Items: e.Items})
	}
}
