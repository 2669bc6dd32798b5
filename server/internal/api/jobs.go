package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// newJob is a job to be put.
type newJob struct {
	Payload
	Priority    int64             `json:"priority,omitempty" doc:"The lowest is first. Default: 0."`
	Delay       duration          `json:"delay,omitzero" doc:"How long from now it is ready. Only one of delay and at can be given. Default: at once."`
	At          time.Time         `json:"at,omitzero" doc:"When it is ready."`
	Key         string            `json:"key,omitempty" doc:"Jobs of one key run one after the other."`
	Unique      string            `json:"unique,omitempty" doc:"While a job with the same text is not done, the job is a duplicate, and not put."`
	UniqueFor   duration          `json:"unique_for,omitzero" doc:"How long that holds at least."`
	MaxAttempts int               `json:"max_attempts,omitempty" doc:"How often it is tried before it is dead; -1 is without end. Default: 20."`
	Lease       duration          `json:"lease,omitzero" doc:"How long a worker has it before others get it. Default: 30s."`
	Meta        map[string]string `json:"meta,omitempty" doc:"Handed to workers as it is."`
}

type jobList struct {
	Jobs []newJob `json:"jobs" nullable:"false"`
}

func (j *newJob) work() work.Job {
	return work.Job{
		Priority: j.Priority, Delay: j.Delay.Duration, At: j.At, Key: j.Key, Unique: j.Unique, UniqueFor: j.UniqueFor.Duration,
		MaxAttempts: j.MaxAttempts, Lease: j.Lease.Duration, Meta: j.Meta,
	}
}

// putIn has in headers what a body of bytes does not say. Texts in them are escaped as in a URL.
type putIn struct {
	QueueIn
	KeyIn
	Exchange
	Priority    int64     `header:"Conq-Priority" doc:"Conq- headers are for a body of bytes, and as the members of that name in JSON. Texts are escaped as in URLs. Conq-Meta-NAME is metadata, its name in lower case."`
	Delay       duration  `header:"Conq-Delay"`
	At          time.Time `header:"Conq-At" timeFormat:"2006-01-02T15:04:05.999999999Z07:00"`
	JobKey      string    `header:"Conq-Key"`
	Unique      string    `header:"Conq-Unique"`
	UniqueFor   duration  `header:"Conq-Unique-For"`
	MaxAttempts int       `header:"Conq-Max-Attempts"`
	Lease       duration  `header:"Conq-Lease"`
}

const metaHeader = "Conq-Meta-"

