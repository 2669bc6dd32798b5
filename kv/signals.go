package kv

import (
	"sync"
	"sync/atomic"
	"time"
)

// Signals tells those who wait for a topic that there is news of it. The zero
// value is ready for use. It is safe for concurrent use.
//
// No news is missed by those who first call Wait and then look for themselves, if
// Notify is called after what they look for can be seen.
type Signals struct {
	waiting atomic.Int64 // topics, so that Notify is cheap when nobody waits
	mu      sync.Mutex
	topics  map[string]topic
	soon    map[string]bool // topics of which NotifyAfter will tell
	closed  bool
}

// topic is those who wait for one.
type topic struct {
	news   chan error
	who    any          // one of them
	others map[any]bool // the others; mostly nil
}

// Wait returns a channel that is closed at the next Notify of the topic, or at
// Close. All who wait for a topic share it.
func (s *Signals) Wait(topic string) <-chan error { return s.WaitAs(topic, nil) }

// WaitAs is Wait for somebody whom Others tells from others. who is compared with ==.
func (s *Signals) WaitAs(name string, who any) <-chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[name]
	if !waited {
		t = topic{news: make(chan error), who: who}
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
	if t.who != who && !t.others[who] {
		if t.others == nil {
			t.others = make(map[any]bool)
			s.topics[name] = t
		}
		t.others[who] = true
	}
	return t.news
}

// Forget is to be called by who has waited for the topic by WaitAs and will wait no more:
// else there is a trace of him until its next Notify.
func (s *Signals) Forget(name string, who any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[name]
	switch {
	case !waited:
	case t.who != who:
		delete(t.others, who)
	case len(t.others) == 0:
		s.drop(name)
	default:
		for t.who = range t.others {
			break
		}
		delete(t.others, t.who)
		s.topics[name] = t
	}
}

// drop ends a topic. The lock is held.
func (s *Signals) drop(name string) {
	delete(s.topics, name)
	s.waiting.Add(-1)
}

// Others tells whether anybody but who has begun to wait for the topic since its last
// Notify, and has not called Forget. He may have given up meanwhile.
func (s *Signals) Others(topic string, who any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, waited := s.topics[topic]
	return waited && (len(t.others) > 0 || t.who != who)
}

// Notify wakes those who wait for the topic.
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

// NotifyAfter has Notify called for the topic after d, once for all who ask for that until then,
// each of whom may be woken to ask again.
func (s *Signals) NotifyAfter(topic string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.soon[topic] || s.closed {
		return
	}
	if s.soon == nil {
		s.soon = make(map[string]bool)
	}
	s.soon[topic] = true
	time.AfterFunc(d, func() {
		s.mu.Lock()
		delete(s.soon, topic)
		s.mu.Unlock()
		s.Notify(topic)
	})
}

// Close wakes all who wait, now and later. An engine calls it when its store
// closes: what they try next tells them.
func (s *Signals) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for name, t := range s.topics {
		close(t.news)
		s.drop(name)
	}
}
