package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
)

var (
	// ErrPanicked means that Run panicked, or ended its goroutine, in the batch of this call but in another caller's
	// goroutine. The text has the value. Whether the call took effect is not known, so it is a kv.ErrCommitUnknown.
	ErrPanicked = fmt.Errorf("%w: serving its batch panicked", kv.ErrCommitUnknown)

	errNoRun   = errors.New("batch: Options.Run is nil: it is what serves the calls")
	errContext = errors.New("batch: ctx is nil")
)

// Bounds of a batch where Options sets none.
const (
	defaultMaxCalls = 1_000
	defaultMaxBytes = 1 << 20
)

// Options says what a Batcher does.
type Options[Q, R any] struct {
	// Run serves a batch: it sets Result and Err of each of calls, of which there is at least one. It runs in the goroutine of
	// the leader's caller, and at most in so many as Parallel says at once. It must not call Do of the same Batcher, and must
	// keep neither calls nor what is in it when it returns. Required.
	Run func(calls []*Call[Q, R])

	// Size returns what a request counts towards MaxBytes; less than 0 counts as 0. Its caller calls it once. Default: 0
	// for all.
	Size func(Q) int

	// MaxCalls is how many calls a batch can have. Default, also for less than 1: 1,000.
	MaxCalls int

	// MaxBytes is how large the requests of a batch can be together, by Size. One that is larger has a batch of its own.
	// Default, also for less than 1: 1 MiB.
	MaxBytes int

	// Parallel returns how many batches may be under way at once if there are so many calls, in these and in line. The
	// calls are spread evenly over them. It is called under the lock. Default: always 1. See Eager and Frugal.
	Parallel func(calls int) int

	// Alone has each call run at once, by itself. Then there are no batches. Default: false.
	Alone bool
}

// Far is how many batches of one kind are under way at once where each waits for a network, and not for the others.
const Far = 8

// Eager is an Options.Parallel for up to most batches. A few calls start at once: there may be 4 batches whatever their size, and
// more with 16 calls for each. It suits what conflicts with nothing.
func Eager(most int) func(calls int) int {
	const few, full = 4, 16
	return func(calls int) int { return min(most, max(few, calls/full)) }
}

// Frugal is an Options.Parallel for up to most batches. There are n if there are 4*n*n calls, so batches grow with the
// calls: fewer transactions are less work for the store, and fewer conflicts.
func Frugal(most int) func(calls int) int {
	const full = 4
	return func(calls int) int { return min(most, max(1, int(math.Sqrt(float64(calls/full))))) }
}

// Batcher serves calls in batches, one at a time, or as many as Options.Parallel says. It is safe for concurrent use.
//
//   - Start: a call that finds room for another batch leads it at once. Others wait in line. When a batch is over, the
//     first in line leads the next: it takes all that are in line by then, up to the bounds. A caller runs the
//     batch that its own call is in, and no other.
//   - Order: of arrival, from batch to batch and inside of one. A call that does not fit into a batch is the first of the
//     next, and none overtakes it. So none starves. Of batches at the same time any may be over first.
//   - Cancellation: a context ends its own call only. A call in line leaves at once with its context's cause, and is never
//     run. In a batch, Run decides: see Live and Call.Finish.
//   - Bounds: a batch has at most MaxCalls calls of at most MaxBytes in all. A call that is larger than that goes alone.
//   - Panics: one of Run goes on in the leader's caller. The other calls get ErrPanicked, and the Batcher goes on. So it does
//     when Run ends its goroutine.
//
// Not guaranteed:
//
//   - How many calls share a batch: one that comes late waits for the next.
//   - That the leader's caller returns as soon as its context ends, or its call is finished: it runs the batch to the end,
//     unless Run uses Live.
//   - How many calls wait: each caller is blocked, and that is the only bound.
//   - In which order the calls of a batch take effect: that is up to Run.
type Batcher[Q, R any] struct {
	options Options[Q, R]
	changed func()       // called when calls have come or gone, under the lock; or nil
	stamp   func() int64 // called for each call that comes, under the lock; or nil

	mu      sync.Mutex
	line    linked.List[Call[Q, R]] // in order of arrival
	leader  *Call[Q, R]             // in line, if one forms a batch
	batches int                     // under way
	running int                     // calls in these
	dropped int                     // of these, that Waiters don't count any more
	closed  error

	length atomic.Int32 // of the line, for a look without the lock

	// When a leader's batch was over last:
	lastCalls int // of that batch, or where there can be others beside it, of all that were there
	lastTook  time.Duration
}

