package api

import (
	"context"
	"time"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/bulk"
	"github.com/danielgtaylor/huma/v2"
)

type startBulkIn struct {
	QueueIn
	Body struct {
		Do bulk.Verb `json:"do" enum:"retry,kick,delete,cancel,bury,reprioritise" doc:"What to do to each job. Retry is kick for dead jobs only."`
		FilterIn
		All      bool  `json:"all,omitempty" doc:"It has to be true if there is no condition, so that all jobs are meant."`
		Priority int64 `json:"priority,omitempty" doc:"Of reprioritise."`
	}
}

// task is a change of many jobs, in the background.
type task struct {
	ID    string    `json:"id"`
	What  string    `json:"what"`
	By    string    `json:"by"`
	State string    `json:"state" enum:"running,done,failed,stopped"`
	Total int64     `json:"total" doc:"About how many jobs there are at most, counted when it began; -1 if that is not known."`
	Done  int64     `json:"done" doc:"How many it has changed."`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	Error string    `json:"error,omitempty"`
}

type taskOut struct{ Body task }

func taskOf(s bulk.Status) task {
	t := task{ID: s.ID, What: s.What, By: s.By, State: string(s.State), Total: s.Total, Done: s.Done, Began: s.Began, Ended: s.Ended}
	if s.Err != nil {
		t.Error = s.Err.Error()
	}
	return t
}

func (a *api) startBulk(ctx context.Context, in *startBulkIn) (*taskOut, error) {
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return nil, err
	}
	filter, err := in.Body.filter()
	if err != nil {
		return nil, err
	}
	change := bulk.Change{Verb: in.Body.Do, Filter: filter, Priority: in.Body.Priority}
	if err := change.Check(); err != nil {
		return nil, err
	}
	if change.OfAll() && !in.Body.All {
		return nil, huma.Error422UnprocessableEntity("it would be all jobs: give a condition, or all as true")
	}
	access.Audit(ctx, a.Logger, "bulk "+string(in.Body.Do), queueAttr(in.Queue))
	status, err := a.Tasks.Jobs(ctx, a.Queues, bulk.Status{Queue: in.Queue, By: access.From(ctx).Name}, change)
	return &taskOut{taskOf(status)}, err
}

type listBulkOut struct {
	Body struct {
		Tasks []task `json:"tasks" nullable:"false"`
	}
}

func (a *api) listBulk(ctx context.Context, in *QueueIn) (*listBulkOut, error) {
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return nil, err
	}
	out := new(listBulkOut)
	out.Body.Tasks = []task{}
	for _, s := range a.Tasks.All() {
		if s.Queue == in.Queue {
			out.Body.Tasks = append(out.Body.Tasks, taskOf(s))
		}
	}
	return out, nil
}

type bulkIn struct {
	QueueIn
	ID string `path:"id" doc:"Of the task."`
}

func (a *api) getBulk(ctx context.Context, in *bulkIn) (*taskOut, error) {
	status, err := a.task(ctx, in)
	return &taskOut{taskOf(status)}, err
}

// task returns a task of the queue.
func (a *api) task(ctx context.Context, in *bulkIn) (bulk.Status, error) {
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return bulk.Status{}, err
	}
	status, err := a.Tasks.Get(in.ID)
	if err == nil && status.Queue != in.Queue {
		err = bulk.ErrNotFound
	}
	return status, err
}

func (a *api) stopBulk(ctx context.Context, in *bulkIn) (*empty, error) {
	if _, err := a.task(ctx, in); err != nil {
		return nil, err
	}
	access.Audit(ctx, a.Logger, "stop bulk", queueAttr(in.Queue))
	return new(empty), a.Tasks.Stop(in.ID)
}
