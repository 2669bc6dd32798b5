package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/history"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// queueInfo is a queue as it was at the last look, which is every second.
type queueInfo struct {
	Name string      `json:"name"`
	Kind conq.Kind   `json:"kind" enum:"queue,priority queue,work queue"`
	At   time.Time   `json:"at,omitzero" doc:"When the server has looked; what follows is missing if it has not yet."`
	Live *queueState `json:"state,omitempty"`
}

type queueState struct {
	Depth     int64     `json:"depth" doc:"Items, or jobs that are neither dead nor done."`
	Estimated bool      `json:"estimated,omitempty" doc:"The depth was counted a while ago, and what has happened since was added."`
	In        float64   `json:"in" doc:"Added a second, over the last ten."`
	Out       float64   `json:"out" doc:"Taken or done a second."`
	Failed    float64   `json:"failed" doc:"Attempts that failed a second."`
	Oldest    time.Time `json:"oldest,omitzero" doc:"Since when the oldest is there that could be taken."`
	AtLeast   bool      `json:"at_least,omitempty" doc:"It may have been there before oldest."`
	Jobs      *jobState `json:"jobs,omitempty"`
	Error     string    `json:"error,omitempty" doc:"Why the queue could not be read."`
}

type jobState work.Stats

func stateOf(s *history.State) *queueState {
	state := &queueState{
		Depth: s.Depth, Estimated: s.Estimated, In: s.In, Out: s.Out, Failed: s.Failed, Oldest: s.Oldest, AtLeast: s.AtLeast,
	}
	if s.Kind == conq.KindWorkQueue {
		state.Jobs = &jobState{s.Ready, s.Scheduled, s.Leased, s.Blocked, s.Dead, s.Done, s.Paused}
	}
	if s.Err != nil {
		state.Error = s.Err.Error()
	}
	return state
}

type listOut struct {
	Body struct {
		Queues []queueInfo `json:"queues" nullable:"false"`
	}
}

func (a *api) listQueues(ctx context.Context, _ *struct{}) (*listOut, error) {
	all, err := a.Queues.All(ctx)
	if err != nil {
		return nil, err
	}
	out := new(listOut)
	out.Body.Queues = []queueInfo{}
	for _, info := range all {
		if access.Check(ctx, access.Watch, info.Name) == nil {
			out.Body.Queues = append(out.Body.Queues, a.infoOf(info))
		}
	}
	return out, nil
}

func (a *api) infoOf(info conq.Info) queueInfo {
	q, now := queueInfo{Name: info.Name, Kind: info.Kind}, a.History.Latest()
	if state := now.Queue(info.Name); state != nil {
		q.At, q.Live = now.Time, stateOf(state)
	}
	return q
}

type queueOut struct{ Body queueInfo }

type getQueueIn struct {
	QueueIn
	Count bool `query:"count" doc:"Count now, rather than show what the last look has found. Of a queue and a priority queue that reads all items."`
}