// Init makes b, a zero Batcher, an idle one.
func (b *Batcher[Q, R]) Init(options Options[Q, R]) {
	if options.MaxCalls < 1 {
		options.MaxCalls = defaultMaxCalls
	}
	if options.MaxBytes < 1 {
		options.MaxBytes = defaultMaxBytes
	}
	b.options = options
}

// Do has request served in a batch, and returns what Run set. If ctx ends before it is in a batch, the error is ctx's cause;
// if the Batcher was closed by then, the error given to Close.
func (b *Batcher[Q, R]) Do(ctx context.Context, request Q) (R, error) {
	c := &Call[Q, R]{Context: ctx, Request: request}
	if c.Err = b.admit(c); c.Err != nil {
		return c.Result, c.Err
	}
	if b.options.Alone {
		b.options.Run([]*Call[Q, R]{c})
		return c.Result, c.Err
	}
	b.enter(c)
	for !c.is(done) {
		if c.is(leading) {
			b.lead(c)
		} else {
			b.wait(c)
		}
	}
	return c.Result, c.Err
}

// admit returns what is wrong with c from the start, and else measures it.
func (b *Batcher[Q, R]) admit(c *Call[Q, R]) error {
	switch {
	case b.options.Run == nil:
		return errNoRun
	case c.Context == nil:
		return errContext
	}
	if b.options.Size != nil {
		c.size = max(0, b.options.Size(c.Request))
	}
	return nil
}

// enter has c lead, if there is room for a batch, or wait in line.
func (b *Batcher[Q, R]) enter(c *Call[Q, R]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		c.Err = b.closed
		c.become(done)
		return
	}
	if b.stamp != nil {
		c.stamp = b.stamp()
	}
	b.line.Add(&c.place, c)
	b.length.Add(1)
	if b.elect(); c.wake == nil && !c.is(leading) {
		c.wake = make(chan struct{}, 1)
	}
	b.noteChange()
}

// noteChange comes last in whatever calls it, as changed may panic. The lock is held.
func (b *Batcher[Q, R]) noteChange() {
	if b.changed != nil {
		b.changed()
	}
}

// elect has the first in line lead, if there is room for another batch and none forms. The lock is held.
func (b *Batcher[Q, R]) elect() {
	first := b.line.First()
	if first == nil || b.leader != nil || b.batches >= b.parallel(b.running+b.line.Len()) {
		return
	}
	b.leader = first
	first.become(leading)
}

func (b *Batcher[Q, R]) parallel(calls int) int {
	if b.options.Parallel == nil {
		return 1
	}
	return b.options.Parallel(calls)
}

// mostOf returns how many of so many calls a batch has at most.
func (b *Batcher[Q, R]) mostOf(calls int) int {
	if b.options.Parallel == nil {
		return b.options.MaxCalls
	}
	n := b.parallel(calls)
	return min(b.options.MaxCalls, (calls+n-1)/n)
}

// wait returns when something has become of c. Its context ends the wait in line.
func (b *Batcher[Q, R]) wait(c *Call[Q, R]) {
	select {
	case <-c.wake:
	case <-c.Context.Done():
		if !b.leave(c) {
			<-c.wake
		}
	}
}

// leave takes c out of the line. It returns false if c is not there, and then has it woken when it is again.
func (b *Batcher[Q, R]) leave(c *Call[Q, R]) bool {
	cause := context.Cause(c.Context)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.remove(c) {
		c.leaves = true
		return false
	}
	c.Err = cause
	c.state.Store(done)
	b.elect()
	b.noteChange()
	return true
}

// remove tells whether c was in line, and now is not. The lock is held.
func (b *Batcher[Q, R]) remove(c *Call[Q, R]) bool {
	if b.leader == c {
		b.leader = nil
	}
	if !b.line.Remove(&c.place) {
		return false
	}
	b.length.Add(-1)
	return true
}

// abandon has c leave, whose caller does not come back as code of others has panicked: at once, or when its batch is over.
func (b *Batcher[Q, R]) abandon(c *Call[Q, R]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.abandoned = true
	b.remove(c)
	b.elect()
}

// lead forms the batch of first and runs it, unless first does not lead any more by then. Whatever happens, another one leads
// after it.
func (b *Batcher[Q, R]) lead(first *Call[Q, R]) {
	var calls []*Call[Q, R]
	var took time.Duration
	finished := false
	defer func() {
		var panicked any
		if !finished {
			panicked = recover()
			fail(calls, panicked)
			b.abandon(first)
		}
		if calls != nil {
			b.over(calls, took)
		}
		if panicked != nil {
			panic(panicked)
		}
	}()
	if first.Context.Err() != nil && b.leave(first) {
		finished = true
		return
	}
	b.gather()
	if calls = b.form(first); calls != nil {
		took = b.run(calls)
	}
	finished = true
}

