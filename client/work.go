package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/reads"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// WorkOptions are the choices of a handle of a work queue. All others are the server's.
type WorkOptions struct {
	// Lease is how long a worker that reserves by this handle has a job: 1 ms to 30 days. Default: as the job or the server says.
	Lease time.Duration

	// Holder names this process in the jobs that it leases, at most work.MaxText bytes. Default: host name and process id.
	Holder string
}

// WorkQueue is a work queue of a server, made by OpenWork. Its methods are those of work.Queue, and work.Run takes jobs from it. It is safe for
// concurrent use.
type WorkQueue[T any] struct {
	*jobs
	codec queue.Codec[T]
}

var _ work.Source[int] = (*WorkQueue[int])(nil)

// jobs is a work queue in bytes.
type jobs struct {
	handle
	options WorkOptions

	puts batch.Batcher[[]wire.NewJob, []work.ID]
	acks batch.Batcher[wire.HeldJob, bool] // whether the lease was lost

	recalls recalls
}

// OpenWork returns the work queue of a name, and makes it if there is none. The error is a queue.ErrKind if the name is of
// a queue of another kind.
func OpenWork[T any](ctx context.Context, c *Client, name string, of queue.Codec[T], opts ...WorkOptions) (*WorkQueue[T], error) {
	o, err := options.Only(opts)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.Lease != 0 && (o.Lease < work.MinLease || o.Lease > work.MaxLease) {
		return nil, fmt.Errorf("client: %w: WorkOptions.Lease is %v: it can be %v to %v", kv.ErrInvalid, o.Lease, work.MinLease, work.MaxLease)
	}
	o.Holder = cmp.Or(o.Holder, work.DefaultHolder())
	if len(o.Holder) > work.MaxText || !utf8.ValidString(o.Holder) {
		return nil, fmt.Errorf("client: %w: WorkOptions.Holder has %d bytes: it can be up to %d of UTF-8", kv.ErrInvalid, len(o.Holder), work.MaxText)
	}
	h, err := c.open(ctx, name, "work queue", of)
	if err != nil {
		return nil, err
	}
	q := &jobs{handle: h, options: o}
	shared(&q.handle, &q.puts, sizeOf, q.runPuts)
	shared(&q.handle, &q.acks, nil, q.runAcks)
	q.recalls.init(q)
	return &WorkQueue[T]{q, of}, nil
}

func (q *jobs) runPuts(ctx context.Context, calls []*batch.Call[[]wire.NewJob, []work.ID]) error {
	var all []wire.NewJob
	for _, c := range calls {
		all = append(all, c.Request...)
	}
	ids, _, err := q.put(ctx, all)
	if err != nil {
		return err
	}
	for _, c := range calls {
		c.Result, ids = ids[:len(c.Request)], ids[len(c.Request):]
	}
	return nil
}

func (q *jobs) put(ctx context.Context, all []wire.NewJob) (ids []work.ID, duplicates int, err error) {
	var answer wire.Added
	err = q.do(ctx, call{method: http.MethodPost, path: jobPath(q.name), body: wire.JobList{Jobs: all}, once: true}, &answer)
	if err == nil && len(answer.IDs) != len(all) {
		err = fmt.Errorf("client: server answered %d ids of %d jobs", len(answer.IDs), len(all))
	}
	return answer.IDs, answer.Duplicates, err
}

// Put adds a job, and returns its id when it is durable. If it is a duplicate of a unique one, the id is that one's, and the
// error a work.ErrDuplicate.
func (q *WorkQueue[T]) Put(ctx context.Context, value T, job ...work.Job) (work.ID, error) {
	var j work.Job
	switch len(job) {
	case 0:
	case 1:
		j = job[0]
	default:
		return 0, fmt.Errorf("client: %w: %d jobs for one value", kv.ErrInvalid, len(job))
	}
	ids, duplicates, err := q.PutAll(ctx, []work.New[T]{{Value: value, Job: j}})
	if err != nil {
		return 0, err
	}
	if duplicates > 0 {
		return ids[0], &work.DuplicateError{ID: ids[0]}
	}
	return ids[0], nil
}

