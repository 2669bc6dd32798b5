package work

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// ReserveOptions are how one call leases jobs.
type ReserveOptions struct {
	// Lease is the length of the leases, also of jobs that have a length of their own: 1 ms to 30 days. Default: that of
	// the job, or else of the queue.
	Lease time.Duration

	// Holder names who leases, at most MaxText bytes. Default: that of the handle.
	Holder string

	// InProcess says that the job is done in this process, and by nobody when that is gone: where one process has the store, the job is
	// ready when the queue is opened next, without waiting for the end of its lease. Run does so. Default: false.
	InProcess bool
}

func (o ReserveOptions) check(n int) error {
	if n < 1 {
		return invalid("%d jobs to reserve: it can be from 1 on", n)
	}
	if o.Lease != 0 {
		if err := checkLease(o.Lease); err != nil {
			return invalid("%w", err)
		}
	}
	if err := checkText("ReserveOptions.Holder", o.Holder); err != nil {
		return invalid("%w", err)
	}
	return nil
}

func (o ReserveOptions) terms(ctx context.Context) jobs.Terms {
	return jobs.Terms{Lease: o.Lease.Microseconds(), Holder: o.Holder, Runner: o.InProcess || ctx.Value(inRunner{}) != nil}
}

// ask is what one caller asks for.
type ask struct {
	n     int
	terms jobs.Terms
}

// want is what a call wants, for one caller or for several that wait.
type want struct {
	asks []ask

	// since is when it first looked: what was due by then is ready before it gets jobs, so that it gets the first ones.
	since int64
}

func (w want) n() (n int) {
	for _, a := range w.asks {
		n += a.n
	}
	return n
}

// reserved is a job that was reserved from one of the queues.
type reserved struct {
	jobs.Reserved
	queue int
}

// taken is what a call gets.
type taken struct {
	jobs []reserved
	more bool // it is to come again at once: there was more to do, or to look at, than fits into a transaction
}

// reserver has those who reserve share transactions, of one queue or of a union.
type reserver struct {
	queues []*engine

	batches batch.Batcher[action, taken]
	waiters batch.Waiters[ask, reserved]
	dry     atomic.Bool // there were no jobs for the last one who reserved
}

func (r *reserver) init(queues ...*engine) {
	r.queues = queues
	first := queues[0]
	calls := first.callsPerTransaction()
	r.batches.Init(batch.Options[action, taken]{Run: r.run, MaxCalls: calls, Alone: first.options.NoCombining})
	r.waiters.Init(batch.WaitOptions[ask, reserved]{Take: r.takeForWaiters, Max: calls, Poll: first.poll()})
}

func (r *reserver) now() int64 { return micros(r.queues[0].now()) }

// try reserves for one caller, which does not wait.
func (r *reserver) try(ctx context.Context, n int, o ReserveOptions) ([]reserved, error) {
	first := r.queues[0]
	if err := o.check(n); err != nil {
		return nil, first.wrap(err)
	}
	w := want{[]ask{{n, o.terms(ctx)}}, r.now()}
	var got []reserved
	for bytes := 0; ; {
		t, err := r.take(ctx, w)
		if got = append(got, t.jobs...); err != nil && len(got) > 0 {
			return got, nil // what is leased is the caller's all the same
		}
		for _, j := range t.jobs {
			bytes += len(j.Payload)
		}
		w.asks[0].n = n - len(got)
		enough := len(got) == n || len(got) > 0 && (first.limits.Operations == 0 || bytes >= first.bytesPerTransaction())
		if err != nil || enough || !t.more {
			return got, err
		}
	}
}

// wait reserves for one caller, which waits.
func (r *reserver) wait(ctx context.Context, n int, o ReserveOptions) ([]reserved, error) {
	if err := o.check(n); err != nil {
		return nil, r.queues[0].wrap(err)
	}
	if r.flies() && !r.dry.Load() { // those who wait are served one batch after the other
		got, err := r.try(ctx, n, o)
		if err != nil || len(got) > 0 {
			return got, err
		}
	}
	got, err := r.waiters.Wait(ctx, ask{n, o.terms(ctx)})
	return got, r.queues[0].wrap(err)
}

