// Package queues opens the queues of a store by name, for servers whose clients name any
// queue at any time.
//
// A [Set] keeps handles open, as callers that share one share transactions, but at most so many:
// beyond that the one that has been idle for longest is closed. Values are bytes, as they are.
//
// [Tasks] do in the background what takes long, as a change of all jobs that match a filter, and tell how far it is and what came
// of it. They are the same for all who ask for them: the API and pages.
package queues

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
	"golang.org/x/sync/errgroup"
)

// Work is a work queue.
type Work = work.Queue[[]byte]

// Mode says what happens to a queue that does not exist.
type Mode int

const (
	Existing Mode = iota // it is a conq.ErrNoQueue
	Create               // it is made
	Later                // it is made with its first job; only for work queues
)

// ErrTooMany means that as many queues are in use at once as may be open.
var ErrTooMany = errors.New("too many queues are in use")

// Options are the choices of a Set.
type Options struct {
	MaxOpen int              // handles at once. Default: 4096
	Observe func(conq.Event) // is told of queues and priority queues, or nil
	Work    work.Options     // of handles of work queues
}

// Set is the queues of a store. It is safe for concurrent use.
type Set struct {
	db      kv.DB
	options Options

	mu      sync.Mutex
	open    map[string]*entry
	idle    *list.List // of *entry, the one that was used last at the back
	closed  bool
	garbage int            // handles that were evicted lately
	closing sync.WaitGroup // handles that were idle
}

// entry is an open queue, or one that is being opened.
type entry struct {
	name   string
	opened chan struct{} // closed when kind, queue and err are set
	kind   conq.Kind
	queue  io.Closer
	err    error
	later  bool // the queue may not be there yet

	// under Set.mu
	users   int
	idle    *list.Element
	since   time.Time // when it became idle
	dropped bool      // it is not in Set.open any more, and closed when its last user has gone
}

// New returns the queues of a store, which stays the caller's.
func New(db kv.DB, o Options) *Set {
	if o.MaxOpen == 0 {
		o.MaxOpen = 4096
	}
	return &Set{db: db, options: o, open: make(map[string]*entry), idle: list.New()}
}

// DB returns the store.
func (s *Set) DB() kv.DB { return s.db }

// All returns the catalogue of the store, by name.
func (s *Set) All(ctx context.Context) ([]conq.Info, error) { return conq.Queues(ctx, s.db) }

// Lookup returns the entry of a queue. The error is a conq.ErrNoQueue if there is none.
func (s *Set) Lookup(ctx context.Context, name string) (conq.Info, error) {
	info, found, err := conq.Lookup(ctx, s.db, name)
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", conq.ErrNoQueue, name)
	}
	return info, err
}

// Kind returns the kind of a queue, from memory if that is open. The error is a conq.ErrNoQueue if there is none.
func (s *Set) Kind(ctx context.Context, name string) (conq.Kind, error) {
	s.mu.Lock()
	var kind conq.Kind
	if h := s.open[name]; h != nil {
		kind = h.kind
	}
	s.mu.Unlock()
	if kind != "" {
		return kind, nil
	}
	info, err := s.Lookup(ctx, name)
	return info.Kind, err
}

// Work returns a work queue, as Items does. Leases end with their handle, so a caller that holds one
// releases the queue after it.
func (s *Set) Work(ctx context.Context, name string, m Mode) (q *Work, release func(), err error) {
	return use(ctx, s, name, m, conq.KindWorkQueue, func() (*Work, error) {
		o := s.options.Work
		o.MakeLater = m == Later
		return work.Open(ctx, s.db, name, conq.Bytes(), o)
	})
}

// Delete deletes a queue of any kind. Who uses a handle of it may go on with that.
func (s *Set) Delete(ctx context.Context, name string) error {
	err := conq.DeleteQueue(ctx, s.db, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[name]; h != nil && err == nil {
		s.drop(h)
	}
	return err
}

// Reconcile drops handles of queues that are not in the store's catalogue any more, or as another kind: others have deleted them. infos
// is the catalogue, by name.
func (s *Set) Reconcile(infos []conq.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.open {
		i, found := slices.BinarySearchFunc(infos, name, func(i conq.Info, name string) int { return cmp.Compare(i.Name, name) })
		if h.kind != "" && (!found && !h.later || found && infos[i].Kind != h.kind) {
			s.drop(h)
		}
	}
}

// Tidy closes handles that have been idle for a while, but for some. It is called every second or so.
func (s *Set) Tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	evicted := 0
	for s.idle.Len() > maxIdle && time.Since(s.idle.Front().Value.(*entry).since) > idleTime {
		s.evict()
		evicted++
	}
	if evicted == 0 && s.garbage > maxIdle {
		s.garbage = 0
		s.closing.Go(debug.FreeOSMemory) // an idle process would keep it for minutes
	}
	s.garbage += evicted
}

// Of handles that were idle for a while, some are kept open.
const (
	maxIdle  = 256
	idleTime = 10 * time.Second
)