func (in *putIn) job(b []byte) (j newJob, err error) {
	j = newJob{
		Payload: Payload{Base64: &b}, Priority: in.Priority, Delay: in.Delay, At: in.At, UniqueFor: in.UniqueFor,
		MaxAttempts: in.MaxAttempts, Lease: in.Lease, Meta: make(map[string]string),
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

func (a *api) putJobs(ctx context.Context, in *putIn) (*reply, error) {
	return (&addition[newJob]{
		api: a, exchange: &in.Exchange, queue: in.Queue, key: in.Key, list: "jobs",
		check:     func(j *newJob) error { return j.Payload.check() },
		size:      func(j *newJob) int { return j.Payload.size() },
		each:      24, // with a key, a claim and what becomes due
		fromBytes: in.job,
		open: func(ctx context.Context, batch []newJob) (destined, func(), error) {
			q, release, err := a.Queues.Work(ctx, in.Queue, queues.Create)
			return put{q, batch, a.traceOf(&in.Exchange)}, release, err
		},
	}).run(ctx)
}

type put struct {
	queue *queues.Work
	jobs  []newJob
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
	j := p.jobs[i].work()
	if _, own := j.Meta["traceparent"]; !own && p.trace["traceparent"] != "" {
		j.Meta = maps.Clone(j.Meta)
		if j.Meta == nil {
			j.Meta = make(map[string]string)
		}
		maps.Copy(j.Meta, p.trace)
	}
	return j
}

func (p put) add(ctx context.Context) (added, error) {
	news := make([]work.New[[]byte], len(p.jobs))
	for i := range p.jobs {
		news[i] = work.New[[]byte]{Value: p.jobs[i].bytes(), Job: p.job(i)}
	}
	ids, duplicates, err := p.queue.PutAll(ctx, news)
	sum := added{Added: len(ids) - duplicates, Duplicates: duplicates}
	for _, id := range ids {
		sum.IDs = append(sum.IDs, int64(id))
	}
	return sum, err
}

func (p put) addIn(tx kv.Tx) (sum added, err error) {
	for i := range p.jobs {
		id, err := p.queue.In(tx).Put(p.jobs[i].bytes(), p.job(i))
		switch {
		case errors.Is(err, work.ErrDuplicate):
			sum.Duplicates++
		case err != nil:
			return added{}, fmt.Errorf("job %d: %w", i, err)
		default:
			sum.Added++
		}
		sum.IDs = append(sum.IDs, int64(id))
	}
	return sum, nil
}

// failure is how an attempt ended.
type failure struct {
	Attempt int       `json:"attempt"`
	Time    time.Time `json:"time"`
	Error   string    `json:"error"`
	Holder  string    `json:"holder,omitempty"`
}

func failuresOf(all []work.Failure) (failures []failure) {
	for _, f := range all {
		failures = append(failures, failure(f))
	}
	return failures
}

// leasedJob is a job that a worker has got.
type leasedJob struct {
	ID    int64  `json:"id"`
	Token string `json:"token" doc:"The right to end the lease: what the verbs of the job ask for."`
	Payload
	Priority int64             `json:"priority"`
	Attempt  int               `json:"attempt" doc:"The first is 1."`
	Created  time.Time         `json:"created"`
	Deadline time.Time         `json:"deadline" doc:"When others get the job."`
	Lease    duration          `json:"lease" doc:"How long from now that is, whatever the clocks say."`
	Key      string            `json:"key,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Failures []failure         `json:"failures,omitempty" doc:"Of earlier attempts, the last few, oldest first."`
}

type leasedList struct {
	Jobs []leasedJob `json:"jobs" nullable:"false"`
}

type lease = work.Lease[[]byte]

func (f form) leased(l *lease) leasedJob {
	return leasedJob{
		ID: int64(l.ID), Token: l.Token(), Payload: f.payload(l.Payload), Priority: l.Priority, Attempt: l.Attempt, Created: l.Created,
		Deadline: l.Deadline(), Lease: duration{max(0, time.Until(l.Deadline())).Round(time.Millisecond)}, Key: l.Key, Meta: l.Meta, Failures: failuresOf(l.Failures),
	}
}

type reserveIn struct {
	QueueIn
	Exchange
	FormIn
	N     int      `query:"n" minimum:"1" maximum:"1000" default:"1" doc:"Up to how many."`
	Wait  duration `query:"wait" doc:"How long to wait for a job if none is ready, up to 1h. Default: not at all."`
	Lease duration `query:"lease" doc:"How long to have them, from now. Default: as the job says, or 30s."`
}

func (a *api) reserve(ctx context.Context, in *reserveIn) (*reply, error) {
	if err := access.Check(ctx, access.Consume, in.Queue); err != nil {
		return nil, err
	}
	if d := in.Lease.Duration; d != 0 && (d < work.MinLease || d > work.MaxLease) {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("lease is %v: it can be %v to %v", d, work.MinLease, work.MaxLease))
	}
	format, err := in.format(&in.Exchange, in.N)
	if err != nil {
		return nil, err
	}
	q, release, err := a.Queues.Work(ctx, in.Queue, queues.Existing)
	if err != nil {
		return nil, err
	}
	defer release()
	leases, err := waiting(ctx, a, in.Wait.Duration,
		func(ctx context.Context) ([]*lease, error) { return q.TryReserve(ctx, in.N) },
		func(ctx context.Context) ([]*lease, error) { return q.ReserveN(ctx, in.N) })
	if err != nil {
		return nil, err
	}
	if leases, err = a.hold(ctx, leases, in.Lease.Duration); err != nil {
		return nil, err
	}
	return replyLeases(format, in.Form, leases), nil
}

// hold gives leases their length, and those of a client that has gone back.
func (a *api) hold(ctx context.Context, leases []*lease, d time.Duration) (held []*lease, err error) {
	if d != 0 && ctx.Err() == nil {
		errs := together(len(leases), func(i int) error { return leases[i].Extend(ctx, d) })
		for i, err := range errs {
			if err == nil {
				held = append(held, leases[i])
			}
		}
		leases = held
	}
	if ctx.Err() != nil {
		together(len(leases), func(i int) error { return leases[i].Release(context.WithoutCancel(ctx), 0) })
		return nil, context.Cause(ctx)
	}
	return leases, nil
}

// together calls f with 0 to n-1 at the same time, so that the calls share transactions, and returns their errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 {
		errs[0] = f(0)
		return errs
	}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

func replyLeases(format string, f form, leases []*lease) *reply {
	return replyEach(format, "jobs", leases, f.leased, func(l *lease) *reply { return replyBytes(l.Payload, leaseHeader(l)) })
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
	for name, value := range l.Meta {
		h.Set(metaHeader+url.PathEscape(name), url.PathEscape(value))
	}
	return h
}

// jobInfo is all that there is to know of a job.
type jobInfo struct {
	ID    int64  `json:"id"`
	State string `json:"state" enum:"ready,scheduled,leased,blocked,dead,done"`
	Payload
	Priority    int64             `json:"priority"`
	Attempts    int               `json:"attempts" doc:"How many have begun."`
	MaxAttempts int               `json:"max_attempts" doc:"0 is without end."`
	Created     time.Time         `json:"created"`
	Time        time.Time         `json:"time,omitzero" doc:"When it is ready, its lease is over, it died, or is forgotten."`
	Key         string            `json:"key,omitempty"`
	Unique      string            `json:"unique,omitempty"`
	Holder      string            `json:"holder,omitempty" doc:"Of its last lease."`
	Cancelled   bool              `json:"cancelled,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Failures    []failure         `json:"failures,omitempty" doc:"The last few, oldest first."`
	History     jobHistory        `json:"history,omitzero"`
	Result      *Payload          `json:"result,omitempty" doc:"What it was acknowledged with, while it is kept."`
}

// jobHistory is what has happened to a job.
type jobHistory struct {
	Delay    duration `json:"delay,omitzero" doc:"That it was put or released with last."`
	Releases int      `json:"releases,omitempty" doc:"Attempts that ended so do not count."`
	Expiries int      `json:"expiries,omitempty" doc:"Leases that ran out."`
	Buries   int      `json:"buries,omitempty" doc:"How often it died."`
	Kicks    int      `json:"kicks,omitempty"`
}

func historyOf(h work.History) jobHistory {
	return jobHistory{duration{h.Delay}, h.Releases, h.Expiries, h.Buries, h.Kicks}
}

func (f form) info(i *work.Info[[]byte]) jobInfo {
	return jobInfo{
		ID: int64(i.ID), State: i.State.String(), Payload: f.payload(i.Payload), Priority: i.Priority, Attempts: i.Attempts,
		MaxAttempts: i.MaxAttempts, Created: i.Created, Time: i.Time, Key: i.Key, Unique: i.Unique, Holder: i.Holder,
		Cancelled: i.Cancelled, Meta: i.Meta, Failures: failuresOf(i.Failures), History: historyOf(i.History),
	}
}

// FilterIn says which jobs.
type FilterIn struct {
	State       string `query:"state" json:"state,omitempty" enum:"ready,scheduled,leased,blocked,dead,done" doc:"Default: any."`
	Key         string `query:"key" json:"key,omitempty" doc:"Default: any."`
	Contains    string `query:"contains" json:"contains,omitempty" doc:"A text in the payload or the error of an attempt. Default: any."`
	MinAttempts int    `query:"min_attempts" json:"min_attempts,omitempty" doc:"Default: any number."`
	Holder      string `query:"holder" json:"holder,omitempty" doc:"Of its last lease. Default: any."`

	Before  time.Time `query:"before" json:"before,omitzero" doc:"It was put before that time. Default: at any time."`
	Reverse bool      `query:"reverse" json:"reverse,omitempty" doc:"Begin with the last one."`
}

func (f FilterIn) filter() (w work.Filter, err error) {
	w = work.Filter{Key: f.Key, Contains: f.Contains, MinAttempts: f.MinAttempts, Holder: f.Holder, Before: f.Before, Reverse: f.Reverse}
	if f.State != "" {
		w.State, err = work.ParseState(f.State)
	}
	return w, err
}

type listJobsIn struct {
	QueueIn
	FormIn
	FilterIn
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"How many jobs a page has at most."`
	After string `query:"after" doc:"The next of the page before."`
}

type listJobsOut struct {
	Body struct {
		Jobs []jobInfo `json:"jobs" nullable:"false"`
		Next string    `json:"next,omitempty" doc:"What to give as after for the next page. A page may be empty and still have it. It is not there at the end."`
	}
}

func (a *api) listJobs(ctx context.Context, in *listJobsIn) (*listJobsOut, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	after, err := base64.RawURLEncoding.DecodeString(in.After)
	if err != nil {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("after is %.60q: it has to be the next of another page", in.After))
	}
	if in.After == "" {
		after = nil
	}
	out := new(listJobsOut)
	err = a.withJobs(ctx, access.Consume, in.Queue, func(q *queues.Work) error {
		infos, next, err := q.Page(ctx, filter, after, in.Limit)
		out.Body.Jobs = make([]jobInfo, len(infos))
		for i, info := range infos {
			out.Body.Jobs[i] = in.Form.info(info)
		}
		out.Body.Next = base64.RawURLEncoding.EncodeToString(next)
		return err
	})
	return out, err
}

// withJobs calls f with a work queue that the caller may do that to.
func (a *api) withJobs(ctx context.Context, s access.Scope, name string, f func(*queues.Work) error) error {
	if err := access.Check(ctx, s, name); err != nil {
		return err
	}
	q, release, err := a.Queues.Work(ctx, name, queues.Existing)
	if err != nil {
		return err
	}
	defer release()
	return f(q)
}
