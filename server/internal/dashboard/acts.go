package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// acts is all that operators do on pages, by name.
var acts map[string]*act

func init() { // it refers to itself
	acts = map[string]*act{
		"pause":  {access.Admin, "w", askPause, (*Dashboard).doPause, toQueue},
		"resume": {access.Admin, "w", askResume, (*Dashboard).doResume, toQueue},
		"purge":  {access.Admin, "fpw", askPurge, (*Dashboard).doPurge, toQueue},
		"rm":     {access.Admin, "fpw", askDelete, (*Dashboard).doDelete, func(*confirm) string { return link("/") }},
		"add":    {access.Produce, "fpw", askAdd, (*Dashboard).doAdd, toQueue},
		"move":   {access.Admin, "fp", askMove, (*Dashboard).doMove, toQueue},
		"set":    {access.Admin, "w", (*Dashboard).askSet, (*Dashboard).doSet, toQueue},
		"every":  {access.Admin, "w", askEvery, (*Dashboard).doEvery, toPeriodic},
		"runnow": {access.Admin, "w", askRunNow, (*Dashboard).doRunNow, toPeriodic},
		"remove": {access.Admin, "w", askRemove, (*Dashboard).doRemove, toPeriodic},
		"check":  {access.Admin, "", askCheck, (*Dashboard).doCheck, func(*confirm) string { return link("/store") }},
		"stop":   {access.Watch, "", (*Dashboard).askStop, (*Dashboard).doStop, func(*confirm) string { return link("/store") }},
	}
	for verb, text := range changes {
		acts[string(verb)] = &act{access.Admin, "w", text.ask, (*Dashboard).doChange, toJobs}
	}
}

func toQueue(c *confirm) string { return link("/queue", "q", c.Queue.Name) }

func toPeriodic(*confirm) string { return link("/periodic") }

func toJobs(c *confirm) string {
	switch {
	case c.ID != 0 && c.Do != string(queues.Delete):
		return link("/job", "q", c.Queue.Name, "id", c.ID)
	case c.Do == string(queues.EndLeases) && c.Filter.Holder != "":
		return link("/workers")
	case c.ID != 0:
		return link("/jobs", "q", c.Queue.Name)
	}
	return c.Filter.link("/jobs", c.Queue.Name)
}

func askPause(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Pause "+visible(c.Queue.Name), "Pause"
	c.Detail = fmt.Sprintf("It gives out no more jobs, to any process, until it is resumed. %s go on; %s wait.",
		plural(c.Queue.Leased, "job that a worker holds", "jobs that workers hold"), plural(c.Queue.Ready, "ready job", "ready jobs"))
	return nil
}

func (d *Dashboard) doPause(c *confirm) (queues.Task, error) {
	return d.onQueue(c, "resume", "It gives out no jobs until it is resumed.", func(ctx context.Context, q *queues.Work) error { return q.Pause(ctx) })
}

func askResume(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Resume "+visible(c.Queue.Name), "Resume"
	c.Detail = fmt.Sprintf("It gives out jobs again: %s.", plural(c.Queue.Ready, "is ready", "are ready"))
	return nil
}

func (d *Dashboard) doResume(c *confirm) (queues.Task, error) {
	return d.onQueue(c, "pause", "It gives out jobs again.", func(ctx context.Context, q *queues.Work) error { return q.Resume(ctx) })
}

func askPurge(_ *Dashboard, c *confirm) error {
	n, what := c.Queue.Depth, "items"
	c.Detail = "They are gone for good."
	if isWork(c.Queue) {
		n, what = n+c.Queue.Dead+c.Queue.Done, "jobs, in all states,"
		c.Detail = fmt.Sprintf("They are gone for good, %s included, and workers lose the %s that they hold. Periodic jobs stay.",
			plural(c.Queue.Dead, "dead one", "dead ones"), plural(c.Queue.Leased, "job", "jobs"))
	}
	count := num(n) + " " + what
	if c.Queue.Estimated {
		count = "items, about " + num(n)
	}
	c.Title, c.Button, c.Type = fmt.Sprintf("Purge %s: remove all %s", visible(c.Queue.Name), strings.TrimSuffix(count, ",")), "Purge", c.Queue.Name
	return nil
}

