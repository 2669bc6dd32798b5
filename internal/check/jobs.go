package check

import (
	"context"
	"errors"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// checkedJobs is a work queue under check.
type checkedJobs struct {
	name    string
	recipe  *jobs.Queue
	checker *jobs.Checker
}

// job judges a key of a work queue.
func (l *look) job(u *unit, q *checkedQueue, pair kv.KeyValue, _ []byte, report *CheckReport) error {
	if l.again { // what is counted was counted
		p, err := l.c.recipe(q.name).CheckKey(l.r, pair)
		return l.jobProblem(u, q.name, p, err)
	}
	c, err := l.c.jobsOf(l.r, q.name)
	if err != nil {
		return l.jobProblem(u, q.name, nil, err)
	}
	p, err := c.checker.Key(l.r, pair)
	if err != nil {
		return err
	}
	if c.recipe.IsHeader(pair.Key) {
		report.Jobs++
	}
	return l.jobProblem(u, q.name, p, nil)
}

// findable judges the key that makes a job known by its id alone.
func (l *look) findable(u *unit, pair kv.KeyValue) error {
	queue, p, err := jobs.CheckFindable(l.r, pair)
	return l.jobProblem(u, queue, p, err)
}

// jobProblem makes a finding of what is wrong with a key.
func (l *look) jobProblem(u *unit, name string, p *jobs.Problem, err error) error {
	switch {
	case errors.Is(err, queue.ErrCorrupt):
		u.add(Finding{Kind: FindingJob, Queue: name, Text: err.Error(), once: true})
		return nil
	case err != nil || p == nil:
		return err
	}
	f := Finding{Kind: FindingJob, Queue: name, Key: p.Key, Text: p.What, Repairable: p.Repair != nil}
	if p.Repair != nil {
		u.repair = func(tx kv.Tx) error {
			p.Repair(tx)
			return nil
		}
	}
	u.add(f)
	return nil
}

func (c *checker) recipe(name string) *jobs.Queue {
	return jobs.NewQueue(name, c.db.Limits(), jobs.Config{NextTick: jobs.CronTick})
}

// jobsOf returns the checker of a work queue. The one before it has ended.
func (c *checker) jobsOf(r kv.Reader, name string) (*checkedJobs, error) {
	if c.jobs != nil && c.jobs.name == name {
		return c.jobs, nil
	}
	if err := c.endJobs(r); err != nil {
		return nil, err
	}
	recipe := c.recipe(name)
	checker, err := recipe.NewChecker(r)
	if err != nil {
		return nil, err
	}
	c.jobs = &checkedJobs{name, recipe, checker}
	return c.jobs, nil
}

// endJobs compares the numbers of the work queue that was looked at last.
func (c *checker) endJobs(r kv.Reader) error {
	if c.jobs == nil {
		return nil
	}
	problems, err := c.jobs.checker.End(r)
	for _, p := range problems {
		c.totals = append(c.totals, total{c.jobs.name, p})
	}
	c.jobs = nil
	return err
}

// total is a number of a work queue that is wrong.
type total struct {
	queue string
	jobs.Problem
}

// settleTotals tells of numbers that are wrong, and sets them right.
func (c *checker) settleTotals(ctx context.Context) error {
	for _, t := range c.totals {
		f := Finding{Kind: FindingJob, Queue: t.queue, Key: t.Key, Keys: 1, Text: t.What, Repairable: true}
		if c.o.Repair {
			if err := c.settleTotal(ctx, t); err != nil {
				return err
			}
			f.Repaired = true
		}
		c.tell(f)
	}
	c.totals = nil
	return nil
}

// settleTotal sets a number right, once: what it adds must not be added twice.
func (c *checker) settleTotal(ctx context.Context, t total) error {
	lanes := outcome.New(c.db, jobs.Outcomes(t.queue), nil)
	_, err := outcome.Do(ctx, lanes, func(tx kv.Tx) (struct{}, error) {
		t.Repair(tx)
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	return lanes.Forget(ctx)
}
