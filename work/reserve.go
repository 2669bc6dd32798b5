package work

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
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

// taken is what a call gets.
type taken[V any] struct {
	jobs []V
	more bool // it is to come again at once: there was more to do, or to look at, than fits into a transaction
}

// reserver has those who reserve share transactions, of one queue or of a union.
type reserver[V any] struct {
	source[V]
	engine *engine // of the first queue

	combiner batch.Batcher[want, taken[V]]
	waiters  batch.Waiters[ask, V]
	dry      atomic.Bool // there were no jobs for the last one who reserved
}

// source is where a reserver has jobs from.
type source[V any] interface {
	// dueAt does what is due in the queues where it is time to look, or in all. It returns when the next job becomes
	// ready that it knows of, as jobs.Dues has it, in how many queues it has looked, and how many things it has done.
	dueAt(tx *reserving, now int64, all bool) (next int64, looked, did int, err error)

	// leaseIn leases the first jobs for those who ask. more is that of jobs.Found.
	leaseIn(tx *reserving, now int64, asks []ask) (got []V, more bool, err error)

	// expect has what dueAt and leaseIn of n jobs read first asked for at once.
	expect(tx *reserving, now int64, n int)

	// watch runs a reservation, and returns what tells when there may be jobs again if it gets none: nothing that comes
	// after it has looked is missed.
	watch(ctx context.Context, w want) (taken[V], <-chan error, error)

	// began notes when leases have begun.
	began(got []V, at time.Time)

	note(tx kv.Tx, got []V, calls int, attempts *int)
	queues() int
	size(V) int // of its payload
}

