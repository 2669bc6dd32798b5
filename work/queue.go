package work

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/conq-go/conq/internal/reads"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Queue is a handle of a work queue whose jobs have values of type T. It is safe for concurrent use.
type Queue[T any] struct {
	engine
	codec queue.Codec[T]
}

// Put adds a job, and returns its id once the job is durable. If a job with the same Unique exists, Put returns that job's
// id and ErrDuplicate. It conflicts with nothing, unless the job has a Key or is Unique.
func (q *Queue[T]) Put(ctx context.Context, value T, job ...Job) (ID, error) {
	j, err := options.Only(job)
	if err != nil {
		return 0, q.wrap(err)
	}
	n, err := q.encode(value, j)
	if err != nil {
		return 0, err
	}
	done, err := do(ctx, &q.engine, &q.puts, []jobs.New{n})
	if err != nil {
		return 0, err
	}
	return done[0].id, q.wrap(done[0].err)
}

// New is a job to put, with its value.
type New[T any] struct {
	Value T
	Job
}

// PutAll adds jobs in one transaction, and returns their ids. A duplicate is not added and does not hinder the others:
// its id is that of the job that exists. duplicates is how many there were. If the jobs are too large for one transaction,
// the error is kv.ErrTooLarge, and none was added.
func (q *Queue[T]) PutAll(ctx context.Context, all []New[T]) (ids []ID, duplicates int, err error) {
	encoded := make([]jobs.New, len(all))
	for i, v := range all {
		if encoded[i], err = q.encode(v.Value, v.Job); err != nil {
			return nil, 0, fmt.Errorf("job %d: %w", i, err)
		}
	}
	if len(encoded) == 0 {
		return nil, 0, q.ready(ctx)
	}
	done, err := do(ctx, &q.engine, &q.puts, encoded)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range done {
		if ids = append(ids, p.id); p.err != nil {
			duplicates++
		}
	}
	return ids, duplicates, nil
}

func (q *Queue[T]) encode(value T, j Job) (jobs.New, error) {
	if q.db == nil {
		return jobs.New{}, errUnopened
	}
	payload, err := q.codec.Encode(value)
	if err != nil {
		return jobs.New{}, q.wrap(fmt.Errorf("value does not encode: %w", err))
	}
	if limit := budget.MaxPayload(q.limits); len(payload) > limit {
		return jobs.New{}, q.wrap(&kv.TooLargeError{What: "payload", Size: len(payload), Limit: limit, Unit: "bytes"})
	}
	n, err := q.options.check(j, payload, q.now())
	if err == nil {
		err = q.recipe.CheckNew(&n, q.options.Holder)
	}
	return n, q.wrap(err)
}

// Reserve leases the first ready job, or returns conq.ErrEmpty. At most one ReserveOptions may be given.
func (q *Queue[T]) Reserve(ctx context.Context, opts ...ReserveOptions) (*Lease[T], error) {
	return theOne(q.ReserveN(ctx, 1, opts...))
}

// ReserveN leases up to n jobs, or returns conq.ErrEmpty if none is ready. They may be fewer than there are, where payloads are
// large. Where the engine limits the operations of a transaction it takes several. A job that does not decode is dead, with
// the reason, and the handle's Logger, or the OnError of the Run that reserves, is told. A lease that is over by the time that
// it is known is not handed out.
func (q *Queue[T]) ReserveN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error) {
	return reserveNow(ctx, q, &q.reserve, n, opts)
}

// ReserveWait is Reserve, but waits until there is a job, or ctx ends: then the error is ctx's cause. Callers that wait on one
// handle get jobs in the order in which they began to wait. When the handle is closed, the error is conq.ErrClosed.
func (q *Queue[T]) ReserveWait(ctx context.Context, opts ...ReserveOptions) (*Lease[T], error) {
	return theOne(q.ReserveWaitN(ctx, 1, opts...))
}

// ReserveWaitN is ReserveN, but waits until there is at least one job, or ctx ends. See ReserveWait.
func (q *Queue[T]) ReserveWaitN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error) {
	return reserveWait(ctx, q, &q.reserve, n, opts)
}