// drop has nobody else get a handle. The lock is held.
func (s *Set) drop(h *entry) {
	delete(s.open, h.name)
	h.dropped = true
	if h.idle != nil {
		s.idle.Remove(h.idle)
		h.idle = nil
		s.closing.Go(func() { _ = h.queue.Close() })
	}
}

func use[Q io.Closer](ctx context.Context, s *Set, name string, m Mode, kind conq.Kind, open func() (Q, error)) (q Q, release func(), err error) {
	for {
		h, isNew, err := s.take(ctx, name, m, kind)
		if err != nil {
			return q, nil, err
		}
		if isNew {
			h.later = m == Later // which others see once it is opened
			opened, err := open()
			s.opened(h, kind, opened, err)
		}
		select {
		case <-h.opened:
		case <-ctx.Done():
			s.release(h)
			return q, nil, context.Cause(ctx)
		}
		if h.err == nil && m == Create && s.isLater(h) {
			if h.kind != kind { // nothing is there, so it may be of any kind
				s.mu.Lock()
				if !h.dropped {
					s.drop(h)
				}
				s.mu.Unlock()
				s.release(h)
				continue
			}
			made, err := open() // which makes the queue; those that use the handle go on with it
			if err != nil {
				s.release(h)
				return q, nil, err
			}
			_ = made.Close()
			s.mu.Lock()
			h.later = false
			s.mu.Unlock()
		}
		switch {
		case h.err == nil && h.kind == kind:
			return h.queue.(Q), sync.OnceFunc(func() { s.release(h) }), nil
		case h.err == nil:
			s.release(h)
			return q, nil, wrongKind(name, h.kind, kind)
		case isNew:
			return q, nil, h.err
		} // another caller has failed to open it, perhaps as another kind
	}
}

// isLater tells whether the queue of a handle may not be there yet.
func (s *Set) isLater(h *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.later
}

func wrongKind(name string, is, not conq.Kind) error {
	return fmt.Errorf("%w: %q is a %s, not a %s", conq.ErrKind, name, is, not)
}

// take returns the handle of a name for a caller that uses it, and whether it is for that caller to open it.
func (s *Set) take(ctx context.Context, name string, m Mode, kind conq.Kind) (h *entry, isNew bool, err error) {
	if h, err := s.taken(name); h != nil || err != nil {
		return h, false, err
	}
	if m == Existing {
		info, err := s.Lookup(ctx, name)
		if err == nil && info.Kind != kind {
			err = wrongKind(name, info.Kind, kind)
		}
		if err != nil {
			return nil, false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, err := s.takenLocked(name); h != nil || err != nil {
		return h, false, err
	}
	if len(s.open) >= s.options.MaxOpen && !s.evict() {
		return nil, false, fmt.Errorf("%w: %d, which is the limit", ErrTooMany, len(s.open))
	}
	h = &entry{name: name, opened: make(chan struct{}), users: 1}
	s.open[name] = h
	return h, true, nil
}

func (s *Set) taken(name string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takenLocked(name)
}

// takenLocked returns the handle of a name, which has one more user, or nil if it is not open.
func (s *Set) takenLocked(name string) (*entry, error) {
	if s.closed {
		return nil, conq.ErrClosed
	}
	h := s.open[name]
	if h == nil {
		return nil, nil
	}
	if h.users++; h.idle != nil {
		s.idle.Remove(h.idle)
		h.idle = nil
	}
	return h, nil
}

// opened sets what came of opening a handle. One that failed is forgotten.
func (s *Set) opened(h *entry, kind conq.Kind, q io.Closer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = errors.Join(conq.ErrClosed, q.Close())
	}
	if h.kind, h.queue, h.err = kind, q, err; err != nil && !h.dropped {
		delete(s.open, h.name)
	}
	close(h.opened)
}

func (s *Set) release(h *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.users--
	switch {
	case h.users > 0:
	case h.dropped && h.err == nil && !s.closed:
		s.closing.Go(func() { _ = h.queue.Close() })
	case s.open[h.name] == h:
		h.idle, h.since = s.idle.PushBack(h), time.Now()
	}
}

// evict has the handle closed that has been idle for longest, and tells whether there was one. It does not
// wait for that, which may take seconds on a cluster.
func (s *Set) evict() bool {
	e := s.idle.Front()
	if e == nil {
		return false
	}
	h := s.idle.Remove(e).(*entry)
	delete(s.open, h.name)
	// A close that fails leaves keys of the handle's own behind, which whoever opens the queue removes in time.
	s.closing.Go(func() { _ = h.queue.Close() })
	return true
}

// Close closes all handles. Callers that wait on one return a conq.ErrClosed. A second call does nothing.
func (s *Set) Close() error {
	s.mu.Lock()
	all := s.open
	s.open, s.closed = nil, true
	s.idle.Init()
	s.mu.Unlock()
	var group errgroup.Group
	for _, h := range all {
		group.Go(func() error {
			if <-h.opened; h.err != nil {
				return nil // its caller has been told
			}
			return h.queue.Close()
		})
	}
	err := group.Wait()
	s.closing.Wait()
	return err
}