// take reserves in a transaction with others.
func (r *reserver) take(ctx context.Context, w want) (taken, error) {
	b := &r.batches
	if r.flies() {
		b = &r.queues[0].actions
	}
	return do(ctx, r.queues[0], b, action{want: &w})
}

// flights is how many transactions of a handle reserve at the same time where each waits for a network.
const flights = 4

// flies tells whether several transactions may reserve at the same time: of a queue, not of a union.
func (r *reserver) flies() bool { return len(r.queues) == 1 && r.queues[0].recipe.Flies() }

// fly begins a flight for n jobs, if there may be several.
func (r *reserver) fly(n int) (f *jobs.Flight, end func()) {
	if n == 0 || !r.flies() {
		return nil, func() {}
	}
	f = r.queues[0].recipe.Begin(n)
	return f, f.End
}

// takeForWaiters reserves jobs for callers that wait, and says when to look again if there are none.
func (r *reserver) takeForWaiters(ctx context.Context, b *batch.Waiting[ask, reserved]) ([][]reserved, <-chan error, error) {
	w := want{since: r.now()}
	for {
		if w.asks = b.Requests(); w.asks == nil {
			return nil, nil, errNobody
		}
		t, watch, err := r.takeOrWatch(ctx, w)
		switch {
		case err != nil:
			return nil, nil, err
		case len(t.jobs) > 0:
			return spread(t.jobs, w.asks), nil, nil
		case !t.more:
			return nil, watch, nil
		}
	}
}

// spread gives each of the first ones who ask as many as it asks for, as long as there are some.
func spread(got []reserved, asks []ask) (parts [][]reserved) {
	for _, a := range asks {
		n := min(a.n, len(got))
		if n == 0 {
			break
		}
		parts, got = append(parts, got[:n:n]), got[n:]
	}
	return parts
}

// takeOrWatch reserves, and returns what delivers something when there may be jobs again if it gets none. It misses nothing that comes
// after it has begun.
func (r *reserver) takeOrWatch(ctx context.Context, w want) (taken, <-chan error, error) {
	var watches []<-chan error
	if r.queues[0].signals != nil {
		for _, e := range r.queues {
			watches = append(watches, e.signals.Wait(e.topic()))
		}
		t, err := r.take(ctx, w)
		if len(watches) == 1 || err != nil || len(t.jobs) > 0 || t.more {
			return t, watches[0], err
		}
		watch := make(chan error, 1)
		go relay(ctx, watches, watch)
		return t, watch, nil
	}
	watch := make(chan error, 1)
	for _, e := range r.queues {
		e.clock.tells(ctx, watch)
		if e.local != nil {
			watches = append(watches, e.local.Wait(e.topic())) // sooner than by a watch of the store
		}
	}
	t, err := r.takeAlone(ctx, w, func(tx kv.Tx) {
		all := slices.Clip(watches)
		for _, e := range r.queues {
			all = append(all, tx.Watch(e.signal))
		}
		tx.OnCommit(func() { go relay(ctx, all, watch) })
	})
	return t, watch, err
}

// takeAlone reserves in a transaction of its own. If there are no jobs, watch is called in it.
func (r *reserver) takeAlone(ctx context.Context, w want, watch func(tx kv.Tx)) (taken, error) {
	attempt := 0
	flight, end := r.fly(w.n())
	defer end()
	t, err := transact(ctx, r.queues[0], func(tx kv.Tx) (t taken, err error) {
		attempt++
		results, err := r.in(r.begin(tx, attempt, []want{w}, flight), []want{w})
		if err != nil {
			return t, err
		}
		if t = results[0].value; len(t.jobs) == 0 && !t.more {
			watch(tx)
		}
		return t, nil
	})
	return t, r.queues[0].wrap(err)
}