// PutAll adds up to 10,000 jobs in one transaction, and returns their ids. Duplicates do not hinder the others.
func (q *WorkQueue[T]) PutAll(ctx context.Context, all []work.New[T]) (ids []work.ID, duplicates int, err error) {
	if err := checkN(ctx, 1); err != nil {
		return nil, 0, err
	}
	unique := false
	news := make([]wire.NewJob, len(all))
	for i, v := range all {
		payload, err := encode(q.codec, v.Value)
		if err != nil {
			return nil, 0, fmt.Errorf("job %d: %w", i, err)
		}
		news[i] = wire.NewJobOf(payload, v.Job)
		unique = unique || v.Unique != ""
	}
	switch {
	case len(news) == 0:
		return nil, 0, nil
	case unique: // in a request of others it would not be known whose duplicate there is
		return q.put(ctx, news)
	}
	ids, err = q.puts.Do(ctx, news)
	return ids, 0, err
}

// Reserve leases the first ready job, or returns a queue.ErrEmpty. At most one work.ReserveOptions may be given.
func (q *WorkQueue[T]) Reserve(ctx context.Context, opts ...work.ReserveOptions) (*work.Lease[T], error) {
	return first(q.ReserveN(ctx, 1, opts...))
}

// ReserveN leases up to n jobs, or returns a queue.ErrEmpty if none is ready. A job that does not decode is dead, with the reason.
func (q *WorkQueue[T]) ReserveN(ctx context.Context, n int, opts ...work.ReserveOptions) ([]*work.Lease[T], error) {
	o, err := q.reserveOptions(ctx, n, opts)
	if err != nil {
		return nil, err
	}
	leases, err := q.reserve(ctx, n, 0, o)
	if err == nil && len(leases) == 0 {
		err = fmt.Errorf("%w: %q", queue.ErrEmpty, q.name)
	}
	return leases, err
}

// ReserveWait is Reserve, but waits until there is a job, or ctx ends.
func (q *WorkQueue[T]) ReserveWait(ctx context.Context, opts ...work.ReserveOptions) (*work.Lease[T], error) {
	return first(q.ReserveWaitN(ctx, 1, opts...))
}

// ReserveWaitN is ReserveN, but waits until there is at least one job, or ctx ends.
func (q *WorkQueue[T]) ReserveWaitN(ctx context.Context, n int, opts ...work.ReserveOptions) ([]*work.Lease[T], error) {
	o, err := q.reserveOptions(ctx, n, opts)
	if err != nil {
		return nil, err
	}
	return untilSome(ctx, n, func(wait time.Duration) ([]*work.Lease[T], error) { return q.reserve(ctx, n, wait, o) })
}

// reserveOptions returns those of a call: what it does not say is as the handle has it. InProcess, which Run sets, is for
// who has the store: the jobs of a client come back when their leases are over.
func (q *WorkQueue[T]) reserveOptions(ctx context.Context, n int, given []work.ReserveOptions) (o work.ReserveOptions, err error) {
	if err := checkN(ctx, n); err != nil {
		return o, err
	}
	if o, err = options.Only(given); err != nil {
		return o, fmt.Errorf("client: %w", err)
	}
	o.Lease, o.Holder = cmp.Or(o.Lease, q.options.Lease), cmp.Or(o.Holder, q.options.Holder)
	return o, nil
}

func (q *WorkQueue[T]) reserve(ctx context.Context, n int, wait time.Duration, o work.ReserveOptions) (leases []*work.Lease[T], err error) {
	query := url.Values{"n": {strconv.Itoa(min(n, 1000))}, "form": {"base64"}, "holder": {o.Holder}}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	if o.Lease != 0 {
		query.Set("lease", o.Lease.String())
	}
	for {
		var answer wire.LeasedList
		var sent time.Time
		c := call{method: http.MethodPost, path: jobPath(q.name) + "/reserve", query: query, wait: wait, again: true, takes: true, sent: &sent}
		if err := q.do(ctx, c, &answer); err != nil || len(answer.Jobs) == 0 {
			return nil, err
		}
		for _, j := range answer.Jobs {
			// By this machine's clock: the server has the request later than it was sent, and the answer comes later than it was made.
			over := sent.Add(j.Took.Duration + j.Lease.Duration)
			l := work.NewLease[T](keeper{q.jobs}, j.ID, j.Token, j.Lease.Duration, over)
			l.Priority, l.Attempt, l.Created, l.Key, l.Meta, l.Payload = j.Priority, j.Attempt, j.Created, j.Key, j.Meta, j.Bytes()
			l.Failures, l.Timeout = j.Failures, j.Timeout.Duration
			leases = append(leases, l)
		}
		if leases, err = work.Decode(ctx, q.codec, leases); err != nil || len(leases) > 0 {
			return leases, err
		}
	}
}