func theOne[T any](all []*Lease[T], err error) (*Lease[T], error) {
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// leaser is a queue, or a union of some.
type leaser[T any] interface {
	ready(ctx context.Context) error
	wrap(err error) error
	handOut(ctx context.Context, got []reserved) ([]*Lease[T], error)
}

// reserveNow leases what is ready. What does not decode, or came too late, is passed over.
func reserveNow[T any](ctx context.Context, q leaser[T], from *reserver, n int, given []ReserveOptions) ([]*Lease[T], error) {
	return reserve(ctx, q, given, func(o ReserveOptions) ([]reserved, error) {
		got, err := from.try(ctx, n, o)
		if err == nil && len(got) == 0 {
			err = q.wrap(queue.ErrEmpty)
		}
		return got, err
	})
}

// reserveWait waits until something is ready.
func reserveWait[T any](ctx context.Context, q leaser[T], from *reserver, n int, given []ReserveOptions) ([]*Lease[T], error) {
	return reserve(ctx, q, given, func(o ReserveOptions) ([]reserved, error) { return from.wait(ctx, n, o) })
}

func reserve[T any](ctx context.Context, q leaser[T], given []ReserveOptions, some func(ReserveOptions) ([]reserved, error)) ([]*Lease[T], error) {
	o, err := options.Only(given)
	if err != nil {
		return nil, q.wrap(err)
	}
	for {
		if err := q.ready(ctx); err != nil {
			return nil, err
		}
		got, err := some(o)
		if err != nil {
			return nil, err
		}
		if leases, err := q.handOut(ctx, got); err != nil || len(leases) > 0 {
			return leases, err
		}
	}
}

// handOut makes leases of jobs that were reserved.
func (q *Queue[T]) handOut(ctx context.Context, got []reserved) ([]*Lease[T], error) {
	leases := make([]*Lease[T], len(got))
	for i, r := range got {
		leases[i] = q.leaseOf(r.Reserved)
	}
	return Decode(ctx, q.codec, leases)
}

// Get returns a job in any state, or ErrNotFound.
func (q *Queue[T]) Get(ctx context.Context, id ID) (*Info[T], error) {
	q.fresh(ctx)
	var info *Info[T]
	err := q.view(ctx, func(r kv.Reader) error {
		q.recipe.Expect(r, []int64{int64(id)}, nil)
		at, err := q.recipe.At(r)
		if err != nil {
			return err
		}
		j, err := at.Load(r, int64(id))
		if err != nil {
			return err
		}
		info, err = q.info(at, r, j)
		return err
	})
	return info, err
}

// Result returns the result with which a job was acknowledged, as long as Settings.Keep keeps the job, or nil.
func (q *Queue[T]) Result(ctx context.Context, id ID) (result []byte, err error) {
	q.fresh(ctx)
	err = q.view(ctx, func(r kv.Reader) error {
		result, err = q.recipe.Result(r, int64(id))
		return err
	})
	return result, err
}

func (q *Queue[T]) info(at *jobs.Queue, r kv.Reader, j *jobs.Job) (*Info[T], error) {
	info := &Info[T]{
		ID: ID(j.ID), State: State(j.State), Priority: j.Priority, Attempts: int(j.Attempts), MaxAttempts: int(at.Attempts(j)),
		Created: timeOf(j.Created), Key: j.Key, Unique: j.Unique, Holder: j.Holder, Cancelled: j.Cancelled,
		Meta: j.Meta, Failures: failures(j), Lease: time.Duration(j.Lease) * time.Microsecond, Timeout: span(at.Timeout(j)), History: historyOf(j.History),
	}
	if j.State != jobs.Ready && j.State != jobs.Blocked {
		info.Time = timeOf(j.Time)
	}
	var err error
	switch info.Payload, err = q.recipe.Payload(r, j); {
	case errors.Is(err, queue.ErrCorrupt):
		info.DecodeError = err
	case err != nil:
		return nil, err
	default:
		info.Value, info.DecodeError = decode(q.codec, info.Payload)
	}
	return info, nil
}

// view runs f with a reader of one version.
func (e *engine) view(ctx context.Context, f func(kv.Reader) error) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	return e.wrap(e.db.ReadTransact(ctx, f))
}

// Bounds of what one transaction reads of a list.
const (
	pageSize  = 100     // jobs
	pageBytes = 8 << 20 // of their payloads
	scanned   = 2000    // jobs that are looked at
)

// List returns the jobs that match, in the order of their state, or in the order of their ids if the filter has no
// state. It reads a page at a time, each in a transaction of its own: a job that changes its place meanwhile may be missed,
// or come twice.
func (q *Queue[T]) List(ctx context.Context, f Filter) iter.Seq2[*Info[T], error] {
	return reads.Pages(func(after []byte) ([]*Info[T], []byte, error) { return q.Page(ctx, f, after, pageSize) })
}