func (d *Dashboard) doPurge(c *confirm) (queues.Task, error) {
	return d.start(c, queues.Task{Total: -1}, func(ctx context.Context, _ func(int)) (int, string, error) {
		q, release, err := d.Queues.Queue(ctx, c.Queue.Name, c.Queue.Kind, queues.Existing)
		if err != nil {
			return 0, "", err
		}
		defer release()
		return 0, "The queue is empty.", q.Clear(ctx)
	})
}

func askDelete(d *Dashboard, c *confirm) error {
	if err := askPurge(d, c); err != nil {
		return err
	}
	c.Title = strings.Replace(c.Title, "Purge "+visible(c.Queue.Name)+": remove all ", "Delete "+visible(c.Queue.Name)+" with ", 1)
	c.Detail, c.Button = "All of it is gone for good, periodic jobs and settings included. What is added under its name later makes a new queue.", "Delete"
	return nil
}

func (d *Dashboard) doDelete(c *confirm) (queues.Task, error) {
	return d.start(c, queues.Task{Total: -1}, func(ctx context.Context, _ func(int)) (int, string, error) {
		return 0, "The queue is deleted.", d.Queues.Delete(ctx, c.Queue.Name)
	})
}

func askAdd(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Add to "+visible(c.Queue.Name), "Add"
	c.Fields = []field{{Name: "payload", Label: "Payload", Kind: "text", Help: "It is stored as it is, as UTF-8."}}
	if c.Queue.Kind != conq.KindQueue {
		c.Fields = append(c.Fields, field{Name: "priority", Label: "Priority", Value: "0", Help: "The lowest is first."})
	}
	if isWork(c.Queue) {
		c.Fields = append(c.Fields,
			field{Name: "delay", Label: "Delay", Help: "As 90s, 10m or 2h. Without one it is ready at once."},
			field{Name: "jobkey", Label: "Key", Help: "Jobs of one key run one after the other."},
			field{Name: "unique", Label: "Unique", Help: "Refused while a job with the same one is not done."})
	}
	return nil
}

func (d *Dashboard) doAdd(c *confirm) (queues.Task, error) {
	payload := c.payload()
	priority, err := integer(c.query.Get("priority"), "priority")
	if err != nil {
		return queues.Task{}, err
	}
	job := work.Job{Priority: priority, Key: c.query.Get("jobkey"), Unique: c.query.Get("unique")}
	if delay := c.query.Get("delay"); delay != "" {
		if job.Delay, err = time.ParseDuration(delay); err != nil || job.Delay < 0 {
			return queues.Task{}, wrong("%.40q is no delay: it is as 90s, 10m or 2h.", delay)
		}
	}
	return d.start(c, queues.Task{Total: 1}, func(ctx context.Context, _ func(int)) (int, string, error) {
		note, err := d.add(ctx, c.Queue.Name, c.Queue.Kind, payload, job)
		return one(err), note, err
	})
}

// payload is what was typed. Browsers send lines that end in CR LF.
func (c *confirm) payload() []byte {
	return []byte(strings.ReplaceAll(c.query.Get("payload"), "\r\n", "\n"))
}

// one is how many are done of one.
func one(err error) int {
	if err != nil {
		return 0
	}
	return 1
}

func integer(s, name string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0, wrong("%.40q is no %s: it is an integer of 64 bits.", s, name)
	}
	return n, nil
}

