package api

import (
	"context"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// queueInfo is a queue as it was at the last look, which is every second.
type queueInfo struct {
	Name     string      `json:"name"`
	Kind     conq.Kind   `json:"kind" enum:"queue,priority queue,work queue"`
	Deleting bool        `json:"deleting,omitempty" doc:"Its deletion has begun, and was perhaps broken off: deleting it again completes that."`
	At       time.Time   `json:"at,omitzero" doc:"When the server has looked; what follows is missing if it has not yet."`
	Live     *queueState `json:"state,omitempty"`
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

func stateOf(s *watch.State) *queueState {
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

type queueList struct {
	Queues []queueInfo `json:"queues" nullable:"false"`
	Next   wire.Place  `json:"next,omitzero" doc:"What to give as after for the next page. It is not there at the end."`
}

type listQueuesIn struct {
	noQueue
	Limit int        `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"How many a page has at most."`
	After wire.Place `query:"after" doc:"The next of the page before."`
}

func (a *api) listQueues(ctx context.Context, in *listQueuesIn) (queueList, error) {
	list := queueList{Queues: []queueInfo{}}
	all, err := a.Queues.All(ctx)
	for _, info := range all {
		switch {
		case info.Name <= string(in.After.Key) || access.Check(ctx, access.Watch, info.Name) != nil:
		case len(list.Queues) == in.Limit:
			list.Next = wire.Place{Key: []byte(list.Queues[in.Limit-1].Name)}
			return list, err
		default:
			list.Queues = append(list.Queues, a.infoOf(info))
		}
	}
	return list, err
}

func (a *api) infoOf(info conq.Info) queueInfo {
	q, now := queueInfo{Name: info.Name, Kind: info.Kind, Deleting: info.Deleting}, a.History.Latest()
	if state := now.Queue(info.Name); state != nil {
		q.At, q.Live = now.Time, stateOf(state)
	}
	return q
}

type getQueueIn struct {
	QueueIn
	Count bool `query:"count" doc:"Count now, rather than show what the last look has found. Of a queue and a priority queue that reads all items."`
}

func (a *api) getQueue(ctx context.Context, in *getQueueIn) (q queueInfo, err error) {
	info, err := a.Queues.Lookup(ctx, in.Queue)
	if err != nil {
		return q, err
	}
	if q = a.infoOf(info); in.Count {
		err = a.count(ctx, &q)
	}
	return q, err
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
			state.Jobs = (*jobState)(&s)
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
	err := a.withKind(ctx, in.Queue, in.Body.Kind, queues.Create, func(queues.Queue) error { return nil })
	if err == nil {
		a.History.Refresh()
	}
	return new(empty), err
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
	if in.Confirm != in.Queue {
		return nil, huma.Error422UnprocessableEntity("all items would be removed: confirm has to be the name of the queue")
	}
	kind, err := a.Queues.Kind(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	a.audit(ctx, "purge", in)
	return new(empty), a.withKind(ctx, in.Queue, kind, queues.Existing, func(q queues.Queue) error { return q.Clear(ctx) })
}

func (a *api) deleteQueue(ctx context.Context, in *purgeIn) (*empty, error) {
	if in.Confirm != in.Queue {
		return nil, huma.Error422UnprocessableEntity("the queue would be deleted, with all that it has: confirm has to be its name")
	}
	if err := a.Queues.Delete(ctx, in.Queue); err != nil {
		return nil, err
	}
	a.audit(ctx, "delete queue", in)
	a.History.Refresh()
	return new(empty), nil
}

func (a *api) pause(ctx context.Context, q *queues.Work, _ *QueueIn) error { return q.Pause(ctx) }

func (a *api) resume(ctx context.Context, q *queues.Work, _ *QueueIn) error { return q.Resume(ctx) }

type periodicsIn struct {
	QueueIn
	FormIn
}

func (a *api) periodics(ctx context.Context, q *queues.Work, in *periodicsIn) (wire.PeriodicList, error) {
	all, err := q.Periodics(ctx)
	return wire.PeriodicList{Periodic: each(all, func(p work.Periodic) wire.Periodic {
		return wire.Periodic{Name: p.Name, Cron: p.Spec, Next: p.Next, MaxLate: wire.Duration{Duration: p.MaxLate}, Trouble: p.Trouble, Overlap: p.Overlap.String(), Unique: p.Unique, Payload: in.Form.payload(p.Payload)}
	})}, err
}

// PeriodicIn is an input with a periodic job.
type PeriodicIn struct {
	QueueIn
	Name string `path:"name" doc:"Of the periodic job."`
}

type everyIn struct {
	PeriodicIn
	Body wire.Every
}

func (a *api) every(ctx context.Context, in *everyIn) (*empty, error) {
	if err := in.Body.Check(); err != nil {
		return nil, huma.Error422UnprocessableEntity(err.Error())
	}
	o, err := in.Body.Options()
	if err != nil {
		return nil, err
	}
	q, release, err := a.Queues.Work(ctx, in.Queue, queues.Create)
	if err != nil {
		return nil, err
	}
	defer release()
	a.audit(ctx, "every", in)
	return new(empty), q.Every(ctx, in.Name, in.Body.Cron, in.Body.Bytes(), o)
}

func (a *api) removePeriodic(ctx context.Context, q *queues.Work, in *PeriodicIn) error {
	return q.RemovePeriodic(ctx, in.Name)
}

type runIn struct {
	PeriodicIn
	KeyIn
}

func (a *api) runPeriodic(ctx context.Context, q *queues.Work, in *runIn) (ran wire.Ran, err error) {
	a.audit(ctx, "run periodic", in)
	if in.Key == "" {
		ran.ID, err = q.RunPeriodic(ctx, in.Name)
		return ran, err
	}
	err = a.once(ctx, answers.Request{Key: in.Key}, []any{"run periodic", in.Queue, in.Name}, &ran, func(tx kv.Tx) (any, error) {
		id, err := q.In(tx).RunPeriodic(in.Name)
		return wire.Ran{ID: id}, err
	})
	return ran, err
}
