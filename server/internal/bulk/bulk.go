// Package bulk does in the background what takes long, as a change of all jobs that match a filter, and tells how far it is
// and what came of it. It is the same for all who ask for it: the API and pages.
package bulk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of a Set.
const (
	maxRunning = 32
	maxKept    = 200 // tasks, those that are over included
)

// Errors of a Set.
var (
	ErrTooMany  = fmt.Errorf("%d tasks are running, and no more can: wait for one to end, or stop one", maxRunning)
	ErrNotFound = errors.New("no such task: it has never been, or is over for long, or this server has been started again")
	errStopped  = errors.New("stopped by an operator")
	errClosed   = errors.New("the server is stopping")
)

// State is how far a task is.
type State string

// The states of a task.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Stopped State = "stopped" // what it had done by then stays
)

// Status is a task at one moment.
type Status struct {
	ID    string
	Queue string // or "" for all of the store
	What  string // it does, as: delete all dead jobs of emails
	By    string // the name of who has started it
	Once  string // another Start with the same starts nothing; "" is none
	State State
	Total int64 // there were about so many to do when it began; -1 if that is not known
	Done  int64
	Began time.Time
	Ended time.Time // zero while it runs
	Undo  string    // what undoes it, in the words of whoever shows it; "" is nothing
	Note  string    // what came of it, if there is more to say than Done
	Err   error
}

// Work is what a task does. It calls progress with how many it has done so far, and returns that in the end, with a note.
type Work func(ctx context.Context, progress func(done int)) (done int, note string, err error)

// Set is the tasks of a server. The zero Set is empty. It is safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	tasks  []*task // in the order in which they began
	closed bool
	group  sync.WaitGroup
}

type task struct {
	status Status // under Set.mu
	stop   context.CancelCauseFunc
	done   chan struct{}
}

// Start begins a task, of which Queue, What, By, Once and Total are given, or returns the one that has begun with the same Once.
// The error is an ErrTooMany if too many run.
func (s *Set) Start(given Status, work Work) (Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Status{}, errClosed
	}
	if i := slices.IndexFunc(s.tasks, func(t *task) bool { return t.status.Once == given.Once }); i >= 0 && given.Once != "" {
		return s.tasks[i].status, nil
	}
	if s.running() >= maxRunning {
		return Status{}, ErrTooMany
	}
	ctx, stop := context.WithCancelCause(context.Background())
	t := &task{status: given, stop: stop, done: make(chan struct{})}
	t.status.ID, t.status.State, t.status.Began = strings.ToLower(rand.Text()[:12]), Running, time.Now()
	s.tasks = append(s.tasks, t)
	s.forget()
	s.group.Go(func() { s.run(ctx, t, work) })
	return t.status, nil
}

func (s *Set) running() (n int) {
	for _, t := range s.tasks {
		if t.status.State == Running {
			n++
		}
	}
	return n
}

// forget drops the oldest tasks that are over.
func (s *Set) forget() {
	for i := 0; len(s.tasks) > maxKept && i < len(s.tasks); {
		if s.tasks[i].status.State == Running {
			i++
			continue
		}
		s.tasks = slices.Delete(s.tasks, i, i+1)
	}
}

func (s *Set) run(ctx context.Context, t *task, work Work) {
	defer close(t.done)
	defer t.stop(nil)
	n, note, err := protect(ctx, work, func(done int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.status.Done = int64(done)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	t.status.Done, t.status.Note, t.status.Ended = int64(n), note, time.Now()
	switch {
	case err == nil:
		t.status.State = Done
	case ctx.Err() != nil:
		t.status.State, t.status.Err = Stopped, context.Cause(ctx)
	default:
		t.status.State, t.status.Err = Failed, err
	}
}

// protect has a panic of a task be its error: the server goes on.
func protect(ctx context.Context, work Work, progress func(int)) (n int, note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return work(ctx, progress)
}

// Get returns a task, or an ErrNotFound.
func (s *Set) Get(id string) (Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(id); t != nil {
		return t.status, nil
	}
	return Status{}, ErrNotFound
}

func (s *Set) find(id string) *task {
	for _, t := range s.tasks {
		if t.status.ID == id {
			return t
		}
	}
	return nil
}

// All returns the tasks, the last one first.
func (s *Set) All() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Status, 0, len(s.tasks))
	for _, t := range slices.Backward(s.tasks) {
		all = append(all, t.status)
	}
	return all
}

// Wait waits until a task is over, or ctx ends, and returns it as it is then.
func (s *Set) Wait(ctx context.Context, id string) (Status, error) {
	s.mu.Lock()
	t := s.find(id)
	s.mu.Unlock()
	if t == nil {
		return Status{}, ErrNotFound
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.status, nil
}

// Stop has a task end before it is done. One that is over stays as it is.
func (s *Set) Stop(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(id)
	if t == nil {
		return ErrNotFound
	}
	t.stop(errStopped)
	return nil
}

// Close stops all tasks, and waits for them. No more can begin.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.tasks {
		t.stop(errClosed)
	}
	s.mu.Unlock()
	s.group.Wait()
}
