package work

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/waiting"
	"github.com/conq-go/conq/kv"
)

// Union leases jobs of several queues of one store as if they were one queue: the lowest priority first, and within a
// priority the job that was put first. Given to Run, it lets one pool of workers serve all the queues. Reserve conflicts
// with a job that is put at the head of any of them. When one of the queues is closed, so is the Union: calls return
// conq.ErrClosed, also those that wait. It needs no Close of its own, and is safe for concurrent use.
type Union[T any] struct {
	queues   []*Queue[T]
	reserves combine.Combiner[int, []chosen]
	list     waiting.List[chosen]
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
	u := &Union[T]{queues: slices.Clone(queues)}
	first := &queues[0].engine
	calls := max(1, first.callsPerTransaction()/len(queues))
	u.reserves.Init(combine.Options[int, []chosen]{Run: u.runReserves, MaxCalls: calls})
	u.list.Init(waiting.Options[chosen]{Take: u.takeForWaiting, Max: calls, Poll: first.poll(), Lost: isUnknown})
	return u, nil
}

// Name returns the names of the queues, separated by commas.
func (u *Union[T]) Name() string {
	var names []string
	for _, q := range u.queues {
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
	if n < 1 {
		return nil, invalid("%d jobs to reserve: it can be from 1 on", n)
	}
	if err := u.ready(ctx); err != nil {
		return nil, err
	}
	open, done := u.whileOpen(ctx)
	defer done()
	for {
		got, err := u.list.Wait(open, n)
		if err != nil {
			return nil, err
		}
		leases, err := u.decodeAll(ctx, got)
		if err != nil || len(leases) > 0 {
			return leases, err
		}
	}
}

// ready returns the error for a union of which a queue is closed, or for a nil context.
func (u *Union[T]) ready(ctx context.Context) error {
	for _, q := range u.queues {
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
	for _, q := range u.queues {
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
	if n < 1 {
		return nil, invalid("%d jobs to reserve: it can be from 1 on", n)
	}
	if err := u.ready(ctx); err != nil {
		return nil, err
	}
	got, err := do(ctx, &u.queues[0].engine, &u.reserves, u.runReserves, n)
	if err != nil {
		return nil, err
	}
	return u.decodeAll(ctx, got)
}

func (u *Union[T]) decodeAll(ctx context.Context, got []chosen) (all []*Lease[T], failed error) {
	for _, c := range got {
		leases, err := u.queues[c.queue].decodeAll(ctx, []jobs.Reserved{c.Reserved})
		all, failed = append(all, leases...), errors.Join(failed, err)
	}
	if len(all) > 0 {
		return all, nil // the others come back when their leases are over
	}
	return nil, failed
}

func (u *Union[T]) runReserves(calls []*combine.Call[int, []chosen]) {
	share(&u.queues[0].engine, calls, func(tx kv.Tx, calls []*combine.Call[int, []chosen], attempts *int) ([]result[[]chosen], error) {
		got, err := u.reserveIn(tx, wanted(calls))
		if err != nil {
			return nil, err
		}
		u.note(tx, got, len(calls), attempts)
		return deal(got, calls), nil
	})
}

// reserveIn leases jobs in a transaction. What is due is done in queues where it is time for that, and in all
// if there are no jobs.
func (u *Union[T]) reserveIn(tx kv.Tx, n int) ([]chosen, error) {
	now := micros(u.queues[0].now())
	for _, q := range u.queues {
		if !q.clock.due(now) {
			continue
		}
		if _, err := q.dueIn(tx, now); err != nil {
			return nil, err
		}
	}
	got, err := u.choose(tx, now, n)
	if err != nil || len(got) > 0 {
		return got, err
	}
	ready := 0
	for _, q := range u.queues {
		made, err := q.dueIn(tx, now)
		if err != nil {
			return nil, err
		}
		ready += made
	}
	if ready == 0 {
		return nil, nil
	}
	return u.choose(tx, now, n)
}

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

// choose leases the first ones of all ready jobs.
func (u *Union[T]) choose(tx kv.Tx, now int64, n int) (got []chosen, err error) {
	var heads []head
	for i := range u.queues {
		if heads, err = u.appendHead(heads, tx, i); err != nil {
			return nil, err
		}
	}
	bytes, limit := 0, u.queues[0].bytesPerTransaction()
	for len(heads) > 0 && len(got) < n && bytes < limit {
		first := 0
		for i := range heads {
			if heads[i].before(heads[first]) {
				first = i
			}
		}
		of := heads[first].queue
		heads = append(heads[:first], heads[first+1:]...)
		wanted := 1
		if len(heads) == 0 {
			wanted = n - len(got)
		}
		leased, size, err := u.leaseFrom(tx, now, of, wanted)
		if err != nil {
			return nil, err
		}
		bytes += size
		if got = append(got, leased...); len(leased) == 0 || len(leased) == n {
			continue // none may start now, or that is all
		}
		if heads, err = u.appendHead(heads, tx, of); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// appendHead appends the head of a queue, if it has one.
func (u *Union[T]) appendHead(heads []head, tx kv.Tx, queue int) ([]head, error) {
	p, found, err := u.queues[queue].recipe.First(tx)
	if found {
		heads = append(heads, head{queue, p})
	}
	return heads, err
}

func (u *Union[T]) leaseFrom(tx kv.Tx, now int64, queue, n int) (got []chosen, bytes int, err error) {
	q := u.queues[queue]
	reserved, wake, err := q.recipe.Reserve(tx, now, q.request(n))
	if err != nil {
		return nil, 0, err
	}
	if wake > 0 {
		q.clock.sooner(wake)
	}
	for _, j := range reserved {
		q.clock.sooner(j.Time + q.options.Skew.Microseconds())
		got = append(got, chosen{j, queue})
		bytes += len(j.Payload)
	}
	return got, bytes, nil
}

// note tells observers of each queue what a transaction has reserved there.
func (u *Union[T]) note(tx kv.Tx, got []chosen, calls int, attempts *int) {
	for i, q := range u.queues {
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

// takeForWaiting is that of engine.
func (u *Union[T]) takeForWaiting(ctx context.Context, b *waiting.Batch[chosen]) ([][]chosen, <-chan error, error) {
	wants := b.Wants()
	if wants == nil {
		return nil, nil, errNobody
	}
	got, news, err := u.reserveWatching(ctx, sum(wants))
	if err != nil {
		return nil, nil, err
	}
	if len(got) == 0 {
		return nil, u.await(ctx, news), nil
	}
	return dealWaiting(got, wants), nil, nil
}

// reserveWatching reserves, and returns what tells of each queue that there may be jobs again.
func (u *Union[T]) reserveWatching(ctx context.Context, n int) (got []chosen, news []<-chan error, err error) {
	first := &u.queues[0].engine
	if first.signals != nil {
		for _, q := range u.queues {
			news = append(news, q.signals.Wait(q.topic())) // before looking
		}
		got, err = do(ctx, first, &u.reserves, u.runReserves, n)
		return got, news, err
	}
	attempts := 0
	got, err = outcome.Do(ctx, first.lanes, func(tx kv.Tx) ([]chosen, error) {
		attempts++
		got, err := u.reserveIn(tx, n)
		u.note(tx, got, 1, &attempts)
		news = nil
		for _, q := range u.queues {
			if err == nil && len(got) == 0 {
				news = append(news, tx.Watch(q.signal))
			}
		}
		return got, err
	})
	return got, news, first.wrap(err)
}

// await returns what delivers something when there is news of a queue, or something is due in one, until ctx ends.
func (u *Union[T]) await(ctx context.Context, news []<-chan error) <-chan error {
	next := int64(jobs.Never)
	for _, q := range u.queues {
		next = min(next, q.clock.at())
	}
	var due <-chan time.Time
	stop := func() bool { return false }
	if next != jobs.Never {
		timer := time.NewTimer(max(0, span(next-micros(u.queues[0].now())+1)))
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
