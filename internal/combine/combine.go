// Package combine lets concurrent calls share work: calls that come while a batch
// is being served form the next one, which is then served as a whole. It is how
// the concurrent callers of a queue's handle share transactions, and knows of
// neither.
//
// It is group commit without a committer: the batch is run by one of its own
// callers. So there is no goroutine to start, to stop or to wait for, and a lone
// caller pays no switch of goroutines.
//
// # Invariants
//
//   - A call leads from when it finds room for another batch, or is woken to lead, until
//     its batch is over. There are never more leaders than Options.Parallel.
//   - One leader at a time forms its batch. While none does, and there is room for another
//     batch, nobody waits.
//   - A call is in the list of those that wait or out of it, and what takes it
//     out (a leader that takes it into its batch, one that makes it the next
//     leader, its context, Close) does so under the lock. So each call that
//     waited is woken once for that, or left by itself.
//   - The lock is never held while code of others runs: Run, Size, or the
//     methods of a context.
package combine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/gather"
	"github.com/conq-go/conq/internal/linked"
)

var (
	// ErrPanicked means that Run panicked, or ended its goroutine, in the batch of
	// this call but in another caller's goroutine. The text has the value. Whether
	// the call took effect is not known.
	ErrPanicked = errors.New("combine: serving the batch panicked")

	errNoRun   = errors.New("combine: Options.Run is nil: it is what serves the calls")
	errContext = errors.New("combine: ctx is nil")
)

// Bounds of a batch where Options sets none.
const (
	defaultMaxCalls = 1_000
	defaultMaxBytes = 1 << 20
)

// Options says what a combiner does.
type Options[Q, R any] struct {
	// Run serves a batch: it sets Result and Err of each of calls, of which there
	// is at least one. It runs in the goroutine of the caller that leads the batch,
	// and never more than Parallel times at once. It must not call Do of the same combiner, and must keep
	// neither calls nor what is in it when it returns. Required.
	Run func(calls []*Call[Q, R])

	// Size returns what a request counts towards MaxBytes; less than 0 counts as
	// 0. It is called once for each call, by its caller. Default: 0 for all.
	Size func(Q) int

	// MaxCalls is how many calls a batch can have. Default, also for less than 1: 1,000.
	MaxCalls int

	// MaxBytes is how large the requests of a batch can be together, by Size. One
	// that is larger has a batch of its own. Default, also for less than 1: 1 MiB.
	MaxBytes int

	// Parallel is how many batches can be under way at the same time. The calls that are there
	// are shared out evenly to as many. Default, also for less than 1: 1.
	Parallel int

	// Full says when several batches are under way at the same time: n of them if there are Full*n*n calls or more, so that batches
	// grow with the callers. Default, also for less than 1: up to 4 batches at once, and more only with 16 calls for each.
	Full int
}

// Of the batches that may be under way at the same time, more than fewBatches are only for many calls,
// fullBatch for each: fewer transactions are less work for the store.
const (
	fewBatches = 4
	fullBatch  = 16
)

// Combiner serves calls in batches, one at a time, or as many as Options.Parallel says. It is
// safe for concurrent use.
//
//   - Start: a call that finds room for another batch is served at once, alone, in its
//     caller's goroutine. Others wait while as many batches are served as can be. When one
//     was, the call that waited longest leads the next: its caller's goroutine takes all
//     that wait by then, up to the bounds, and runs them. A caller runs the batch
//     that its own call is in, and no other.
//   - Order: of arrival, from batch to batch and inside of one. A call that does
//     not fit into a batch is the first of the next, and none overtakes it. So none
//     starves: a call waits for no call that came after it, except for those in
//     its own batch. Of batches at the same time any may be over first.
//   - Cancellation: a context ends its own call only. A call that is not yet in a
//     batch leaves at once with its context's cause and is never run, nor is one
//     whose context had ended when the batch was taken. Once it is in a batch, Run
//     decides: it sees Call.Context, and can let one caller go before the others
//     (Wanted, Call.Return), also the one that leads, with the rest of the batch
//     left to the next (Attend).
//   - Bounds: a batch has at most MaxCalls calls of at most MaxBytes in all. A call
//     that is larger than that goes alone.
//   - Panics: one of Run goes on in the caller that led the batch. The others of
//     the batch get ErrPanicked, and the combiner goes on. So it does when Run ends its
//     goroutine.
//
// Not guaranteed:
//
//   - How many calls share a batch: one that comes late waits for the next.
//   - That the leader of a batch returns as soon as its context ends, or its call is
//     dealt with: it runs the batch to the end, unless Run uses Attend.
//   - How many calls wait: each caller is blocked, and that is the only bound.
//   - In which order the calls of a batch take effect: Run gets them in order of
//     arrival, and the rest is up to it.
type Combiner[Q, R any] struct {
	options Options[Q, R]

	mu      sync.Mutex
	leaders int
	forming bool                    // a leader has not taken its batch yet
	running int                     // calls of batches under way
	waiting linked.List[Call[Q, R]] // in order of arrival
	closed  error

	// When a batch was over last:
	lastCalls int // of that batch, or where there can be others beside it, of all that were there
	lastTook  time.Duration
}

