package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// engine is a handle in bytes: calls that come while a transaction is under way share the next
// one of their kind.
type engine struct {
	db      kv.DB
	name    string
	options Options
	limits  kv.Limits
	room    budget.Room
	recipe  *jobs.Queue
	entry   *layout.Entry  // of the queue, which may be gone, if the queue was deleted
	signals *kvext.Signals // nil where waiting workers may be in other processes
	local   *kvext.Signals // of those in this process; nil if there are none
	signal  []byte         // the key that is watched there
	lanes   *outcome.Lanes
	recalls *jobs.Recalls
	ids     *jobs.IDs
	now     func() time.Time
	closed  atomic.Bool
	open    context.Context // ends when the handle is closed
	end     context.CancelCauseFunc

	puts    batch.Batcher[[]jobs.New, []put]
	verbs   batch.Batcher[action, taken]
	actions batch.Batcher[action, taken] // of verbs and reservations, where they share transactions
	reserve reserver
	clock   clock

	keeps      atomic.Bool    // reserves, so that the clock is kept
	background sync.WaitGroup // of the clock's work
}

// put is what became of a job that was to be put.
type put struct {
	id  ID
	err error // a duplicate
}

// verb is what a caller does to one job, or to the queue.
type verb struct {
	do       func(q *jobs.Queue, tx kv.Tx, now int64) error // q works by the settings of tx
	loads    []int64                                        // the jobs that it is about
	key      string                                         // of the job, if it is known
	announce bool                                           // jobs may become ready by it
	noSync   bool                                           // it need not be on disk when it returns
	kind     EventKind                                      // 0 is EventEnded
	id       ID                                             // of the job, where the kind tells of each
	dead     *bool                                          // whether the job is dead then; may be nil
}

// Bounds of what one transaction does.
const (
	maxCalls   = 1000
	maxBytes   = 1 << 20
	maxDue     = 1000 // things of each kind that became due
	someDue    = 64   // likewise, where the size of a transaction is limited
	operations = 3    // that the least of verbs takes
	admitted   = 8    // keys whose blocked jobs are looked at when the settings change
)

func (e *engine) init(db kv.DB, name string, o Options) {
	e.db, e.name, e.options, e.limits, e.now = db, name, o, db.Limits(), time.Now
	e.open, e.end = context.WithCancelCause(context.Background())
	e.room.Init(e.limits)
	e.signals, e.local = kvext.SignalsOf(db), kvext.NewsOf(db)
	e.signal, e.entry = jobs.SignalKey(name), layout.NewEntry(db, name, queue.KindWorkQueue)
	e.ids = jobs.ShareIDs(db)
	e.recalls = jobs.ShareRecalls(db, name)
	e.lanes = outcome.New(db, jobs.Outcomes(name), nil)
	e.clock.alarm = shareKeeper(db).alarm(name)
	config := jobs.Config{
		Skew: o.Skew.Microseconds(), NextTick: jobs.CronTick, NewID: e.ids.Take, Soon: e.clock.sooner, Again: e.clock.wakeAt,
		Recalled: e.recalls.Tell, Aside: func(a *jobs.AsideError) { e.setAside(a, false) },
	}
	if e.limits.Shared {
		config.Shards = 32 // as many processes count, each in one of so many keys
	}
	e.recipe = jobs.NewQueue(name, e.limits, config)
	calls := e.callsPerTransaction()
	e.puts.Init(batch.Options[[]jobs.New, []put]{
		Run: e.runPuts, Size: sizeOf, MaxCalls: calls, MaxBytes: e.bytesPerTransaction(), Parallel: e.parallel(), Alone: o.NoCombining,
	})
	e.reserve.init(e)
	e.verbs.Init(batch.Options[action, taken]{Run: e.reserve.run, MaxCalls: calls, Parallel: e.parallel(), Alone: o.NoCombining})
	e.actions.Init(batch.Options[action, taken]{Run: e.reserve.run, MaxCalls: calls, Parallel: batch.Frugal(flights), Alone: o.NoCombining})
}

// parallel returns how many transactions of one kind run at once: several where each waits for a network.
func (e *engine) parallel() func(calls int) int {
	if e.limits.Shared || e.limits.UnknownCommits {
		return batch.Frugal(batch.Far)
	}
	return nil
}

// duePerTransaction is how many things of each kind that became due one transaction does, if it has room.
func (e *engine) duePerTransaction() int {
	if e.limits.Operations == 0 && e.limits.Transaction == 0 {
		return maxDue
	}
	return someDue
}