func (d *Dashboard) add(ctx context.Context, name string, kind conq.Kind, payload []byte, job work.Job) (note string, err error) {
	if kind == conq.KindWorkQueue {
		err = d.withWork(ctx, name, func(q *queues.Work) error {
			id, err := q.Put(ctx, payload, job)
			note = fmt.Sprintf("It is job %d.", id)
			return err
		})
		return note, err
	}
	q, release, err := d.Queues.Items(ctx, name, kind, queues.Existing)
	if err != nil {
		return "", err
	}
	defer release()
	if note = "It is the last item."; kind == conq.KindPriorityQueue {
		note = fmt.Sprintf("It is the last item of priority %d.", job.Priority)
	}
	return note, q.Add(ctx, queues.Item{Payload: payload, Priority: job.Priority})
}

func askMove(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Move items of "+visible(c.Queue.Name)+" to another queue", "Move"
	c.Detail = "From its start on, in order. Each transaction moves some, so that an item is always in exactly one of the two. It can be undone by moving them back, to its end."
	c.Fields = []field{
		{Name: "to", Label: "To", Needed: true, Help: "A queue of the same kind. If there is none by that name, it is made."},
		{Name: "n", Label: "How many", Value: strconv.FormatInt(c.Queue.Depth, 10), Needed: true},
	}
	return nil
}

func (d *Dashboard) doMove(c *confirm) (queues.Task, error) {
	to := c.query.Get("to")
	n, err := integer(c.query.Get("n"), "number of items")
	if err != nil {
		return queues.Task{}, err
	}
	switch {
	case n < 1:
		return queues.Task{}, wrong("%d items can't be moved: it is from 1 on.", n)
	case to == c.Queue.Name:
		return queues.Task{}, wrong("The items are in %q already: name another queue.", to)
	}
	if err := c.caller.May(access.Admin, to); err != nil {
		return queues.Task{}, err
	}
	c.Title = fmt.Sprintf("Move %s from %s to %s", plural(n, "item", "items"), visible(c.Queue.Name), visible(to))
	return d.start(c, queues.Task{Total: n}, func(ctx context.Context, progress func(int)) (int, string, error) {
		moved, err := d.move(ctx, c.Queue.Kind, c.Queue.Name, to, int(n), progress)
		return moved, plural(int64(moved), "item was moved.", "items were moved."), err
	})
}

func (d *Dashboard) move(ctx context.Context, kind conq.Kind, from, to string, n int, progress func(int)) (total int, err error) {
	source, release, err := d.Queues.Items(ctx, from, kind, queues.Existing)
	if err != nil {
		return 0, err
	}
	defer release()
	target, release, err := d.Queues.Items(ctx, to, kind, queues.Create)
	if err != nil {
		return 0, err
	}
	defer release()
	for total < n {
		moved, err := handle.Move(ctx, source, target, conq.Min, n-total)
		if errors.Is(err, conq.ErrEmpty) {
			break
		}
		if err != nil {
			return total, err
		}
		total += moved
		progress(total)
	}
	return total, nil
}

func askEvery(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Add a periodic job to "+visible(c.Queue.Name), "Add"
	c.Detail = "A job is put each time. A periodic job that has the name already is replaced, with its priority, key and attempts."
	c.Fields = []field{
		{Name: "name", Label: "Name", Needed: true},
		{Name: "cron", Label: "When", Needed: true, Help: "As 0 3 * * * (minute, hour, day of the month, month, day of the week), @hourly or @every 90s."},
		{Name: "payload", Label: "Payload", Kind: "text", Help: "It is stored as it is, as UTF-8."},
		{Name: "overlap", Label: "Overlap", Value: work.RunToo.String(), Kind: "choice", Choices: []string{work.RunToo.String(), work.Skip.String(), work.Replace.String()}, Help: "What is done while the last job is neither done nor dead: run one more, skip, or replace it."},
		{Name: "unique", Label: "Unique", Help: "While a job with the same text is not done, none is put."},
	}
	return nil
}