// Init makes l, a zero Combiner, an idle combiner.
func (l *Combiner[Q, R]) Init(options Options[Q, R]) {
	if options.MaxCalls < 1 {
		options.MaxCalls = defaultMaxCalls
	}
	if options.MaxBytes < 1 {
		options.MaxBytes = defaultMaxBytes
	}
	options.Parallel = max(options.Parallel, 1)
	l.options = options
}

// Do has request served in a batch, and returns what Run set. If ctx ends before
// it is in a batch, the error is ctx's cause; if the combiner was closed by then, the
// error given to Close.
func (l *Combiner[Q, R]) Do(ctx context.Context, request Q) (R, error) {
	c := &Call[Q, R]{Context: ctx, Request: request}
	if c.Err = l.admit(c); c.Err != nil {
		return c.Result, c.Err
	}
	s := l.enter(c)
	if s == waits {
		s = l.wait(c)
	}
	if s == lead {
		l.lead(c)
	}
	return c.Result, c.Err
}

// admit returns what is wrong with c from the start, and else measures it.
func (l *Combiner[Q, R]) admit(c *Call[Q, R]) error {
	switch {
	case l.options.Run == nil:
		return errNoRun
	case c.Context == nil:
		return errContext
	}
	if l.options.Size != nil {
		c.size = max(0, l.options.Size(c.Request))
	}
	return nil
}

// enter makes c a leader, if there is room for a batch, or has it wait.
func (l *Combiner[Q, R]) enter(c *Call[Q, R]) signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		c.Err = l.closed
		return done
	case !l.forming && l.waiting.Len() == 0 && l.room(l.running+1):
		l.leaders++
		l.forming = true
		return lead
	}
	c.wake = make(chan signal, 1)
	l.waiting.Add(&c.place, c)
	l.form()
	return waits
}

// wait returns what c is woken for. Its context wakes it while it is in no batch.
func (l *Combiner[Q, R]) wait(c *Call[Q, R]) signal {
	select {
	case s := <-c.wake:
		return s
	case <-c.Context.Done():
	}
	if !l.leave(c) {
		return <-c.wake
	}
	c.Err = context.Cause(c.Context)
	return done
}

// leave tells whether c still waited, and now does not.
func (l *Combiner[Q, R]) leave(c *Call[Q, R]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Remove(&c.place)
}

// lead serves the batch that begins with first, and passes the lead on, whatever
// happens.
func (l *Combiner[Q, R]) lead(first *Call[Q, R]) {
	var batch []*Call[Q, R]
	var took time.Duration
	finished := false
	defer func() {
		var panicked any
		if !finished {
			panicked = recover()
			fail(batch, panicked)
		}
		calls := len(batch)
		batch = l.putOff(batch)
		l.over(calls, took)
		for _, c := range batch {
			c.Return()
		}
		if panicked != nil {
			panic(panicked)
		}
	}()
	ended := context.Cause(first.Context)
	if ended == nil {
		l.gather()
	}
	batch, first.Err = l.take(first, ended)
	took = l.run(batch)
	finished = true
}

// run serves a batch, and returns how long that took, unless gather will not want to know.
func (l *Combiner[Q, R]) run(batch []*Call[Q, R]) (took time.Duration) {
	if len(batch) > 1 || l.options.Parallel > 1 {
		defer func(began time.Time) { took = time.Since(began) }(time.Now())
	}
	if wanted := Wanted(batch); len(wanted) > 0 {
		l.options.Run(wanted)
	}
	return took
}