// gather lets callers come first that were there when a batch was over last, if there were several.
func (b *Batcher[Q, R]) gather() {
	b.mu.Lock()
	last, took := b.lastCalls, b.lastTook
	b.mu.Unlock()
	if last > 1 {
		GatherPart(took, ForCallers, func() bool { return b.isComplete(last) })
	}
}

// isComplete tells whether so many calls are there as there were last, or enough of them for a batch.
func (b *Batcher[Q, R]) isComplete(last int) bool {
	if b.options.Parallel == nil {
		return int(b.length.Load()) >= last
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.line.Len() >= min(last-b.running, b.mostOf(last))
}

// form returns the batch of first: that, and all in line that fit and are not for other batches. It returns nil if first does
// not lead any more.
func (b *Batcher[Q, R]) form(first *Call[Q, R]) []*Call[Q, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != first {
		return nil
	}
	most := b.mostOf(b.running + b.line.Len())
	calls := b.take(make([]*Call[Q, R], 0, min(most, b.line.Len())), first)
	for left := b.options.MaxBytes - first.size; len(calls) < most; {
		c := b.line.First()
		if c == nil || c.size > left {
			break
		}
		left -= c.size
		calls = b.take(calls, c)
	}
	for _, c := range calls {
		c.leader = first
	}
	b.begin(calls)
	return calls
}

// take moves c from the line into a batch. The lock is held.
func (b *Batcher[Q, R]) take(calls []*Call[Q, R], c *Call[Q, R]) []*Call[Q, R] {
	b.remove(c)
	c.state.Store(running)
	return append(calls, c)
}

// begin begins a batch. The lock is held.
func (b *Batcher[Q, R]) begin(calls []*Call[Q, R]) {
	b.batches++
	b.running += len(calls)
	b.elect()
}

// run serves a batch, and returns how long that took, unless gather will not want to know.
func (b *Batcher[Q, R]) run(calls []*Call[Q, R]) (took time.Duration) {
	if len(calls) > 1 || b.options.Parallel != nil {
		defer func(began time.Time) { took = time.Since(began) }(time.Now())
	}
	if live := unended(calls); len(live) > 0 {
		b.options.Run(live)
	}
	return took
}

// over ends a leader's batch.
func (b *Batcher[Q, R]) over(calls []*Call[Q, R], took time.Duration) {
	b.mu.Lock()
	b.lastCalls, b.lastTook = len(calls), took
	if b.options.Parallel != nil {
		b.lastCalls = b.running + b.line.Len()
	}
	b.end(calls)
}

// end ends a batch. Calls that are to be served by the next one are in line again, before all others; the rest are done. The lock is
// held, and then not any more.
func (b *Batcher[Q, R]) end(calls []*Call[Q, R]) {
	b.batches--
	b.running -= len(calls)
	calls = b.requeue(calls)
	b.dropped = 0
	b.elect()
	if b.changed == nil { // nobody is to know first
		b.mu.Unlock()
		finish(calls)
		return
	}
	defer b.mu.Unlock()
	finish(calls)
	b.changed()
}

func finish[Q, R any](calls []*Call[Q, R]) {
	for _, c := range calls {
		c.Finish()
	}
}

// requeue puts calls in line again that are to be served by the next batch, and returns the others. The lock is held.
func (b *Batcher[Q, R]) requeue(calls []*Call[Q, R]) []*Call[Q, R] {
	isRequeued := func(c *Call[Q, R]) bool { return c.is(requeued) }
	if !slices.ContainsFunc(calls, isRequeued) {
		return calls
	}
	others := slices.DeleteFunc(slices.Clone(calls), isRequeued)
	for _, c := range slices.Backward(calls) {
		switch {
		case !c.is(requeued):
		case b.closed != nil || c.abandoned:
			c.Err = b.closed
			c.become(done)
		default:
			b.line.AddFirst(&c.place, c)
			b.length.Add(1)
			if c.state.Store(inLine); c.leaves {
				c.wakeUp()
			}
		}
	}
	return others
}

// fail gives the calls of a batch that has panicked an error, if Run has not let them go before.
func fail[Q, R any](calls []*Call[Q, R], panicked any) {
	if panicked == nil {
		panicked = "its goroutine was ended"
	}
	err := fmt.Errorf("%w: %v", ErrPanicked, panicked)
	for _, c := range calls {
		if c.is(running) {
			c.Err = err
		}
	}
}

// Close has calls in line, and all that come later, return err. A batch under way is finished, and not waited for. Only the
// first Close counts.
func (b *Batcher[Q, R]) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return
	}
	b.closed = err
	for c := b.line.First(); c != nil; c = b.line.First() {
		b.remove(c)
		c.Err = err
		c.become(done)
	}
	b.noteChange()
}