// relay delivers something to watch when one of from does, or is closed, or ctx ends.
func relay(ctx context.Context, from []<-chan error, watch chan error) {
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for _, c := range from {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	reflect.Select(cases)
	give(watch)
}

// reserving is a transaction that reserves. It reads the settings of each queue once.
type reserving struct {
	kv.Tx
	began   time.Time // by the monotonic clock
	now     int64
	attempt int
	flight  *jobs.Flight // nil if it is none
	more    bool         // it does more than to reserve
	known   []settled
	start   jobs.Start  // of the next reservation
	tries   *jobs.Queue // whose reservation begins where others may be
}

// settled is a queue as it works in a transaction.
type settled struct {
	of *engine
	at *jobs.Queue
}

// at is jobs.Queue.At.
func (tx *reserving) at(e *engine) (*jobs.Queue, error) {
	for _, k := range tx.known {
		if k.of == e {
			return k.at, nil
		}
	}
	q, err := e.recipe.At(tx.Tx)
	if err == nil {
		tx.known = append(tx.known, settled{e, q})
	}
	return q, err
}

// begin begins to reserve in a transaction, and has what it reads first asked for at once.
func (r *reserver) begin(of kv.Tx, attempt int, wants []want, flight *jobs.Flight) *reserving {
	tx := &reserving{Tx: of, began: time.Now(), now: r.now(), attempt: attempt, flight: flight}
	n := 0
	for _, w := range wants {
		n += w.n()
	}
	if n == 0 {
		return tx
	}
	if len(r.queues) == 1 {
		tx.tries = r.queues[0].recipe
		tx.start = tx.tries.Start(tx.now, n, attempt, flight)
	} else {
		n = 1 // of each queue the first
	}
	for _, e := range r.queues {
		e.recipe.ExpectReserve(of, tx.start, n, e.duePerTransaction(), e.clock.due(tx.now))
	}
	return tx
}

// in reserves in a transaction. What is due is done first if it is time for that, and else if there are no jobs.
//
// A reservation alone need not be on disk when it returns. If the power fails, its job is ready again and its token refused: its
// worker finds the lease lost.
func (r *reserver) in(tx *reserving, wants []want) ([]result[taken], error) {
	next, looked, did, err := r.due(tx, false)
	if err != nil {
		return nil, err
	}
	got, served, more, err := r.leaseFor(tx, wants, next)
	if err != nil {
		return nil, err
	}
	if len(got) == 0 && !more && looked < len(r.queues) {
		next, _, then, err := r.due(tx, true)
		if err != nil {
			return nil, err
		}
		if did += then; then > 0 || next <= tx.now { // or there was no room to look everywhere
			if got, served, more, err = r.leaseFor(tx, wants, next); err != nil {
				return nil, err
			}
		}
	}
	if did == 0 && !tx.more {
		kv.NoSync(tx.Tx)
	}
	if tx.tries != nil { // who does what is due collides with others who do it, also in this process
		tx.tries.Tried(did == 0 && len(got) > 0)
	}
	r.dry.Store(len(got) == 0 && !more)
	for i := range got {
		got[i].End = tx.began.Add(span(got[i].Length))
	}
	r.note(tx, got, len(wants))
	return resultsOf(got, wants, served, more), nil
}

// resultsOf gives each of the first served ones as many as it wants, as long as there are some.
func resultsOf(got []reserved, wants []want, served int, more bool) []result[taken] {
	results := make([]result[taken], len(wants))
	for i, w := range wants {
		n := 0
		if i < served {
			n = min(len(got), w.n())
		}
		results[i].value = taken{got[:n:n], more || i >= served}
		got = got[n:]
	}
	return results
}

// note tells observers of each queue what a transaction has reserved there.
func (r *reserver) note(tx *reserving, got []reserved, calls int) {
	for i, e := range r.queues {
		if e.options.Observe == nil {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(got), func(j reserved) bool { return j.queue != i })
		e.noteReserved(tx.Tx, of, calls, tx.attempt)
	}
}

// leaseFor leases jobs for the first ones who want some, those before whose time all that was due is done, and tells how many
// these are.
func (r *reserver) leaseFor(tx *reserving, wants []want, next int64) (got []reserved, served int, more bool, err error) {
	var asks []ask
	for _, w := range wants {
		if w.since >= next {
			break
		}
		asks = append(asks, w.asks...)
		served++
	}
	if served == 0 {
		return nil, 0, true, nil
	}
	got, more, err = r.lease(tx, asks)
	return got, served, more, err
}

// due does what is due in the queues where it is time to look, or in all. It returns when the next job becomes ready that it
// knows of, as jobs.Dues has it, in how many queues it has looked, and how many things it has done.
func (r *reserver) due(tx *reserving, all bool) (next int64, looked, did int, err error) {
	next = jobs.Never
	snapshot := r.isLarge(tx)
	for i, e := range r.queues {
		if i > 0 && budget.Wrote(tx.Tx) && !e.recipe.Fits(budget.Half(tx.Tx)) {
			return 0, looked, did, nil // there is more, for the next one
		}
		e.keep()
		if !all && !e.clock.due(tx.now) {
			continue
		}
		d, err := e.dueFor(tx, all, snapshot)
		if err != nil {
			return 0, 0, 0, err
		}
		next, looked, did = min(next, d.NextReady), looked+1, did+d.Did
	}
	return next, looked, did, nil
}

// isLarge tells that the queues of a union are looked at through a snapshot, as so many reads can't conflict on an engine that
// limits them.
func (r *reserver) isLarge(tx *reserving) bool {
	return len(r.queues) > 1 && !budget.Fits(tx.Tx, 4*len(r.queues), 0)
}

// dueFor does what is due in a queue. It can look through a snapshot: what is done conflicts with a change of the settings all the
// same.
func (e *engine) dueFor(tx *reserving, all, snapshot bool) (d jobs.Dues, err error) {
	if all {
		e.recipe.ExpectDue(tx.Tx, e.duePerTransaction())
	}
	var q *jobs.Queue
	if snapshot {
		q, err = e.recipe.At(tx.Snapshot())
	} else {
		q, err = tx.at(e)
	}
	if err != nil {
		return d, err
	}
	d, err = e.dueIn(q, tx.Tx, tx.now)
	if err == nil && snapshot && d.Did > 0 {
		_, err = tx.at(e)
	}
	return d, err
}

// lease leases the first jobs for those who ask. more is that of jobs.Found.
func (r *reserver) lease(tx *reserving, asks []ask) (got []reserved, more bool, err error) {
	if len(r.queues) > 1 {
		return r.leaseFirst(tx, asks)
	}
	return r.leaseSome(tx, 0, asks, nil, want{asks: asks}.n())
}

// leaseSome leases n jobs of a queue for those who ask, behind the first ones that they have got.
func (r *reserver) leaseSome(tx *reserving, queue int, asks []ask, got []reserved, n int) ([]reserved, bool, error) {
	e := r.queues[queue]
	q, err := tx.at(e)
	if err != nil {
		return nil, false, err
	}
	request := e.request(n)
	request.Start, tx.start = tx.start, jobs.Start{}
	have := len(got)
	request.Terms = func(i int) jobs.Terms { return termsOf(asks, have+i) }
	f, err := q.Reserve(tx.Tx, tx.now, request)
	if err != nil {
		return nil, false, err
	}
	for _, j := range f.Jobs {
		got = append(got, reserved{j, queue})
	}
	return got, f.More, nil
}

// termsOf returns those of the one who gets the i-th job.
func termsOf(asks []ask, i int) jobs.Terms {
	for _, a := range asks {
		if i < a.n {
			return a.terms
		}
		i -= a.n
	}
	return jobs.Terms{}
}

func (e *engine) request(n int) jobs.Request {
	return jobs.Request{
		N: n, MaxBytes: e.bytesPerTransaction(), Holder: e.options.Holder, NewToken: newToken, Opening: openingOf(e.db),
	}
}

func newToken() int64 { return rand.Int64N(math.MaxInt64) + 1 }
