package kvext

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Signals wakes callers that wait for news of a topic. The zero value is ready for use. It
// is safe for concurrent use.
//
// A caller that first calls Wait and then looks misses no news, if Notify is called after
// what it looks for can be seen.
type Signals struct {
	waiting atomic.Int64 // topics, so that Notify is cheap when there is no waiter
	mu      sync.Mutex
	topics  map[string]topic
	closed  bool

	suspended, suspensions atomic.Int64
	opening                atomic.Int64
}

// topic is the waiters for one.
type topic struct {
	news   chan error
	waiter any          // one of them
	others map[any]bool // the others; mostly nil
}

// Wait returns a channel that is closed at the next Notify of the topic, or at
// Close. All waiters for a topic share it.
func (s *Signals) Wait(topic string) <-chan error { return s.WaitAs(topic, nil) }

// WaitAs is Wait for a waiter that Others tells from other ones. It is compared with ==.
func (s *Signals) WaitAs(name string, waiter any) <-chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[name]
	if !waited {
		t = topic{news: make(chan error), waiter: waiter}
		if s.closed {
			close(t.news)
			return t.news
		}
		if s.topics == nil {
			s.topics = make(map[string]topic)
		}
		s.topics[name] = t
		s.waiting.Add(1)
	}
	if t.waiter != waiter && !t.others[waiter] {
		if t.others == nil {
			t.others = make(map[any]bool)
			s.topics[name] = t
		}
		t.others[waiter] = true
	}
	return t.news
}

// Forget removes a waiter of WaitAs that will wait no more, which else is remembered until the
// next Notify of the topic.
func (s *Signals) Forget(name string, waiter any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[name]
	switch {
	case !waited:
	case t.waiter != waiter:
		delete(t.others, waiter)
	case len(t.others) == 0:
		s.drop(name)
	default:
		for t.waiter = range t.others {
			break
		}
		delete(t.others, t.waiter)
		s.topics[name] = t
	}
}

// drop ends a topic. The lock is held.
func (s *Signals) drop(name string) {
	delete(s.topics, name)
	s.waiting.Add(-1)
}

// Others tells whether any waiter but this one has called WaitAs for the topic since its last
// Notify, and not Forget. It may have given up meanwhile.
func (s *Signals) Others(topic string, waiter any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[topic]
	return waited && (len(t.others) > 0 || t.waiter != waiter)
}

// Notify wakes all waiters for the topic.
func (s *Signals) Notify(topic string) {
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, waited := s.topics[topic]; waited {
		close(t.news)
		s.drop(topic)
	}
}

// Close wakes all waiters, now and later. An engine calls it when its store closes: what they
// try next tells them.
func (s *Signals) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for name, t := range s.topics {
		close(t.news)
		s.drop(name)
	}
}

// Suspend has Epoch return 0 until resume is called, once, and another number from then on than before. What users remember of the
// store may change meanwhile.
func (s *Signals) Suspend() (resume func()) {
	s.suspended.Add(1)
	return func() {
		s.suspensions.Add(1)
		s.suspended.Add(-1)
	}
}

// Epoch returns a number that is the same as long as nobody calls Suspend, or 0 between that and the end of it.
func (s *Signals) Epoch() int64 {
	if s.suspended.Load() > 0 {
		return 0
	}
	return 1 + s.suspensions.Load() // which comes first in resume
}

// Opening returns a random number from 1 to 2^31-1 that is the same each time, and another one, as good as surely, for each opening of
// the store.
func (s *Signals) Opening() int64 {
	s.opening.CompareAndSwap(0, 1+rand.Int64N(math.MaxInt32))
	return s.opening.Load()
}