func (a *api) getQueue(ctx context.Context, in *getQueueIn) (*queueOut, error) {
	if err := access.Check(ctx, access.Watch, in.Queue); err != nil {
		return nil, err
	}
	info, err := a.Queues.Lookup(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	out := &queueOut{a.infoOf(info)}
	if in.Count {
		err = a.count(ctx, &out.Body)
	}
	return out, err
}

// count replaces the numbers of the last look by those of now.
func (a *api) count(ctx context.Context, info *queueInfo) error {
	state := queueState{}
	if info.Live != nil {
		state = *info.Live
	}
	err := a.withKind(ctx, info.Name, info.Kind, queues.Existing, func(q queues.Queue) error {
		if jobs, ok := q.(*queues.Work); ok {
			s, err := jobs.Stats(ctx)
			state.Jobs = &jobState{s.Ready, s.Scheduled, s.Leased, s.Blocked, s.Dead, s.Done, s.Paused}
			state.Depth = s.Ready + s.Scheduled + s.Leased + s.Blocked
			return err
		}
		n, err := q.Len(ctx)
		state.Depth = int64(n)
		return err
	})
	state.Estimated = false
	info.At, info.Live = time.Now(), &state
	return err
}

type makeQueueIn struct {
	QueueIn
	Body struct {
		Kind conq.Kind `json:"kind" enum:"queue,priority queue,work queue"`
	}
}

func (a *api) makeQueue(ctx context.Context, in *makeQueueIn) (*empty, error) {
	if err := access.Check(ctx, access.Produce, in.Queue); err != nil {
		return nil, err
	}
	return new(empty), a.withKind(ctx, in.Queue, in.Body.Kind, queues.Create, func(queues.Queue) error { return nil })
}

// withKind calls f with a queue of a kind.
func (a *api) withKind(ctx context.Context, name string, kind conq.Kind, m queues.Mode, f func(queues.Queue) error) error {
	q, release, err := a.Queues.Queue(ctx, name, kind, m)
	if err != nil {
		return err
	}
	defer release()
	return f(q)
}

type purgeIn struct {
	QueueIn
	Confirm string `query:"confirm" doc:"The name of the queue, once more."`
}

func (a *api) purge(ctx context.Context, in *purgeIn) (*empty, error) {
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return nil, err
	}
	if in.Confirm != in.Queue {
		return nil, huma.Error422UnprocessableEntity("all items would be removed: confirm has to be the name of the queue")
	}
	kind, err := a.Queues.Kind(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	access.Audit(ctx, a.Logger, "purge", queueAttr(in.Queue))
	return new(empty), a.withKind(ctx, in.Queue, kind, queues.Existing, func(q queues.Queue) error { return q.Clear(ctx) })
}

func (a *api) pause(ctx context.Context, in *QueueIn) (*empty, error) {
	return a.operated(ctx, "pause", in.Queue, func(q *queues.Work) error { return q.Pause(ctx) })
}

func (a *api) resume(ctx context.Context, in *QueueIn) (*empty, error) {
	return a.operated(ctx, "resume", in.Queue, func(q *queues.Work) error { return q.Resume(ctx) })
}

// operated does to a work queue what only an operator may.
func (a *api) operated(ctx context.Context, action, name string, f func(*queues.Work) error, more ...slog.Attr) (*empty, error) {
	return new(empty), a.withJobs(ctx, access.Admin, name, func(q *queues.Work) error {
		access.Audit(ctx, a.Logger, action, append(more, queueAttr(name))...)
		return f(q)
	})
}

type periodic struct {
	Name    string    `json:"name"`
	Cron    string    `json:"cron"`
	Next    time.Time `json:"next"`
	MaxLate duration  `json:"max_late,omitzero"`
	Payload
}

type periodicsIn struct {
	QueueIn
	FormIn
}

type periodicsOut struct {
	Body struct {
		Periodic []periodic `json:"periodic" nullable:"false"`
	}
}

func (a *api) periodics(ctx context.Context, in *periodicsIn) (*periodicsOut, error) {
	out := new(periodicsOut)
	out.Body.Periodic = []periodic{}
	return out, a.withJobs(ctx, access.Consume, in.Queue, func(q *queues.Work) error {
		all, err := q.Periodics(ctx)
		for _, p := range all {
			out.Body.Periodic = append(out.Body.Periodic, periodic{p.Name, p.Spec, p.Next, duration{p.MaxLate}, in.Form.payload(p.Payload)})
		}
		return err
	})
}

// PeriodicIn is an input with a periodic job.
type PeriodicIn struct {
	QueueIn
	Name string `path:"name" doc:"Of the periodic job."`
}

type everyIn struct {
	PeriodicIn
	Body struct {
		Payload
		Cron        string   `json:"cron" maxLength:"1024" doc:"Minute, hour, day of month, month, day of week (0 and 7 are Sunday); or as @every 90s, @hourly, @daily. CRON_TZ=Europe/Berlin in front names a time zone."`
		Priority    int64    `json:"priority,omitempty"`
		Key         string   `json:"key,omitempty" doc:"Jobs of one key run one after the other."`
		MaxAttempts int      `json:"max_attempts,omitempty"`
		Lease       duration `json:"lease,omitzero"`
		MaxLate     duration `json:"max_late,omitzero" doc:"How late a tick is made up that passed while no worker ran. Default: any time."`
	}
}

func (a *api) every(ctx context.Context, in *everyIn) (*empty, error) {
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return nil, err
	}
	if err := in.Body.check(); err != nil {
		return nil, huma.Error422UnprocessableEntity(err.Error())
	}
	q, release, err := a.Queues.Work(ctx, in.Queue, queues.Create)
	if err != nil {
		return nil, err
	}
	defer release()
	access.Audit(ctx, a.Logger, "every", queueAttr(in.Queue))
	b := &in.Body
	return new(empty), q.Every(ctx, in.Name, b.Cron, b.bytes(), work.EveryOptions{
		Job:     work.Job{Priority: b.Priority, Key: b.Key, MaxAttempts: b.MaxAttempts, Lease: b.Lease.Duration},
		MaxLate: b.MaxLate.Duration,
	})
}

func (a *api) removePeriodic(ctx context.Context, in *PeriodicIn) (*empty, error) {
	return a.operated(ctx, "remove periodic", in.Queue, func(q *queues.Work) error { return q.RemovePeriodic(ctx, in.Name) })
}

type runOut struct {
	Body struct {
		ID int64 `json:"id" doc:"Of the job."`
	}
}

type runIn struct {
	PeriodicIn
	KeyIn
}

func (a *api) runPeriodic(ctx context.Context, in *runIn) (*runOut, error) {
	out := new(runOut)
	_, err := a.operated(ctx, "run periodic", in.Queue, func(q *queues.Work) error {
		ran := func(id work.ID, err error) error {
			out.Body.ID = int64(id)
			return err
		}
		if in.Key == "" {
			return ran(q.RunPeriodic(ctx, in.Name))
		}
		content := []any{"run periodic", in.Queue, in.Name}
		return a.doOnce(ctx, in.Key, content, &out.Body, func(tx kv.Tx) error { return ran(q.In(tx).RunPeriodic(in.Name)) })
	})
	return out, err
}