// Page returns up to n of the jobs that match, and next, which is where the following Page goes on; after is the next of
// the one before, or nil. A page is shorter if its jobs are large, or if few of the jobs that it has looked at match: it may
// even be empty. At the end next is nil.
func (q *Queue[T]) Page(ctx context.Context, f Filter, after []byte, n int) (infos []*Info[T], next []byte, err error) {
	infos, next, _, err = q.Search(ctx, f, after, n)
	return infos, next, err
}

// Search is Page, and returns at how many jobs it has looked, too.
func (q *Queue[T]) Search(ctx context.Context, f Filter, after []byte, n int) (infos []*Info[T], next []byte, looked int, err error) {
	if n < 1 {
		return nil, nil, 0, q.wrap(invalid("a page of %d jobs: it can be from 1 on", n))
	}
	if after == nil {
		q.fresh(ctx)
	}
	err = q.view(ctx, func(r kv.Reader) (err error) {
		infos = nil
		size := 0
		at, err := q.recipe.At(r)
		if err != nil {
			return err
		}
		of := f.jobs()
		of.Payloads = true
		next, looked, err = q.matching(r, f, of, after, max(n, scanned), func(j *jobs.Job) (bool, error) {
			info, err := q.info(at, r, j)
			if err != nil {
				return false, err
			}
			infos = append(infos, info)
			size += len(info.Payload)
			return len(infos) < n && size < pageBytes, nil
		})
		return err
	})
	return infos, next, looked, err
}

// matching is jobs.Queue.List.
func (q *Queue[T]) matching(r kv.Reader, f Filter, of jobs.Filter, after []byte, scan int, found func(*jobs.Job) (bool, error)) ([]byte, int, error) {
	switch {
	case f.State < 0 || f.State > Done:
		return nil, 0, invalid("there is no %v", f.State)
	case f.MinAttempts < 0:
		return nil, 0, invalid("MinAttempts is %d: it can't be negative", f.MinAttempts)
	}
	return q.recipe.List(r, of, after, scan, found)
}

// Peek returns the first n ready jobs without leasing them, or as many as there are.
func (q *Queue[T]) Peek(ctx context.Context, n int) (all []*Info[T], err error) {
	if n < 1 {
		return nil, q.wrap(invalid("%d jobs to peek at: it can be from 1 on", n))
	}
	var after []byte
	for len(all) < n {
		infos, next, err := q.Page(ctx, Filter{State: Ready}, after, n-len(all))
		if err != nil {
			return nil, err
		}
		if all, after = append(all, infos...), next; after == nil {
			break
		}
	}
	return all, nil
}

// Stats is how many jobs there are in each state, and whether the queue is paused.
type Stats struct {
	Ready     int64 `json:"ready"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	Blocked   int64 `json:"blocked"`
	Dead      int64 `json:"dead"`
	Done      int64 `json:"done"`
	Paused    bool  `json:"paused"`
}

// Drained tells whether a worker need not wait for a job to become ready soon: none is ready, nor leased, or the queue is paused.
func (s Stats) Drained() bool {
	return s.Paused || s.Ready == 0 && s.Leased == 0 // one that is blocked may be behind one that is tried again in days
}

// Drained returns Stats.Drained.
func (q *Queue[T]) Drained(ctx context.Context) (bool, error) {
	s, err := q.Stats(ctx)
	return s.Drained(), err
}

// Stats returns how many jobs there are in each state. It reads a few counters, however many jobs there are.
func (q *Queue[T]) Stats(ctx context.Context) (s Stats, err error) {
	q.fresh(ctx)
	err = q.view(ctx, func(r kv.Reader) error {
		q.recipe.Expect(r, nil, nil)
		n, err := q.recipe.Counts(r)
		if err != nil {
			return err
		}
		s = Stats{n[jobs.Ready], n[jobs.Scheduled], n[jobs.Leased], n[jobs.Blocked], n[jobs.Dead], n[jobs.Done], false}
		at, err := q.recipe.At(r)
		if err == nil {
			s.Paused = at.Paused()
		}
		return err
	})
	return s, err
}

// Close closes the handle, but not the store. Callers that wait get ErrClosed. Leases stay as they are: each job comes back
// when its lease is over. A second call does nothing.
func (q *Queue[T]) Close() error { return q.close() }

// Name returns the queue's name.
func (q *Queue[T]) Name() string { return q.name }