// poll is how often waiting workers look without a watch: others' clocks may be ahead.
func (e *engine) poll() time.Duration {
	if e.signals != nil {
		return 0
	}
	return time.Second
}

func sizeOf(all []jobs.New) (n int) {
	for i := range all {
		n += 200 + len(all[i].Payload)
	}
	return n
}

func isUnknown(err error) bool { return errors.Is(err, kv.ErrCommitUnknown) }

// errUnopened is for the zero Queue.
var errUnopened = invalid("work queue was not opened: use Open")

// ready returns the error for a handle that was not opened or is closed, or a nil context.
func (e *engine) ready(ctx context.Context) error {
	switch {
	case e.db == nil:
		return errUnopened
	case e.closed.Load():
		return e.closedError()
	}
	return contextError(ctx)
}

func (e *engine) closedError() error { return fmt.Errorf("%w: work queue %q", queue.ErrClosed, e.name) }

// wrap names the queue in an error.
func (e *engine) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("work queue %q: %w", e.name, err)
}

// announce has callers look again that wait, once tx has committed.
func (e *engine) announce(tx kv.Tx) {
	jobs.Announce(tx, e.signals, e.name)
	if e.signals == nil && e.local != nil {
		tx.OnCommit(func() { e.local.Notify(e.topic()) })
	}
}

// wake has the workers of this process look again.
func (e *engine) wake() {
	if e.signals != nil {
		e.signals.Notify(e.topic())
	} else {
		e.clock.tell()
	}
}

func (e *engine) topic() string { return jobs.Topic(e.name) }

// do serves a request, perhaps in a transaction with others'.
func do[Q, R any](ctx context.Context, e *engine, b *batch.Batcher[Q, R], q Q) (R, error) {
	if err := e.ready(ctx); err != nil {
		var none R
		return none, err
	}
	r, err := b.Do(ctx, q)
	return r, e.wrap(err)
}

// result is what one call gets.
type result[R any] struct {
	value R
	err   error
}

// serve runs transactions for all calls. If one fails for a reason that may be one call's, each call has a transaction of its own.
//
// in is an attempt of such a transaction. It returns what each of the first calls gets, at least one and as many as there is
// room for, or an error for all.
func serve[Q, R any](e *engine, calls []*batch.Call[Q, R], in func(tx kv.Tx, attempt int, calls []*batch.Call[Q, R]) ([]result[R], error)) {
	for len(calls) > 0 {
		if calls = serveSome(e, calls, in); len(calls) > 0 {
			calls = batch.Live(calls)
		}
	}
}

// serveSome runs one of these transactions, and returns the calls that it has left.
func serveSome[Q, R any](e *engine, calls []*batch.Call[Q, R], in func(tx kv.Tx, attempt int, calls []*batch.Call[Q, R]) ([]result[R], error)) []*batch.Call[Q, R] {
	ctx, cancel := batch.Context(calls)
	defer cancel()
	attempt := 0
	results, err := transact(ctx, e, func(tx kv.Tx) ([]result[R], error) {
		if attempt++; attempt > 1 && !kv.Unsettled(tx) {
			if calls = batch.Live(calls); len(calls) == 0 {
				return nil, errNobody
			}
		}
		return in(tx, attempt, calls)
	})
	if err != nil && len(calls) > 1 && !isUnknown(err) && ctx.Err() == nil {
		batch.Each(calls, func(c *batch.Call[Q, R]) { serve(e, []*batch.Call[Q, R]{c}, in) })
		return nil
	}
	e.clock.touch()
	if err != nil {
		for _, c := range calls {
			c.Fail(err)
		}
		return nil
	}
	for i, r := range results {
		calls[i].Result, calls[i].Err = r.value, r.err
	}
	return calls[len(results):]
}

// errNobody ends a transaction that nobody wants any more.
var errNobody = errors.New("work: nobody waits for it")

func (e *engine) runPuts(calls []*batch.Call[[]jobs.New, []put]) {
	serve(e, calls, func(tx kv.Tx, attempt int, calls []*batch.Call[[]jobs.New, []put]) ([]result[[]put], error) {
		results := make([]result[[]put], 0, len(calls))
		e.entry.Prefetch(tx)
		e.recipe.ExpectPuts(tx, batch.Requests(calls)...)
		q, err := e.recipe.At(tx)
		if err != nil {
			return nil, err
		}
		places, now, n := q.Places(), micros(e.now()), 0
		for i, c := range calls {
			if i > 0 && !e.recipe.PutsFit(tx, c.Request) {
				break
			}
			results = append(results, result[[]put]{})
			for k := range c.Request {
				p, err := e.putIn(q, tx, places, now, &c.Request[k])
				if err != nil {
					return nil, err
				}
				if results[i].value = append(results[i].value, p); p.err == nil {
					n++
				}
			}
		}
		e.noteIn(tx, Event{Kind: EventPut, Jobs: n, Calls: len(results)}, attempt)
		return results, e.entry.Enlist(tx)
	})
}