func (d *Dashboard) doEvery(c *confirm) (queues.Task, error) {
	o := work.EveryOptions{Job: work.Job{Unique: c.query.Get("unique")}}
	if text := strings.TrimSpace(c.query.Get("overlap")); text != "" {
		var err error
		if o.Overlap, err = work.ParseOverlap(text); err != nil {
			return queues.Task{}, wrong("%v", err)
		}
	}
	if err := o.Check(); err != nil {
		return queues.Task{}, wrong("%v", err)
	}
	name, cron, payload := c.query.Get("name"), c.query.Get("cron"), c.payload()
	c.Title = fmt.Sprintf("Add the periodic job %s to %s: %s", visible(name), visible(c.Queue.Name), visible(cron))
	return d.onQueue(c, "", "It is put when it is due, while a worker of the queue runs.", func(ctx context.Context, q *queues.Work) error { return q.Every(ctx, name, cron, payload, o) })
}

func askRunNow(_ *Dashboard, c *confirm) error {
	name := c.query.Get("name")
	c.Title, c.Button = fmt.Sprintf("Run %s of %s now", visible(name), visible(c.Queue.Name)), "Run now"
	c.Detail = "One job is put, at once. When it is due next does not change."
	return nil
}

func (d *Dashboard) doRunNow(c *confirm) (queues.Task, error) {
	name := c.query.Get("name")
	return d.start(c, queues.Task{Total: 1}, func(ctx context.Context, _ func(int)) (_ int, note string, err error) {
		err = d.withWork(ctx, c.Queue.Name, func(q *queues.Work) error {
			id, err := q.RunPeriodic(ctx, name)
			note = fmt.Sprintf("It is job %d.", id)
			return err
		})
		return one(err), note, err
	})
}

func askRemove(_ *Dashboard, c *confirm) error {
	name := c.query.Get("name")
	c.Title, c.Button, c.Type = fmt.Sprintf("Remove the periodic job %s of %s", visible(name), visible(c.Queue.Name)), "Remove", c.Queue.Name
	c.Detail = "It is put no more. Jobs that it has put stay. A program that makes it when it starts, makes it again."
	return nil
}

func (d *Dashboard) doRemove(c *confirm) (queues.Task, error) {
	name := c.query.Get("name")
	return d.onQueue(c, "", "It is put no more.", func(ctx context.Context, q *queues.Work) error { return q.RemovePeriodic(ctx, name) })
}

func askCheck(_ *Dashboard, c *confirm) error {
	c.Title, c.Button = "Check the store", "Check"
	c.Detail = "It reads all keys, and changes nothing. On a large store that takes minutes."
	return nil
}

// maxFindings is how many findings of a check are shown.
const maxFindings = 20

func (d *Dashboard) doCheck(c *confirm) (queues.Task, error) {
	return d.start(c, queues.Task{Total: -1}, func(ctx context.Context, progress func(int)) (int, string, error) {
		var findings []string
		wrong := 0
		report, err := conq.Check(ctx, d.Queues.DB(), conq.CheckOptions{
			Progress: func(r conq.CheckReport) { progress(r.Keys) },
			Found: func(f conq.Finding) {
				if f.Note {
					return
				}
				if wrong++; wrong <= maxFindings {
					findings = append(findings, visible(f.String()))
				}
			},
		})
		return report.Keys, checked(wrong, findings), err
	})
}

// checked says what a check has found.
func checked(wrong int, findings []string) string {
	if wrong == 0 {
		return "All is as it should be."
	}
	return plural(int64(wrong), "thing is wrong", "things are wrong") + ". The command conq check tells more, and can repair some.\n" + strings.Join(findings, "\n")
}

func (d *Dashboard) askStop(c *confirm) error {
	status, err := d.Tasks.Get(c.query.Get("id"))
	if err != nil {
		return err
	}
	if err := c.caller.May(access.Admin, status.Queue); err != nil {
		return err
	}
	c.Title, c.Button = "Stop: "+status.What, "Stop it"
	c.Detail = fmt.Sprintf("What it has done so far stays: %s.", num(status.Done))
	return nil
}

func (d *Dashboard) doStop(c *confirm) (queues.Task, error) {
	id := c.query.Get("id")
	if err := d.Tasks.Stop(id); err != nil {
		return queues.Task{}, err
	}
	return d.Tasks.Get(id)
}