// Drained tells whether no job is ready, nor leased, or the queue is paused.
func (q *WorkQueue[T]) Drained(ctx context.Context) (bool, error) {
	s, err := q.Stats(ctx)
	return s.Drained(), err
}

// Get returns a job in any state. The error is a work.ErrNotFound if there is none.
func (q *WorkQueue[T]) Get(ctx context.Context, id work.ID) (*work.Info[T], error) {
	j, err := q.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return infoOf(q.codec, j)
}

// Result returns what a job was acknowledged with, while it is kept, or nil.
func (q *jobs) Result(ctx context.Context, id work.ID) ([]byte, error) {
	j, err := q.get(ctx, id)
	switch {
	case errors.Is(err, work.ErrNotFound):
		return nil, nil
	case err != nil || j.Result == nil:
		return nil, err
	}
	return j.Result.Bytes(), nil
}

func (q *jobs) get(ctx context.Context, id work.ID) (j wire.JobInfo, err error) {
	err = q.do(ctx, call{method: http.MethodGet, path: q.path(id), query: url.Values{"form": {"base64"}}, again: true, missing: work.ErrNotFound}, &j)
	return j, err
}

func (q *jobs) path(id work.ID) string { return jobPath(q.name) + "/" + fmt.Sprint(int64(id)) }

func infoOf[T any](c queue.Codec[T], j wire.JobInfo) (*work.Info[T], error) {
	state, err := work.ParseState(j.State)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	h := j.History
	info := &work.Info[T]{
		ID: j.ID, State: state, Priority: j.Priority, Attempts: j.Attempts, MaxAttempts: j.MaxAttempts, Created: j.Created, Time: j.Time,
		Key: j.Key, Unique: j.Unique, Holder: j.Holder, Cancelled: j.Cancelled, Meta: j.Meta, Failures: j.Failures, Payload: j.Bytes(), Timeout: j.Timeout.Duration,
		History: work.History{Delay: h.Delay.Duration, Releases: h.Releases, Expiries: h.Expiries, Buries: h.Buries, Kicks: h.Kicks},
	}
	info.Value, info.DecodeError = c.Decode(info.Payload)
	return info, nil
}

// Page returns up to n of the jobs that match, at most 1000, from where next of another Page says on; see work.Queue.Page.
func (q *WorkQueue[T]) Page(ctx context.Context, f work.Filter, after []byte, n int) (infos []*work.Info[T], next []byte, err error) {
	query := pageQuery(after, n)
	if err := setFilter(query, wire.FilterOf(f)); err != nil {
		return nil, nil, err
	}
	var answer wire.JobPage
	if err := q.do(ctx, call{method: http.MethodGet, path: jobPath(q.name), query: query, again: true}, &answer); err != nil {
		return nil, nil, err
	}
	for _, j := range answer.Jobs {
		info, err := infoOf(q.codec, j)
		if err != nil {
			return nil, nil, err
		}
		infos = append(infos, info)
	}
	return infos, answer.Next.Key, nil
}

// setFilter adds the members of a filter to a query, where they have the names that JSON has.
func setFilter(query url.Values, f wire.Filter) error {
	var members map[string]any
	b, err := json.Marshal(f)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber() // a float would be written with an exponent
		err = d.Decode(&members)
	}
	for name, value := range members {
		query.Set(name, fmt.Sprint(value))
	}
	return err
}

// List returns the jobs that match, a page at a time; see work.Queue.List.
func (q *WorkQueue[T]) List(ctx context.Context, f work.Filter) iter.Seq2[*work.Info[T], error] {
	return reads.Pages(func(after []byte) ([]*work.Info[T], []byte, error) { return q.Page(ctx, f, after, pageSize) })
}

// Peek returns the first ready jobs, up to n, without leasing them.
func (q *WorkQueue[T]) Peek(ctx context.Context, n int) (all []*work.Info[T], err error) {
	var after []byte
	for len(all) < n {
		infos, next, err := q.Page(ctx, work.Filter{State: work.Ready}, after, n-len(all))
		if err != nil {
			return nil, err
		}
		if all, after = append(all, infos...), next; after == nil {
			break
		}
	}
	return all, nil
}