// take returns the next batch, unless first has ended: that, and all that wait, fit, and are not for
// other batches.
func (l *Combiner[Q, R]) take(first *Call[Q, R], ended error) ([]*Call[Q, R], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.form()
	l.forming = false
	switch {
	case ended != nil:
		return nil, ended
	case l.closed != nil:
		return nil, l.closed
	}
	first.leader = first
	most := l.share(l.running + 1 + l.waiting.Len())
	batch := append(make([]*Call[Q, R], 0, min(most, 1+l.waiting.Len())), first)
	bytes := first.size
	for c := l.waiting.First(); c != nil; c = l.waiting.First() {
		if len(batch) == most || c.size > l.options.MaxBytes-bytes {
			break
		}
		l.waiting.Remove(&c.place)
		c.leader = first
		batch = append(batch, c)
		bytes += c.size
	}
	l.running += len(batch)
	return batch, nil
}

// room tells whether there may be another batch, if there are so many calls. The lock is held.
func (l *Combiner[Q, R]) room(all int) bool { return l.leaders < l.parallel(all) }

// parallel returns how many batches so many calls may have at the same time.
func (l *Combiner[Q, R]) parallel(all int) int {
	if l.options.Full > 0 {
		return min(l.options.Parallel, max(1, int(math.Sqrt(float64(all/l.options.Full)))))
	}
	return min(l.options.Parallel, max(fewBatches, all/fullBatch))
}

// share returns how many of so many calls a batch has at most.
func (l *Combiner[Q, R]) share(all int) int {
	if l.options.Parallel == 1 {
		return l.options.MaxCalls
	}
	n := l.parallel(all)
	return min(l.options.MaxCalls, (all+n-1)/n)
}

// gather lets callers come first that were there when a batch was over last, if there were several.
func (l *Combiner[Q, R]) gather() {
	l.mu.Lock()
	last, took := l.lastCalls, l.lastTook
	l.mu.Unlock()
	if last > 1 {
		gather.For(took, func() bool { return l.complete(last) })
	}
}

// complete tells whether so many calls are there as there were last, or enough of them for a batch.
func (l *Combiner[Q, R]) complete(last int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := 1 + l.waiting.Len()
	if l.options.Parallel > 1 {
		last = min(last-l.running, l.share(last))
	}
	return all >= last
}

// putOff has the calls that were postponed wait again, in front of all others, and
// returns the rest of the batch.
func (l *Combiner[Q, R]) putOff(batch []*Call[Q, R]) []*Call[Q, R] {
	postponed := func(c *Call[Q, R]) bool { return c.postponed }
	if !slices.ContainsFunc(batch, postponed) {
		return batch
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(batch) {
		switch {
		case !c.postponed:
		case l.closed != nil:
			c.postponed, c.Err = false, l.closed
		default:
			l.waiting.AddFirst(&c.place, c)
		}
	}
	batch = slices.DeleteFunc(slices.Clone(batch), postponed)
	for c := l.waiting.First(); c != nil && c.postponed; c = c.place.Next() {
		c.postponed = false
	}
	return batch
}

// over ends a batch of so many calls.
func (l *Combiner[Q, R]) over(calls int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastCalls, l.lastTook = calls, took
	if l.options.Parallel > 1 {
		l.lastCalls = l.running + l.waiting.Len()
	}
	l.leaders--
	l.running -= calls
	l.form()
}

// form makes the call that waits longest a leader, if there is room. The lock is held.
func (l *Combiner[Q, R]) form() {
	next := l.waiting.First()
	if next == nil || l.forming || !l.room(l.running+l.waiting.Len()) {
		return
	}
	l.leaders++
	l.forming = true
	l.waiting.Remove(&next.place)
	next.wake <- lead
}

// fail gives the calls of a batch that has panicked an error, if Run has not let
// them go before.
func fail[Q, R any](batch []*Call[Q, R], panicked any) {
	if panicked == nil {
		panicked = "its goroutine was ended"
	}
	err := fmt.Errorf("%w: %v", ErrPanicked, panicked)
	for _, c := range batch {
		if !c.returned && !c.postponed {
			c.Err = err
		}
	}
}

// Close has calls that are in no batch, and all that come later, return err. A batch
// under way is finished, and not waited for. Only the first Close counts.
func (l *Combiner[Q, R]) Close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return
	}
	l.closed = err
	for c := l.waiting.First(); c != nil; c = l.waiting.First() {
		l.waiting.Remove(&c.place)
		c.Err = err
		c.wake <- done
	}
}
