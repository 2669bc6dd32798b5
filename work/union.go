package work

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Union leases jobs of several queues of one store as if they were one queue: the lowest priority first, and within a
// priority the job that was put first. Given to Run, it lets one pool of workers serve all the queues. When one of the queues is closed, so is the Union: calls return
// conq.ErrClosed, also those that wait. It needs no Close of its own, and is safe for concurrent use.
type Union[T any] struct {
	all     []*Queue[T]
	reserve reserver[chosen]
}

// chosen is a job that was reserved from one of the queues.
type chosen struct {
	jobs.Reserved
	queue int
}

// NewUnion returns the union of at least one queue.
func NewUnion[T any](queues ...*Queue[T]) (*Union[T], error) {
	if len(queues) == 0 {
		return nil, invalid("a union of no queues")
	}
	if slices.Contains(queues, nil) {
		return nil, invalid("a union of a queue that is nil")
	}
	for _, q := range queues[1:] {
		if q.db != queues[0].db {
			return nil, invalid("a union of queues of different stores")
		}
	}
	u := &Union[T]{all: slices.Clone(queues)}
	first := &queues[0].engine
	u.reserve.init(u, first, first.callsPerTransaction())
	return u, nil
}

// Name returns the names of the queues, separated by commas.
func (u *Union[T]) Name() string {
	var names []string
	for _, q := range u.all {
		names = append(names, q.name)
	}
	return strings.Join(names, ", ")
}

