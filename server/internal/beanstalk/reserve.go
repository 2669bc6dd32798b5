package beanstalk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// reserved replies with a job that the connection holds from now on.
func (c *conn) reserved(l *work.Lease[[]byte]) error {
	_, release, err := c.s.tubes.set.Work(c.ctx, l.Queue(), queues.Existing)
	if err != nil {
		return errors.Join(err, l.FailAfter(context.WithoutCancel(c.ctx), 0, errConnectionEnded))
	}
	c.held[l.ID] = &held{l, release}
	c.first = earliest(c.first, l.Deadline())
	return c.replyData(fmt.Sprintf("RESERVED %d", l.ID), l.Value)
}

func (c *conn) reserveJob(cmd command) error {
	c.soon(time.Now())
	if c.holds(cmd.id) != nil {
		return work.ErrNotFound
	}
	return c.find(cmd.id, func(_ string, q *queues.Work) error {
		c.worker.Store(true)
		l, err := verbsOf(q).ReserveID(c.ctx, work.ID(cmd.id), c.lease)
		if err != nil {
			return err
		}
		return c.reserved(l)
	})
}

// margin is how long before the end of a lease its holder does not wait for another job.
const margin = time.Second

// soon returns when the first of the jobs that are held comes within the margin, or a time before that, or zero if there
// is none. It forgets jobs whose leases are over.
func (c *conn) soon(now time.Time) time.Time {
	if at := c.first.Add(-margin); len(c.held) > 0 && at.After(now) {
		return at
	}
	c.first = time.Time{}
	for _, h := range c.held {
		if d := h.Deadline(); d.After(now) {
			c.first = earliest(c.first, d)
			continue
		}
		c.s.counts.timeouts.Add(1)
		c.drop(h)
	}
	if c.first.IsZero() {
		return c.first
	}
	return c.first.Add(-margin)
}

// Why a wait has ended.
var (
	errAgain = errors.New("a tube is paused, or no more")
	errGone  = errors.New("the client has nothing more to send")
)

// outageRest is how long a reserve rests after the store has not answered.
const outageRest = time.Second

// isOutage tells whether a reservation that failed so may succeed later: the store did not answer. What it may have reserved comes back.
func isOutage(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrCommitUnknown)
}

// reserve waits for a job for some time, or without end if timeout is negative. It waits through outages of the store, too.
func (c *conn) reserve(timeout time.Duration) error {
	c.worker.Store(true)
	var until time.Time
	if timeout >= 0 {
		until = time.Now().Add(timeout)
	}
	for looked := false; ; {
		now := time.Now()
		soon := c.soon(now)
		isSoon := !soon.IsZero() && !soon.After(now)
		isOver := !until.IsZero() && !until.After(now)
		var l *work.Lease[[]byte]
		var err error
		if !looked || !isSoon && !isOver {
			l, err = c.take(earliest(until, soon), isSoon || isOver)
		}
		looked = errors.Is(err, context.DeadlineExceeded)
		switch {
		case err == nil && l != nil:
			return c.reserved(l)
		case c.stop.Err() != nil:
			return c.breakOff(c.stop.Err())
		case errors.Is(err, errGone):
			return c.reply("TIMED_OUT")
		case errors.Is(err, errAgain), looked:
		case isOutage(err):
			c.s.o.Logger.Warn("beanstalk: a reserve waits for the store", "error", err)
			looked = true
			c.rest(earliest(until, soon))
		case err != nil:
			return err
		case isSoon:
			return c.reply("DEADLINE_SOON")
		case isOver:
			return c.reply("TIMED_OUT")
		}
	}
}

// lateJob is how long a job is waited for that is being reserved when the wait is over. One that is given up comes back after its ttr.
const lateJob = time.Second

// rest waits for the store that does not answer, at most until a time, unless that is zero, or the server stops.
func (c *conn) rest(until time.Time) {
	d := outageRest
	if !until.IsZero() {
		d = min(d, time.Until(until))
	}
	pause(c.stop, d)
}

func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// take reserves a job. If there is none it returns nil at once, or waits until a time and returns why it has ended.
func (c *conn) take(until time.Time, atOnce bool) (*work.Lease[[]byte], error) {
	if !atOnce {
		if err := c.w.Flush(); err != nil {
			return nil, c.breakOff(err)
		}
		return c.wait(until)
	}
	open, _, err := c.prepare()
	if err != nil || !open {
		return nil, err
	}
	got, err := c.source.Reserve(c.ctx, c.lease)
	if errors.Is(err, conq.ErrEmpty) {
		return nil, nil
	}
	return got, err
}

// prepare sets the source, and tells whether there is a tube that is not paused, and when one more is not.
func (c *conn) prepare() (open bool, resumed time.Time, err error) {
	tubes, resumed := c.s.tubes.unpaused(c.watched)
	var names strings.Builder
	for _, t := range tubes {
		names.WriteString(t.name + " ")
	}
	key := names.String()
	if c.source != nil && c.sourceKey == key || len(tubes) == 0 {
		return len(tubes) > 0, resumed, nil
	}
	c.dropSource()
	c.source, c.leaveSource, err = c.s.tubes.source(c.ctx, tubes, key)
	c.sourceKey = key
	return true, resumed, err
}

func (c *conn) dropSource() {
	if c.source != nil {
		c.leaveSource()
		c.source = nil
	}
}

// wait waits for a job until a time, unless that is zero, or until other tubes are paused.
func (c *conn) wait(until time.Time) (l *work.Lease[[]byte], err error) {
	ctx, cancel := context.WithCancelCause(c.stop)
	defer cancel(nil)
	c.s.tubes.wait(c, cancel) // first, so that no pause comes between
	defer c.s.tubes.waited(c)
	open, resumed, err := c.prepare()
	if err != nil {
		return nil, err
	}
	if at := earliest(until, resumed); !at.IsZero() {
		why := context.DeadlineExceeded
		if at.Equal(resumed) {
			why = errAgain
		}
		timed, stop := context.WithDeadlineCause(ctx, at, why)
		defer stop()
		ctx = timed
	}
	c.s.counts.waiting.Add(1)
	defer c.s.counts.waiting.Add(-1)
	defer c.watchInput(func() { cancel(errGone) })()
	if open {
		return c.source.ReserveWait(batch.Softly(ctx, c.ctx, lateJob), c.lease)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
