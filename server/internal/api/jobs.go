package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// putIn has in headers what a body of bytes does not say. Texts in them are escaped as in a URL.
type putIn struct {
	QueueIn
	KeyIn
	Exchange
	Priority    int64         `header:"Conq-Priority" doc:"Conq- headers are for a body of bytes, and as the members of that name in JSON. Texts are escaped as in URLs. Conq-Meta-NAME is metadata, its name in lower case."`
	Delay       wire.Duration `header:"Conq-Delay"`
	At          time.Time     `header:"Conq-At" timeFormat:"2006-01-02T15:04:05.999999999Z07:00"`
	JobKey      string        `header:"Conq-Key"`
	Unique      string        `header:"Conq-Unique"`
	UniqueFor   wire.Duration `header:"Conq-Unique-For"`
	MaxAttempts int           `header:"Conq-Max-Attempts"`
	Lease       wire.Duration `header:"Conq-Lease"`
	Timeout     wire.Timeout  `header:"Conq-Timeout"`
}

const metaHeader = "Conq-Meta-"

func (in *putIn) job(b []byte) (j wire.NewJob, err error) {
	j = wire.NewJob{
		Payload: wire.Base64(b), Priority: in.Priority, Delay: in.Delay, At: in.At, UniqueFor: in.UniqueFor,
		MaxAttempts: in.MaxAttempts, Lease: in.Lease, Timeout: in.Timeout, Meta: make(map[string]string),
	}
	unescape := func(name, text string) string {
		unescaped, failed := url.PathUnescape(text)
		if failed != nil {
			err = fmt.Errorf("%s: %w", name, failed)
		}
		return unescaped
	}
	j.Key, j.Unique = unescape("Conq-Key", in.JobKey), unescape("Conq-Unique", in.Unique)
	in.ctx.EachHeader(func(name, value string) {
		if meta, ok := strings.CutPrefix(name, metaHeader); ok {
			j.Meta[strings.ToLower(meta)] = unescape(name, value)
		}
	})
	return j, err
}

func (a *api) putJobs(ctx context.Context, in *putIn) (reply, error) {
	return (&addition[wire.NewJob]{
		api: a, exchange: &in.Exchange, queue: in.Queue, key: in.Key, list: "jobs",
		each:      24, // with a key, a claim and what becomes due
		fromBytes: in.job,
		open: func(ctx context.Context, batch []wire.NewJob) (destined, func(), error) {
			q, release, err := a.Queues.Work(ctx, in.Queue, queues.Create)
			return put{q, batch, a.traceOf(&in.Exchange)}, release, err
		},
	}).run(ctx)
}

type put struct {
	queue *queues.Work
	jobs  []wire.NewJob
	trace map[string]string
}

// traceOf returns the trace of a request as metadata of jobs, if the server hands traces on.
func (a *api) traceOf(e *Exchange) map[string]string {
	trace := make(map[string]string)
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := e.ctx.Header(name); a.Traces && value != "" && len(value) <= 512 {
			trace[name] = value
		}
	}
	return trace
}

// job returns how a job is put: with the trace of the request, unless it has its own.
func (p put) job(i int) work.Job {
	j := p.jobs[i].Job()
	if _, own := j.Meta["traceparent"]; !own && p.trace["traceparent"] != "" {
		j.Meta = maps.Clone(j.Meta)
		if j.Meta == nil {
			j.Meta = make(map[string]string)
		}
		maps.Copy(j.Meta, p.trace)
	}
	return j
}

func (p put) add(ctx context.Context) (wire.Added, error) {
	news := make([]work.New[[]byte], len(p.jobs))
	for i := range p.jobs {
		news[i] = work.New[[]byte]{Value: p.jobs[i].Bytes(), Job: p.job(i)}
	}
	ids, duplicates, err := p.queue.PutAll(ctx, news)
	return wire.Added{Added: len(ids) - duplicates, IDs: ids, Duplicates: duplicates}, err
}

func (p put) addIn(tx kv.Tx) (sum wire.Added, err error) {
	for i := range p.jobs {
		id, err := p.queue.In(tx).Put(p.jobs[i].Bytes(), p.job(i))
		switch {
		case errors.Is(err, work.ErrDuplicate):
			sum.Duplicates++
		case err != nil:
			return wire.Added{}, fmt.Errorf("job %d: %w", i, err)
		default:
			sum.Added++
		}
		sum.IDs = append(sum.IDs, id)
	}
	return sum, nil
}

type lease = work.Lease[[]byte]