// Reserve is Queue.Reserve.
func (u *Union[T]) Reserve(ctx context.Context) (*Lease[T], error) {
	all, err := u.ReserveN(ctx, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReserveN is Queue.ReserveN.
func (u *Union[T]) ReserveN(ctx context.Context, n int) ([]*Lease[T], error) {
	return u.ReserveWith(ctx, n, ReserveOptions{})
}

// ReserveWith is Queue.ReserveWith.
func (u *Union[T]) ReserveWith(ctx context.Context, n int, o ReserveOptions) ([]*Lease[T], error) {
	if err := u.ready(ctx); err != nil {
		return nil, err
	}
	open, done := u.whileOpen(ctx)
	defer done()
	for {
		got, err := u.reserve.wait(open, n, o)
		if err != nil {
			return nil, err
		}
		leases, err := u.handOut(ctx, got)
		if err != nil || len(leases) > 0 {
			return leases, err
		}
	}
}

// ready returns the error for a union of which a queue is closed, or for a nil context.
func (u *Union[T]) ready(ctx context.Context) error {
	for _, q := range u.all {
		if err := q.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// whileOpen returns a context that also ends when one of the queues is closed.
func (u *Union[T]) whileOpen(ctx context.Context) (open context.Context, done func()) {
	open, end := context.WithCancelCause(ctx)
	var stops []func() bool
	for _, q := range u.all {
		stops = append(stops, context.AfterFunc(q.open, func() { end(context.Cause(q.open)) }))
	}
	return open, func() {
		for _, stop := range stops {
			stop()
		}
		end(nil)
	}
}

// TryReserve is Queue.TryReserve.
func (u *Union[T]) TryReserve(ctx context.Context, n int) ([]*Lease[T], error) {
	return u.TryReserveWith(ctx, n, ReserveOptions{})
}

// TryReserveWith is Queue.TryReserveWith.
func (u *Union[T]) TryReserveWith(ctx context.Context, n int, o ReserveOptions) ([]*Lease[T], error) {
	if err := u.ready(ctx); err != nil {
		return nil, err
	}
	for {
		got, err := u.reserve.try(ctx, n, o)
		if err != nil || len(got) == 0 {
			return nil, err
		}
		leases, err := u.handOut(ctx, got)
		if err != nil || len(leases) > 0 {
			return leases, err
		}
	}
}

func (u *Union[T]) handOut(ctx context.Context, got []chosen) ([]*Lease[T], error) {
	leases := make([]*Lease[T], len(got))
	for i, c := range got {
		leases[i] = u.all[c.queue].leaseOf(c.Reserved)
	}
	return handOut(ctx, leases, func(l *Lease[T]) queue.Codec[T] { return l.queue.codec })
}

// Drained tells whether all of the queues are; see Queue.Drained.
func (u *Union[T]) Drained(ctx context.Context) (bool, error) {
	for _, q := range u.all {
		if drained, err := q.Drained(ctx); err != nil || !drained {
			return false, err
		}
	}
	return true, nil
}

func (u *Union[T]) began(got []chosen, at time.Time) {
	for i := range got {
		got[i].End = at.Add(span(got[i].Length))
	}
}

// tell has the first queue's log know what concerns all.
func (u *Union[T]) tell(id ID, err error) { u.all[0].tell(id, err) }

func (u *Union[T]) queues() int { return len(u.all) }

func (u *Union[T]) size(c chosen) int { return len(c.Payload) }

func (u *Union[T]) expect(tx *reserving, now int64, _ int) {
	for _, q := range u.all { // each begins at the first jobs
		q.recipe.ExpectReserve(tx.Tx, jobs.Start{}, 1, q.duePerTransaction(), q.clock.due(now))
	}
}

func (u *Union[T]) dueAt(tx *reserving, now int64, all bool) (next int64, looked, did int, err error) {
	next = jobs.Never
	snapshot := u.isLarge(tx)
	for i, q := range u.all {
		if i > 0 && budget.Wrote(tx.Tx) && !q.recipe.Fits(budget.Half(tx.Tx)) {
			return 0, looked, did, nil // there is more, for the next one
		}
		at, n, made, err := one{&q.engine}.dueBy(tx, now, all, snapshot)
		if err != nil {
			return 0, 0, 0, err
		}
		next, looked, did = min(next, at), looked+n, did+made
	}
	return next, looked, did, nil
}

// isLarge tells that the queues are looked at through a snapshot, as so many reads can't conflict on an engine that limits them.
func (u *Union[T]) isLarge(tx *reserving) bool { return !budget.Fits(tx.Tx, 4*len(u.all), 0) }

// head is the first ready job of a queue.
type head struct {
	queue int
	jobs.Position
}

func (h head) before(o head) bool {
	if h.Priority != o.Priority {
		return h.Priority < o.Priority
	}
	return h.Place < o.Place || h.Place == o.Place && h.ID < o.ID
}

// leaseIn leases the first ones of all ready jobs.
func (u *Union[T]) leaseIn(tx *reserving, now int64, asks []ask) (got []chosen, more bool, err error) {
	var heads []head
	r := kv.Reader(tx.Tx)
	if u.all[0].limits.Shared || u.isLarge(tx) {
		r = tx.Snapshot() // another job may have become the first
	}
	for i := range u.all {
		if heads, err = u.appendHead(heads, r, i); err != nil {
			return nil, false, err
		}
	}
	bytes, limit, n := 0, u.all[0].bytesPerTransaction(), want{asks: asks}.n()
	for looked := 0; len(heads) > 0 && len(got) < n; looked++ {
		if bytes >= limit || looked > 0 && !u.all[0].recipe.Fits(tx.Tx) {
			return got, true, nil
		}
		first := 0
		for i := range heads {
			if heads[i].before(heads[first]) {
				first = i
			}
		}
		of := heads[first].queue
		heads = append(heads[:first], heads[first+1:]...)
		some := 1
		if len(heads) == 0 {
			some = n - len(got)
		}
		f, err := u.all[of].leaseSome(tx, now, asks, len(got), some)
		if err != nil {
			return nil, false, err
		}
		for _, j := range f.Jobs {
			got = append(got, chosen{j, of})
			bytes += len(j.Payload)
		}
		if f.More {
			return got, true, nil // those of other queues may come behind what is there
		}
		if len(f.Jobs) == 0 || len(f.Jobs) == n {
			continue // none may start now, or that is all
		}
		if heads, err = u.appendHead(heads, r, of); err != nil {
			return nil, false, err
		}
	}
	return got, false, nil
}

// appendHead appends the head of a queue, if it has one.
func (u *Union[T]) appendHead(heads []head, r kv.Reader, queue int) ([]head, error) {
	p, found, err := u.all[queue].recipe.First(r, u.all[queue].isAside)
	if found {
		heads = append(heads, head{queue, p})
	}
	return heads, err
}

// note tells observers of each queue what a transaction has reserved there.
func (u *Union[T]) note(tx kv.Tx, got []chosen, calls int, attempts *int) {
	for i, q := range u.all {
		if q.options.Observe == nil {
			continue
		}
		var of []jobs.Reserved
		for _, c := range got {
			if c.queue == i {
				of = append(of, c.Reserved)
			}
		}
		q.noteReserved(tx, of, calls, attempts)
	}
}

func (u *Union[T]) watch(ctx context.Context, w want) (t taken[chosen], _ <-chan error, err error) {
	var news []<-chan error
	if u.all[0].signals != nil {
		for _, q := range u.all {
			news = append(news, q.signals.Wait(q.topic())) // before looking
		}
		t, err = u.reserve.share(ctx, w)
	} else {
		t, err = u.reserve.alone(ctx, w, func(tx kv.Tx, t taken[chosen]) {
			news = nil
			for _, q := range u.all {
				if len(t.jobs) == 0 && !t.more {
					news = append(news, tx.Watch(q.signal))
				}
			}
		})
	}
	if err != nil || len(t.jobs) > 0 || t.more {
		return t, nil, err
	}
	return t, u.await(ctx, news), nil
}

// await returns what delivers something when there is news of a queue, or something is due in one, until ctx ends. Where there
// are signals, alarms give them.
func (u *Union[T]) await(ctx context.Context, news []<-chan error) <-chan error {
	next := int64(jobs.Never)
	for _, q := range u.all {
		next = min(next, q.clock.at())
	}
	var due <-chan time.Time
	stop := func() bool { return false }
	if next != jobs.Never && u.all[0].signals == nil {
		timer := time.NewTimer(min(keeperPeriod, max(0, span(next-micros(u.all[0].now())+1))))
		due, stop = timer.C, timer.Stop
	}
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}, {Dir: reflect.SelectRecv, Chan: reflect.ValueOf(due)},
	}
	for _, c := range news {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	told := make(chan error, 1)
	go func() {
		defer stop()
		reflect.Select(cases)
		told <- nil
	}()
	return told
}
