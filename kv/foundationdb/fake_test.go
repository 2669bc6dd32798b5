package foundationdb

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
)

// fake is a cluster in memory, as the client library shows one: versions, conflict
// ranges, watches by value, and errors by number. It knows of the engine nothing but
// the interface client.
type fake struct {
	mu      sync.Mutex
	data    *state
	version int64
	commits []fakeCommit
	times   []time.Time      // of each version from 1 on
	past    map[int64]*state // versions that were read
	watches []*fakeWatch
	offset  time.Duration // of the clock

	// inject, if set, gives the number of the error that an operation fails with, or 0.
	// Operations are "version", "get", "range", "conflict", "commit", "watch" and
	// "begin". It is called with the lock held.
	inject func(op string) int
	// late makes a commit that inject has given an error happen all the same.
	late func() bool
	// stuck makes the cluster answer nothing until what was asked is cancelled.
	stuck atomic.Bool

	begun, pauses atomic.Int64
	waiting       atomic.Int64 // futures that are not ready
	ranges        []fakeRange  // that were asked for
}

type fakeRange struct {
	limit   int
	reverse bool
}

type state = btree.Map[string, string]

type fakeCommit struct {
	version int64
	wrote   []fakeSpan
}

type fakeSpan struct{ begin, end string }

func (s fakeSpan) meets(o fakeSpan) bool { return max(s.begin, o.begin) < min(s.end, o.end) }

type fakeWatch struct {
	key   string
	value *string
	f     *fakeFuture[struct{}]
}

// fakeError is an error of the library.
type fakeError int

func (e fakeError) Error() string { return fmt.Sprintf("fake error %d", int(e)) }

func newFake() *fake {
	f := &fake{data: new(state), version: 1, past: map[int64]*state{}}
	f.times = append(f.times, f.now())
	return f
}

func (f *fake) now() time.Time { return time.Now().Add(f.offset) }

func (f *fake) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offset += d
}

func (f *fake) code(err error) int {
	if e, ok := err.(fakeError); ok {
		return int(e)
	}
	return 0
}

func (f *fake) failWith(inject func(op string) int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = inject
}

// fail returns the error that op has to fail with. The lock is held.
func (f *fake) fail(op string) error {
	if f.inject != nil {
		if code := f.inject(op); code != 0 {
			return fakeError(code)
		}
	}
	return nil
}

func (f *fake) begin() (transaction, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun.Add(1)
	if err := f.fail("begin"); err != nil {
		return nil, err
	}
	return &fakeTx{f: f}, nil
}

// fakeFuture is ready when done is closed.
type fakeFuture[T any] struct {
	f     *fake
	done  chan struct{}
	once  sync.Once
	value T
	err   error

	answer func() (T, error) // of one that is answered when it is waited for
}

func (f *fakeFuture[T]) Get() (T, error) {
	if f.answer != nil {
		f.f.mu.Lock()
		select {
		case <-f.done: // cancelled
		default:
			f.resolve(f.answer())
		}
		f.f.mu.Unlock()
	}
	<-f.done
	return f.value, f.err
}

func (f *fakeFuture[T]) Cancel() { f.resolve(*new(T), fakeError(codeOperationCancelled)) }

func (f *fakeFuture[T]) resolve(value T, err error) {
	f.once.Do(func() {
		f.value, f.err = value, err
		f.f.waiting.Add(-1)
		close(f.done)
	})
}

func newFuture[T any](f *fake) *fakeFuture[T] {
	f.waiting.Add(1)
	return &fakeFuture[T]{f: f, done: make(chan struct{})}
}

// fakeTx is a transaction of the library.
type fakeTx struct {
	f *fake

	// Under f.mu.
	version   int64 // 0 for none
	data      *state
	cancelled bool
	changed   bool // the cluster's version: it is of a client library that does not fit any more
	absent    bool // there was no client library that fits it: it can't be cancelled
	committed bool
	writes    []fakeWrite
	size      int // of the writes, as sent
	reads     []fakeSpan
	wrote     []fakeSpan
	pending   []func(error) // what is waited for
	watches   []*fakeWatch
}

type fakeWrite func(*state)

// ask answers with what answer returns, under the lock; or, of a cluster that is
// stuck, not before the transaction is cancelled.
func ask[T any](t *fakeTx, answer func() (T, error)) *fakeFuture[T] {
	future := newFuture[T](t.f)
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	var none T
	switch {
	case t.cancelled:
		future.resolve(none, fakeError(codeCancelled))
	case t.f.stuck.Load():
		t.pending = append(t.pending, func(err error) { future.resolve(none, err) })
	case t.absent:
		future.resolve(none, fakeError(codeClusterVersion))
	default:
		future.resolve(answer())
	}
	return future
}

// fail is that of the cluster. When the cluster's version has changed, all that the transaction
// is asked for fails, its version too, until onError (in the library, what abortableFuture does for
// MultiVersionTransaction).
func (t *fakeTx) fail(op string) error {
	if t.changed {
		return fakeError(codeClusterVersion)
	}
	err := t.f.fail(op)
	t.changed = err == fakeError(codeClusterVersion)
	return err
}

// retryable are the errors after which the library has one try again.
var retryable = []int{1007, 1009, 1020, 1021, 1037, 1038, 1039, 1042, 1051, 1078, 1213, 1223}

func (t *fakeTx) onError(code int) future[struct{}] {
	if code == codeClusterVersion { // which nobody is asked about
		t.f.mu.Lock()
		defer t.f.mu.Unlock()
		t.f.pauses.Add(1)
		t.abandon()
		*t = fakeTx{f: t.f, absent: t.f.stuck.Load()}
		done := newFuture[struct{}](t.f)
		done.resolve(struct{}{}, nil)
		return done
	}
	return ask(t, func() (struct{}, error) {
		if !slices.Contains(retryable, code) {
			t.cancelled = true
			return struct{}{}, fakeError(code)
		}
		t.f.pauses.Add(1)
		t.abandon()
		*t = fakeTx{f: t.f}
		return struct{}{}, nil
	})
}

// abandon ends all that is waited for. The lock is held.
func (t *fakeTx) abandon() {
	t.end()
	for _, w := range t.watches {
		w.f.resolve(struct{}{}, fakeError(codeCancelled))
	}
	t.watches = nil
}

// end ends all that is waited for but watches. The lock is held.
func (t *fakeTx) end() {
	for _, end := range t.pending {
		end(fakeError(codeCancelled))
	}
	t.pending = nil
}

// cancel leaves watches alone, as the library does until the transaction is destroyed.
func (t *fakeTx) cancel() {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if !t.absent {
		t.cancelled = true
		t.end()
	}
}