// reserving is a transaction that reserves. It reads the settings of each queue once.
type reserving struct {
	kv.Tx
	began    time.Time // by the monotonic clock
	now      int64
	attempts int
	flight   *jobs.Flight // nil if it is none
	more     bool         // it does more than to reserve
	known    []settled
	starts   map[*engine]jobs.Start // of the next reservation, but for a zero one
	tries    *jobs.Queue            // whose reservation begins where others may be
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

// start returns where the reservation of n jobs begins.
func (tx *reserving) start(e *engine, now int64, n int) jobs.Start {
	tx.tries = e.recipe
	s := e.recipe.Start(now, n, tx.attempts, tx.flight)
	if !s.IsFirst() || tx.flight != nil {
		tx.starts = map[*engine]jobs.Start{e: s}
	}
	return s
}

func (r *reserver[V]) init(of source[V], e *engine, calls int) {
	r.source, r.engine = of, e
	r.combiner.Init(batch.Options[want, taken[V]]{Run: r.run, MaxCalls: calls})
	r.waiters.Init(batch.WaitOptions[ask, V]{Take: r.take, Max: calls, Poll: e.poll()})
}

func (r *reserver[V]) now() int64 { return micros(r.engine.now()) }

// try reserves for one caller, which does not wait.
func (r *reserver[V]) try(ctx context.Context, n int, o ReserveOptions) ([]V, error) {
	if err := o.check(n); err != nil {
		return nil, r.engine.wrap(err)
	}
	w := want{[]ask{{n, o.terms(ctx)}}, r.now()}
	var got []V
	for bytes := 0; ; {
		t, err := r.share(ctx, w)
		if got = append(got, t.jobs...); err != nil && len(got) > 0 {
			return got, nil // what is leased is the caller's all the same
		}
		for _, j := range t.jobs {
			bytes += r.size(j)
		}
		w.asks[0].n = n - len(got)
		enough := len(got) == n || len(got) > 0 && (r.engine.limits.Operations == 0 || bytes >= r.engine.bytesPerTransaction())
		if err != nil || enough || !t.more {
			return got, err
		}
	}
}

// wait reserves for one caller, which waits.
func (r *reserver[V]) wait(ctx context.Context, n int, o ReserveOptions) ([]V, error) {
	if err := o.check(n); err != nil {
		return nil, r.engine.wrap(err)
	}
	if r.flies() && !r.dry.Load() { // those who wait are served one batch after the other
		got, err := r.try(ctx, n, o)
		if err != nil || len(got) > 0 {
			return got, err
		}
	}
	got, err := r.waiters.Wait(ctx, ask{n, o.terms(ctx)})
	return got, r.engine.wrap(err)
}

// share reserves in a transaction with others.
func (r *reserver[V]) share(ctx context.Context, w want) (taken[V], error) {
	if r.flies() {
		t, err := do(ctx, r.engine, &r.engine.actions, r.engine.runActions, action{want: &w})
		return any(t).(taken[V]), err // V is that of a queue: see flies
	}
	return do(ctx, r.engine, &r.combiner, r.run, w)
}

// flights is how many transactions of a handle reserve at the same time where each waits for a network.
const flights = 4

// flies tells whether several transactions may reserve at the same time: of a queue, not of a union.
func (r *reserver[V]) flies() bool {
	_, alone := any(r.source).(one)
	return alone && r.engine.recipe.Flies()
}

func (r *reserver[V]) run(calls []*batch.Call[want, taken[V]]) {
	share(r.engine, calls, func(tx kv.Tx, calls []*batch.Call[want, taken[V]], attempts *int) ([]result[taken[V]], error) {
		wants := batch.Requests(calls)
		return r.in(r.begin(tx, wants, attempts, nil), wants, attempts)
	})
}

// fly begins a flight, if there may be several.
func (r *reserver[V]) fly(n int) (f *jobs.Flight, end func()) {
	if !r.flies() {
		return nil, func() {}
	}
	f = r.engine.recipe.Begin(n)
	return f, f.End
}

// alone reserves in a transaction of its own, which then may do more.
func (r *reserver[V]) alone(ctx context.Context, w want, then func(tx kv.Tx, t taken[V])) (taken[V], error) {
	attempts := 0
	flight, end := r.fly(w.n())
	defer end()
	t, err := transact(ctx, r.engine, func(tx kv.Tx) (t taken[V], err error) {
		attempts++
		results, err := r.in(r.begin(tx, []want{w}, &attempts, flight), []want{w}, &attempts)
		if err == nil {
			t = results[0].value
			then(tx, t)
		}
		return t, err
	})
	return t, r.engine.wrap(err)
}

// begin begins to reserve in a transaction, and has what it reads first asked for at once.
func (r *reserver[V]) begin(of kv.Tx, wants []want, attempts *int, flight *jobs.Flight) *reserving {
	tx := &reserving{Tx: of, began: time.Now(), now: r.now(), attempts: *attempts, flight: flight}
	n := 0
	for _, w := range wants {
		n += w.n()
	}
	if n > 0 {
		r.expect(tx, tx.now, n)
	}
	return tx
}

// in reserves in a transaction. What is due is done first if it is time for that, and else if there are no jobs.
//
// A reservation alone need not be on disk when it returns. If the power fails, its job is ready again and its token refused: its
// worker finds the lease lost.
func (r *reserver[V]) in(tx *reserving, wants []want, attempts *int) ([]result[taken[V]], error) {
	now, of := tx.now, tx.Tx
	next, looked, did, err := r.dueAt(tx, now, false)
	if err != nil {
		return nil, err
	}
	got, served, more, err := r.serve(tx, now, wants, next)
	if err != nil {
		return nil, err
	}
	if len(got) == 0 && !more && looked < r.queues() {
		next, _, then, err := r.dueAt(tx, now, true)
		if err != nil {
			return nil, err
		}
		if did += then; then > 0 || next <= now { // or there was no room to look everywhere
			if got, served, more, err = r.serve(tx, now, wants, next); err != nil {
				return nil, err
			}
		}
	}
	if did == 0 && !tx.more {
		kv.NoSync(of)
	}
	if tx.tries != nil { // who does what is due collides with others who do it, also in this process
		tx.tries.Tried(did == 0 && len(got) > 0)
	}
	r.dry.Store(len(got) == 0 && !more)
	r.began(got, tx.began)
	r.note(of, got, len(wants), attempts)
	return deal(got, wants, served, more), nil
}

// serve leases jobs for the first ones who want some, those before whose time all that was due is done, and tells how many
// these are.
func (r *reserver[V]) serve(tx *reserving, now int64, wants []want, next int64) (got []V, served int, more bool, err error) {
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
	got, more, err = r.leaseIn(tx, now, asks)
	return got, served, more, err
}

// deal gives each of the first served ones as many as it wants, as long as there are some.
func deal[V any](got []V, wants []want, served int, more bool) []result[taken[V]] {
	results := make([]result[taken[V]], len(wants))
	for i, w := range wants {
		n := 0
		if i < served {
			n = min(len(got), w.n())
		}
		results[i].value = taken[V]{got[:n:n], more || i >= served}
		got = got[n:]
	}
	return results
}

// take reserves jobs for callers that wait, and says when to look again if there are none.
func (r *reserver[V]) take(ctx context.Context, b *batch.Waiting[ask, V]) ([][]V, <-chan error, error) {
	w := want{since: r.now()}
	for {
		if w.asks = b.Requests(); w.asks == nil {
			return nil, nil, errNobody
		}
		t, news, err := r.watch(ctx, w)
		switch {
		case err != nil:
			return nil, nil, err
		case len(t.jobs) > 0:
			return dealWaiting(t.jobs, w.asks), nil, nil
		case !t.more:
			return nil, news, nil
		}
	}
}

// dealWaiting is deal for callers that wait on if there are none for them.
func dealWaiting[V any](got []V, asks []ask) (dealt [][]V) {
	for _, a := range asks {
		n := min(a.n, len(got))
		if n == 0 {
			break
		}
		dealt, got = append(dealt, got[:n:n]), got[n:]
	}
	return dealt
}

// one is the source of a queue alone.
type one struct{ *engine }

func (o one) queues() int { return 1 }

func (o one) began(got []jobs.Reserved, at time.Time) {
	for i := range got {
		got[i].End = at.Add(span(got[i].Length))
	}
}

func (o one) size(j jobs.Reserved) int { return len(j.Payload) }

func (o one) note(tx kv.Tx, got []jobs.Reserved, calls int, attempts *int) {
	o.noteReserved(tx, got, calls, attempts)
}

func (o one) expect(tx *reserving, now int64, n int) {
	o.recipe.ExpectReserve(tx.Tx, tx.start(o.engine, now, n), n, o.duePerTransaction(), o.clock.due(now))
}

func (o one) dueAt(tx *reserving, now int64, all bool) (next int64, looked, did int, err error) {
	return o.dueBy(tx, now, all, false)
}

// dueBy is dueAt that can look through a snapshot: what is done conflicts with a change of the settings all the same.
func (o one) dueBy(tx *reserving, now int64, all, snapshot bool) (next int64, looked, did int, err error) {
	o.keep()
	if !all && !o.clock.due(now) {
		return jobs.Never, 0, 0, nil
	}
	if all {
		o.recipe.ExpectDue(tx.Tx, o.duePerTransaction())
	}
	var q *jobs.Queue
	if snapshot {
		q, err = o.recipe.At(tx.Snapshot())
	} else {
		q, err = tx.at(o.engine)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	d, err := o.dueIn(q, tx.Tx, now)
	if err == nil && snapshot && d.Did > 0 {
		_, err = tx.at(o.engine)
	}
	return d.NextReady, 1, d.Did, err
}

func (o one) leaseIn(tx *reserving, now int64, asks []ask) ([]jobs.Reserved, bool, error) {
	f, err := o.leaseSome(tx, now, asks, 0, want{asks: asks}.n())
	return f.Jobs, f.More, err
}

// leaseSome leases n jobs for those who ask, behind the first ones that they have.
func (e *engine) leaseSome(tx *reserving, now int64, asks []ask, have, n int) (jobs.Found, error) {
	q, err := tx.at(e)
	if err != nil {
		return jobs.Found{}, err
	}
	request := e.request(n)
	request.Start = tx.starts[e]
	delete(tx.starts, e)
	request.Terms = func(i int) jobs.Terms { return termsOf(asks, have+i) }
	return q.Reserve(tx.Tx, now, request)
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

func (o one) watch(ctx context.Context, w want) (t taken[jobs.Reserved], _ <-chan error, err error) {
	if o.signals != nil {
		news := o.news.Wait(o.topic()) // before looking
		t, err = o.reserve.share(ctx, w)
		return t, news, err
	}
	news := o.clock.wait()
	var near <-chan error // they learn it sooner than by a watch
	if o.news != nil {
		near = o.news.Wait(o.topic())
	}
	t, err = o.reserve.alone(ctx, w, func(tx kv.Tx, t taken[jobs.Reserved]) {
		if len(t.jobs) == 0 && !t.more {
			watched := tx.Watch(o.signal)
			tx.OnCommit(func() { go relay(watched, near, news) })
		}
	})
	return t, news, err
}
