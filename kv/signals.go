package kv

import (
	"sync"
	"sync/atomic"
)

// Local is implemented by engines whose stores one process has for itself. Those
// who share a store there can tell each other in memory that something has
// changed, which costs less than a key that is written and watched.
type Local interface {
	// Signals returns the signals of the store, the same each time, or nil if
	// there are none.
	Signals() *Signals
}

// SignalsOf returns the signals of a store, or nil if it has none: then its
// users may be in several processes, or a commit may happen that nobody is told
// of, and they have to watch a key.
func SignalsOf(db DB) *Signals {
	if l := db.Limits(); l.Shared || l.UnknownCommits {
		return nil
	}
	if local, ok := db.(Local); ok {
		return local.Signals()
	}
	return nil
}

// Signals tells those who wait for a topic that there is news of it. The zero
// value is ready for use. It is safe for concurrent use.
//
// No news is missed by those who first call Wait and then look for themselves, if
// Notify is called after what they look for can be seen.
type Signals struct {
	waiting atomic.Int64 // topics, so that Notify is cheap when nobody waits
	mu      sync.Mutex
	topics  map[string]chan error
	closed  bool
}

// Wait returns a channel that is closed at the next Notify of the topic, or at
// Close. All who wait for a topic share it.
func (s *Signals) Wait(topic string) <-chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.topics[topic]
	if news != nil {
		return news
	}
	news = make(chan error)
	if s.closed {
		close(news)
		return news
	}
	if s.topics == nil {
		s.topics = make(map[string]chan error)
	}
	s.topics[topic] = news
	s.waiting.Add(1)
	return news
}

// Notify wakes those who wait for the topic.
func (s *Signals) Notify(topic string) {
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if news := s.topics[topic]; news != nil {
		close(news)
		delete(s.topics, topic)
		s.waiting.Add(-1)
	}
}

// Close wakes all who wait, now and later. An engine calls it when its store
// closes: what they try next tells them.
func (s *Signals) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for topic, news := range s.topics {
		close(news)
		delete(s.topics, topic)
		s.waiting.Add(-1)
	}
}