// leased is a job of a request that came in at a time.
func (f form) leased(l *lease, came time.Time) wire.LeasedJob {
	return wire.LeasedJob{
		ID: l.ID, Token: l.Token(), Payload: f.payload(l.Payload), Priority: l.Priority, Attempt: l.Attempt, Created: l.Created,
		Deadline: l.Deadline(), Lease: wire.Duration{Duration: max(0, time.Until(l.Deadline())).Round(time.Millisecond)}, Took: wire.Duration{Duration: time.Since(came).Truncate(time.Millisecond)}, Key: l.Key, Meta: l.Meta, Failures: l.Failures,
		Timeout: wire.Duration{Duration: l.Timeout},
	}
}

type reserveIn struct {
	QueueIn
	Exchange
	FormIn
	N      int           `query:"n" minimum:"1" maximum:"1000" default:"1" doc:"Up to how many."`
	Wait   wire.Duration `query:"wait" doc:"How long to wait for a job if none is ready, up to 1h. Default: not at all."`
	Lease  wire.Duration `query:"lease" doc:"How long to have them, from now. Default: as the job says, or 30s."`
	Holder string        `query:"holder" doc:"Names the worker in the jobs, in filters and on pages: up to 1024 bytes. Default: the server."`
}

func (a *api) reserve(ctx context.Context, q *queues.Work, in *reserveIn) (reply, error) {
	came := time.Now()
	if d := in.Lease.Duration; d != 0 && (d < work.MinLease || d > work.MaxLease) {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("lease is %v: it can be %v to %v", d, work.MinLease, work.MaxLease))
	}
	format, err := in.format(&in.Exchange, in.N)
	if err != nil {
		return nil, err
	}
	o := work.ReserveOptions{Lease: in.Lease.Duration, Holder: in.Holder}
	leases, err := takeWithin(ctx, a, in.Wait.Duration, lateJobs,
		func(ctx context.Context) ([]*lease, error) { return q.ReserveN(ctx, in.N, o) },
		func(ctx context.Context) ([]*lease, error) { return q.ReserveWaitN(ctx, in.N, o) })
	if err != nil {
		return nil, err
	}
	if err := release(ctx, leases); err != nil {
		return nil, err
	}
	return replyLeases(format, in.Form, leases, came), nil
}

// release gives back the jobs of a client that has gone.
func release(ctx context.Context, leases []*lease) error {
	if ctx.Err() == nil {
		return nil
	}
	together(len(leases), func(i int) error { return leases[i].Release(context.WithoutCancel(ctx), 0) })
	return context.Cause(ctx)
}

// together calls f with 0 to n-1 at the same time, so that the calls share transactions, and returns their errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

func replyLeases(format string, f form, leases []*lease, came time.Time) reply {
	document := func(l *lease) wire.LeasedJob { return f.leased(l, came) }
	return replyEach(format, "jobs", leases, document, func(l *lease) reply { return replyBytes(l.Payload, leaseHeader(l)) })
}

// leaseHeader says what stands beside the bytes of a job. Texts are escaped as in a URL.
func leaseHeader(l *lease) http.Header {
	h := http.Header{
		"Conq-Job-Id": {strconv.FormatInt(int64(l.ID), 10)}, "Conq-Token": {l.Token()}, "Conq-Priority": {strconv.FormatInt(l.Priority, 10)},
		"Conq-Attempt": {strconv.Itoa(l.Attempt)}, "Conq-Created": {l.Created.Format(time.RFC3339Nano)},
		"Conq-Deadline": {l.Deadline().Format(time.RFC3339Nano)},
	}
	if l.Key != "" {
		h.Set("Conq-Key", url.PathEscape(l.Key))
	}
	if l.Timeout > 0 {
		h.Set("Conq-Timeout", l.Timeout.String())
	}
	for name, value := range l.Meta {
		h.Set(metaHeader+url.PathEscape(name), url.PathEscape(value))
	}
	return h
}

func (f form) info(i *work.Info[[]byte]) wire.JobInfo {
	j := wire.InfoOf(i)
	j.Payload = f.payload(i.Payload)
	return j
}

// FilterIn says which jobs.
type FilterIn = wire.Filter

type listJobsIn struct {
	QueueIn
	FormIn
	FilterIn
	PageIn
}

func (a *api) listJobs(ctx context.Context, q *queues.Work, in *listJobsIn) (page wire.JobPage, err error) {
	filter, err := in.Filter()
	if err != nil {
		return page, err
	}
	infos, next, err := q.Page(ctx, filter, in.After.Key, in.Limit)
	page.Jobs, page.Next = each(infos, in.Form.info), wire.Place{Key: next}
	return page, err
}
