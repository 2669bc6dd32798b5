package dashboard

import (
	"context"
	"fmt"
	"strconv"

	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// changeText says what a change of jobs does, and what that means.
type changeText struct {
	title  string // with the jobs in place of %s
	button string
	detail string
	typed  bool // it can't be undone
	one    func(ctx context.Context, q *queues.Work, id work.ID, priority int64) error
	note   string // what is the matter with one job then
}

var changes = map[queues.Verb]changeText{
	queues.Retry: {
		title: "Retry %s", button: "Retry", detail: "Each is ready now, and has at least one more attempt.",
		one:  func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error { return q.Kick(ctx, id) },
		note: "It is ready, or waits for others of its key.",
	},
	queues.Kick: {
		title: "Make %s ready now", button: "Make ready", detail: "They do not wait for their time any more.",
		one:  func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error { return q.Kick(ctx, id) },
		note: "It is ready, or waits for others of its key.",
	},
	queues.Delete: {
		title: "Delete %s", button: "Delete", detail: "They are gone for good. Workers that hold one have lost it.", typed: true,
		one:  func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error { return q.Delete(ctx, id) },
		note: "It is gone.",
	},
	queues.Cancel: {
		title: "Cancel %s", button: "Cancel jobs", detail: "They are dead then, and can be retried. Of one that a worker holds, the worker is told at once, or within 5 s.",
		one:  func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error { return q.Cancel(ctx, id) },
		note: "It is dead, or will be when its worker hears of it.",
	},
	queues.Bury: {
		title: "Bury %s", button: "Bury", detail: "They are dead then, and can be retried. Workers that hold one have lost it.",
		one: func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error {
			return q.Bury(ctx, id, "buried by an operator")
		},
		note: "It is dead.",
	},
	queues.EndLeases: {
		title: "End the leases of %s", button: "End leases", detail: "Workers lose them as if they had run out: jobs are ready again, or dead after their last attempt.",
		one:  func(ctx context.Context, q *queues.Work, id work.ID, _ int64) error { return q.EndLease(ctx, id) },
		note: "Its worker has lost it.",
	},
	queues.Reprioritise: {
		title: "Change the priority of %s", button: "Change priority", detail: "The lowest is first. They stand behind those that have the priority already.",
		one: func(ctx context.Context, q *queues.Work, id work.ID, priority int64) error {
			return q.Reprioritise(ctx, id, priority)
		},
		note: "It stands behind those of its new priority.",
	},
}

// ask says which jobs it is about, and how many they are.
func (t changeText) ask(d *Dashboard, c *confirm) error {
	change := queues.Change{Verb: queues.Verb(c.Do), Filter: c.Filter.Filter}
	if err := change.Check(); err != nil {
		return err
	}
	c.Filter.Filter, c.Filter.State = change.Filter, stateName(change.Filter.State)
	c.Button, c.Detail = t.button, t.detail
	if c.Do == string(queues.Reprioritise) {
		c.Fields = []field{{Name: "priority", Label: "Priority", Value: c.query.Get("priority"), Needed: true, Help: "An integer. The lowest is first."}}
	}
	if t.typed {
		c.Type = c.Queue.Name
	}
	if c.ID != 0 {
		c.Title = fmt.Sprintf(t.title, "job "+strconv.FormatInt(int64(c.ID), 10)+" of "+visible(c.Queue.Name))
		return nil
	}
	of, err := d.of(c, change)
	if err != nil {
		return err
	}
	c.Title = fmt.Sprintf(t.title, of)
	return nil
}

func stateName(s work.State) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

// doChange changes one job, or all that match.
func (d *Dashboard) doChange(c *confirm) (queues.Task, error) {
	verb := queues.Verb(c.Do)
	priority, err := integer(c.query.Get("priority"), "priority")
	if err != nil {
		return queues.Task{}, err
	}
	if verb == queues.Reprioritise {
		if c.query.Get("priority") == "" {
			return queues.Task{}, wrong("A priority is needed: an integer.")
		}
		c.Title += fmt.Sprintf(" to %d", priority)
	}
	if c.ID == 0 {
		change := queues.Change{Verb: verb, Filter: c.Filter.Filter, Priority: priority}
		return d.Tasks.Jobs(c, d.Queues, queues.Task{Queue: c.Queue.Name, By: c.caller.Name, What: c.Title, Once: c.once()}, change)
	}
	text := changes[verb]
	return d.onQueue(c, "", text.note, func(ctx context.Context, q *queues.Work) error { return text.one(ctx, q, c.ID, priority) })
}
