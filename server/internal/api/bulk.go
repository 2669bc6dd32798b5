package api

import (
	"context"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

func taskOf(s queues.Task) wire.Task {
	t := wire.Task{ID: s.ID, What: s.What, By: s.By, State: string(s.State), Total: s.Total, Done: s.Done, Began: s.Began, Ended: s.Ended}
	if s.Err != nil {
		t.Error = s.Err.Error()
	}
	return t
}

func (a *api) startBulk(ctx context.Context, in *queueBody[wire.Bulk]) (wire.Task, error) {
	filter, err := in.Body.Filter.Filter()
	if err != nil {
		return wire.Task{}, err
	}
	change := queues.Change{Verb: queues.Verb(in.Body.Do), Filter: filter, Priority: in.Body.Priority, Reason: in.Body.Reason}
	if err := change.Check(); err != nil {
		return wire.Task{}, err
	}
	if change.OfAll() && !in.Body.All && change.Verb != queues.Count {
		return wire.Task{}, huma.Error422UnprocessableEntity("it would be all jobs: give a condition, or all as true")
	}
	a.audit(ctx, "bulk "+in.Body.Do, in)
	status, err := a.Tasks.Jobs(ctx, a.Queues, queues.Task{Queue: in.Queue, By: access.From(ctx).Name}, change)
	return taskOf(status), err
}

type taskList struct {
	Tasks []wire.Task `json:"tasks" nullable:"false"`
}

func (a *api) listBulk(_ context.Context, in *QueueIn) (taskList, error) {
	list := taskList{[]wire.Task{}}
	for _, s := range a.Tasks.All() {
		if s.Queue == in.Queue {
			list.Tasks = append(list.Tasks, taskOf(s))
		}
	}
	return list, nil
}

type bulkIn struct {
	QueueIn
	ID string `path:"id" doc:"Of the task."`
}

// getBulk returns a task of the queue.
func (a *api) getBulk(_ context.Context, in *bulkIn) (wire.Task, error) {
	status, err := a.Tasks.Get(in.ID)
	if err == nil && status.Queue != in.Queue {
		err = queues.ErrNoTask
	}
	return taskOf(status), err
}

func (a *api) stopBulk(ctx context.Context, in *bulkIn) (*empty, error) {
	if _, err := a.getBulk(ctx, in); err != nil {
		return nil, err
	}
	a.audit(ctx, "stop bulk", in)
	return new(empty), a.Tasks.Stop(in.ID)
}