// putIn puts a job in a transaction. Only a duplicate is not an error.
func (e *engine) putIn(q *jobs.Queue, tx kv.Tx, places *jobs.Places, now int64, n *jobs.New) (put, error) {
	j, err := q.Put(tx, places, now, n)
	if d, ok := errors.AsType[*DuplicateError](told(err)); ok {
		return put{d.ID, d}, nil
	}
	if err != nil {
		return put{}, err
	}
	e.announce(tx) // also of one for later: another handle may know of nothing before it
	return put{id: ID(j.ID)}, nil
}

// verbsIn runs the first of some verbs in a transaction, which load the jobs of ids.
func (e *engine) verbsIn(tx kv.Tx, q *jobs.Queue, ids []int64, verbs []verb, attempt int) ([]result[taken], error) {
	results := make([]result[taken], 0, len(verbs))
	now := micros(e.now())
	q, err := q.Having(tx, ids)
	if err != nil {
		return nil, err
	}
	var done []verb
	noSync := true
	for i, v := range verbs {
		if i > 0 && !e.recipe.Fits(tx) {
			break
		}
		noSync = noSync && v.noSync
		err := told(v.do(q, tx, now))
		if err != nil && !harmless(err) {
			return nil, err
		}
		results = append(results, result[taken]{err: err})
		if err == nil {
			if e.options.Observe != nil {
				done = append(done, v)
			}
			if v.announce || q.Limited() {
				e.announce(tx)
			}
		}
	}
	if noSync {
		kv.NoSync(tx)
	}
	e.noteVerbs(tx, done, len(results), attempt)
	return results, nil
}

// expectVerbs has what verbs read asked for at once, and returns the jobs that they load.
func (e *engine) expectVerbs(tx kv.Tx, verbs []verb) (ids []int64) {
	var keys []string
	for _, v := range verbs {
		ids, keys = append(ids, v.loads...), append(keys, v.key)
	}
	ids = e.recipe.Loadable(ids)
	e.recipe.Expect(tx, ids, keys)
	return ids
}

// harmless tells whether a verb that has failed so has changed nothing.
func harmless(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrState) || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrChanged)
}

func (e *engine) verb(ctx context.Context, v verb) error {
	b := &e.verbs
	if v.loads != nil && e.reserve.flies() {
		b = &e.actions
	}
	_, err := do(ctx, e, b, action{verb: &v})
	return err
}

// dueIn does what is due, as far as half of a transaction goes, and notes when the next thing is.
func (e *engine) dueIn(q *jobs.Queue, tx kv.Tx, now int64) (d jobs.Dues, err error) {
	if d, err = e.due(q, tx, now); err != nil {
		return d, err
	}
	e.clock.set(now, d.Next)
	if d.Ready > 0 {
		e.announce(tx) // more may be ready than this caller wants
		e.noteIn(tx, Event{Kind: EventDue, Jobs: d.Ready}, 0)
		e.noteIn(tx, Event{Kind: EventExpired, Jobs: d.Expired, Dead: d.Dead}, 0)
	}
	return d, nil
}

// keep has what is due done in this queue until the handle is closed, whether it waits for jobs or not.
func (e *engine) keep() {
	if !e.keeps.Load() && !e.closed.Load() && e.keeps.CompareAndSwap(false, true) {
		e.clock.keep(e)
	}
}

// close ends the handle.
func (e *engine) close() error {
	if e.db == nil {
		return errUnopened
	}
	if e.closed.Swap(true) {
		return nil
	}
	closed := e.closedError()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.puts.Close(closed)
	e.reserve.batches.Close(closed)
	e.verbs.Close(closed)
	e.actions.Close(closed)
	e.reserve.waiters.Close(closed)
	e.end(closed)
	err := e.reserve.waiters.Drained(ctx)
	e.clock.leave(e)
	e.ids.Leave()
	e.recalls.Leave()
	return e.wrap(errors.Join(err, e.lanes.Close(ctx, closed)))
}
