package queues

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

// Bounds of Tasks.
const (
	maxRunning = 32
	maxKept    = 200 // tasks, those that are over included
)

// Errors of Tasks.
var (
	ErrTooManyTasks = fmt.Errorf("%d tasks are running, and no more can: wait for one to end, or stop one", maxRunning)
	ErrNoTask       = errors.New("no such task: it has never been, or is over for long, or this server has been started again")
	errStopped      = errors.New("stopped by an operator")
	errClosed       = errors.New("the server is stopping")
)

// TaskState is how far a task is.
type TaskState string

// The states of a task.
const (
	TaskRunning TaskState = "running"
	TaskDone    TaskState = "done"
	TaskFailed  TaskState = "failed"
	TaskStopped TaskState = "stopped" // what it had done by then stays
)

// Task is a task at one moment.
type Task struct {
	ID    string
	Queue string // or "" for all of the store
	What  string // it does, as: delete all dead jobs of emails
	By    string // the name of who has started it
	Once  string // another Start with the same starts nothing; "" is none
	State TaskState
	Total int64 // there were about so many to do when it began; -1 if that is not known
	Done  int64
	Began time.Time
	Ended time.Time // zero while it runs
	Undo  string    // what undoes it, in the words of whoever shows it; "" is nothing
	Note  string    // what came of it, if there is more to say than Done
	Err   error
}

// TaskFunc is what a task does. It calls progress with how many it has done so far, and returns that in the end, with a note.
type TaskFunc func(ctx context.Context, progress func(done int)) (done int, note string, err error)

// Tasks are those of a server. The zero value is empty. It is safe for concurrent use.
type Tasks struct {
	mu     sync.Mutex
	tasks  []*task // in the order in which they began
	closed bool
	group  sync.WaitGroup
}

type task struct {
	status Task // under Tasks.mu
	stop   context.CancelCauseFunc
	done   chan struct{}
}

// Start begins a task, of which Queue, What, By, Once and Total are given, or returns the one that has begun with the same Once.
// The error is an ErrTooManyTasks if too many run.
func (s *Tasks) Start(given Task, work TaskFunc) (Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Task{}, errClosed
	}
	if i := slices.IndexFunc(s.tasks, func(t *task) bool { return t.status.Once == given.Once }); i >= 0 && given.Once != "" {
		return s.tasks[i].status, nil
	}
	if s.running() >= maxRunning {
		return Task{}, ErrTooManyTasks
	}
	ctx, stop := context.WithCancelCause(context.Background())
	t := &task{status: given, stop: stop, done: make(chan struct{})}
	t.status.ID, t.status.State, t.status.Began = strings.ToLower(rand.Text()[:12]), TaskRunning, time.Now()
	s.tasks = append(s.tasks, t)
	s.forget()
	s.group.Go(func() { s.run(ctx, t, work) })
	return t.status, nil
}

func (s *Tasks) running() (n int) {
	for _, t := range s.tasks {
		if t.status.State == TaskRunning {
			n++
		}
	}
	return n
}

// forget drops the oldest tasks that are over.
func (s *Tasks) forget() {
	for i := 0; len(s.tasks) > maxKept && i < len(s.tasks); {
		if s.tasks[i].status.State == TaskRunning {
			i++
			continue
		}
		s.tasks = slices.Delete(s.tasks, i, i+1)
	}
}

func (s *Tasks) run(ctx context.Context, t *task, work TaskFunc) {
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
		t.status.State = TaskDone
	case ctx.Err() != nil:
		t.status.State, t.status.Err = TaskStopped, context.Cause(ctx)
	default:
		t.status.State, t.status.Err = TaskFailed, err
	}
}

// protect has a panic of a task be its error: the server goes on.
func protect(ctx context.Context, work TaskFunc, progress func(int)) (n int, note string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return work(ctx, progress)
}

// Get returns a task, or an ErrNotFound.
func (s *Tasks) Get(id string) (Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(id); t != nil {
		return t.status, nil
	}
	return Task{}, ErrNoTask
}

func (s *Tasks) find(id string) *task {
	for _, t := range s.tasks {
		if t.status.ID == id {
			return t
		}
	}
	return nil
}

// All returns the tasks, the last one first.
func (s *Tasks) All() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Task, 0, len(s.tasks))
	for _, t := range slices.Backward(s.tasks) {
		all = append(all, t.status)
	}
	return all
}

// Wait waits until a task is over, or ctx ends, and returns it as it is then.
func (s *Tasks) Wait(ctx context.Context, id string) (Task, error) {
	s.mu.Lock()
	t := s.find(id)
	s.mu.Unlock()
	if t == nil {
		return Task{}, ErrNoTask
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
func (s *Tasks) Stop(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(id)
	if t == nil {
		return ErrNoTask
	}
	t.stop(errStopped)
	return nil
}

// Close stops all tasks, and waits for them. No more can begin.
func (s *Tasks) Close() {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.tasks {
		t.stop(errClosed)
	}
	s.mu.Unlock()
	s.group.Wait()
}
