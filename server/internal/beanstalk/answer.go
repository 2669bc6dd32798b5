package beanstalk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"

	"github.com/conq-go/conq/internal/tubeverbs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// answer does what a line asks for. An error ends the connection.
func (c *conn) answer(line []byte) error {
	if line == nil {
		return c.reply(errBadFormat.Error())
	}
	cmd, err := parse(line)
	if err != nil {
		return c.reply(err.Error())
	}
	c.s.counts.verbs[cmd.index].Add(1)
	replied := c.s.o.Observe(cmd.name)
	c.word = "none"
	if err := cmd.do(c, cmd); err != nil && c.broken == nil {
		c.fail(cmd, err)
	}
	replied(c.word)
	return c.broken
}

// fail replies to a command that has failed, and has not replied.
func (c *conn) fail(cmd command, err error) {
	reply, level, says := "INTERNAL_ERROR", slog.LevelError, "beanstalk: a command has failed"
	switch {
	case errors.Is(err, work.ErrNotFound), errors.Is(err, work.ErrState), errors.Is(err, work.ErrLeaseLost):
		_ = c.reply("NOT_FOUND")
		return
	case errors.Is(err, kv.ErrTooLarge):
		_ = c.reply("JOB_TOO_BIG")
		return
	case errors.Is(err, queues.ErrTooMany), cmd.name == "put" && !errors.Is(err, kv.ErrCommitUnknown): // the client may try again later
		reply, level, says = "OUT_OF_MEMORY", slog.LevelWarn, "beanstalk: no room, or the store takes nothing"
	}
	c.s.o.Logger.Log(c.ctx, level, says, "command", cmd.name, "tube", cmp.Or(cmd.tube, c.used.name), "id", cmd.id, "error", err)
	_ = c.reply(reply)
}

func (c *conn) put(cmd command) error {
	if int64(cmd.n) > int64(c.s.o.MaxJobSize) {
		if _, err := io.CopyN(io.Discard, c.r, int64(cmd.n)+int64(len(crlf))); err != nil {
			return c.breakOff(err)
		}
		return c.reply("JOB_TOO_BIG")
	}
	c.producer.Store(true)
	body, err := c.readBody(int(cmd.n) + len(crlf))
	if err != nil {
		return c.breakOff(err)
	}
	body, ended := bytes.CutSuffix(body, crlf)
	switch {
	case !ended:
		return c.reply("EXPECTED_CRLF")
	case c.s.draining.Load():
		return c.reply("DRAINING")
	}
	q, release, err := c.s.tubes.set.Work(c.ctx, c.used.name, queues.Create)
	if err != nil {
		return err
	}
	defer release()
	id, err := q.Put(c.ctx, body, work.Job{
		Priority: int64(cmd.priority), Delay: cmd.delay, Lease: min(cmd.ttr, work.MaxLease), MaxAttempts: -1,
	})
	if err != nil {
		return err
	}
	c.s.counts.jobs.Add(1)
	c.s.tubes.update(c.used.name, func(t *tube) { t.jobs++ })
	return c.reply(fmt.Sprintf("INSERTED %d", id))
}

func (c *conn) use(cmd command) error {
	name := cmd.tube
	next := c.s.tubes.update(name, func(t *tube) { t.using++ })
	c.s.tubes.left(c.used.name, func(t *tube) { t.using-- })
	c.used = next
	return c.reply("USING " + name)
}

func (c *conn) watch(cmd command) error {
	name := cmd.tube
	if c.watches(name) < 0 {
		if len(c.watched) == maxWatched {
			return c.reply("OUT_OF_MEMORY")
		}
		c.watched = append(c.watched, c.s.tubes.update(name, func(t *tube) { t.watched++ }))
		c.dropSource()
	}
	return c.reply(fmt.Sprintf("WATCHING %d", len(c.watched)))
}

func (c *conn) ignore(cmd command) error {
	if i := c.watches(cmd.tube); i >= 0 {
		if len(c.watched) == 1 {
			return c.reply("NOT_IGNORED")
		}
		c.dropSource()
		c.s.tubes.left(cmd.tube, func(t *tube) { t.watched-- })
		c.watched = slices.Delete(c.watched, i, i+1)
	}
	return c.reply(fmt.Sprintf("WATCHING %d", len(c.watched)))
}

func (c *conn) watches(name string) int {
	return slices.IndexFunc(c.watched, func(t *tube) bool { return t.name == name })
}

// find calls f with the queue of a job and the name of its tube, after what is due there is done.
func (c *conn) find(id uint64, f func(string, *queues.Work) error) error {
	if id > math.MaxInt64 {
		return work.ErrNotFound
	}
	name, err := c.nameFor(work.ID(id))
	if err != nil {
		return err
	}
	return c.s.tubes.find(c.ctx, name, func(q *queues.Work) error {
		if q == nil {
			return work.ErrNotFound
		}
		if err := q.Sweep(c.ctx); err != nil {
			return err
		}
		return f(name, q)
	})
}

// nameFor returns the name of the tube of a job. Mostly it is one that the connection uses or watches.
func (c *conn) nameFor(id work.ID) (string, error) {
	if h := c.held[id]; h != nil {
		return h.Queue(), nil
	}
	first := []string{c.used.name}
	for _, t := range c.watched {
		first = append(first, t.name)
	}
	return tubeverbs.Find(c.ctx, c.s.tubes.set.DB(), int64(id), first...)
}

func (c *conn) delete(cmd command) error {
	if h := c.holds(cmd.id); h != nil {
		err := h.Ack(c.ctx)
		if err != nil && !errors.Is(err, work.ErrLeaseLost) {
			return err // it is held still, and the client may try again
		}
		defer c.drop(h)
		if err == nil {
			return c.deleted(h.Queue())
		}
	}
	return c.find(cmd.id, func(name string, q *queues.Work) error {
		if err := verbsOf(q).DeleteFree(c.ctx, work.ID(cmd.id)); err != nil {
			return err
		}
		return c.deleted(name)
	})
}

func (c *conn) deleted(name string) error {
	c.s.tubes.left(name, func(t *tube) { t.deletes++ })
	return c.reply("DELETED")
}

func (c *conn) touch(cmd command) error {
	h := c.holds(cmd.id)
	if h == nil {
		return work.ErrNotFound
	}
	if err := h.Extend(c.ctx, 0); err != nil && !errors.Is(err, work.ErrCancelled) { // with which it was extended
		if errors.Is(err, work.ErrLeaseLost) {
			c.drop(h)
		}
		return err
	}
	return c.reply("TOUCHED")
}

func (c *conn) releaseJob(cmd command) error {
	return c.endHeld(cmd, "RELEASED", func(h *held) error { return ofLeases.ReleaseInPlace(c.ctx, h.Lease, cmd.delay, int64(cmd.priority)) })
}

func (c *conn) bury(cmd command) error {
	return c.endHeld(cmd, "BURIED", func(h *held) error { return ofLeases.BuryAs(c.ctx, h.Lease, "buried", int64(cmd.priority)) })
}

// endHeld ends the lease of a job that the connection holds.
func (c *conn) endHeld(cmd command, reply string, end func(*held) error) error {
	h := c.holds(cmd.id)
	if h == nil {
		return work.ErrNotFound
	}
	err := end(h)
	if err == nil || errors.Is(err, work.ErrLeaseLost) {
		c.drop(h)
	}
	if err != nil {
		return err
	}
	return c.reply(reply)
}

// holds returns a job that the connection has reserved, or nil.
func (c *conn) holds(id uint64) *held {
	if id > math.MaxInt64 {
		return nil
	}
	return c.held[work.ID(id)]
}

// drop forgets a job.
func (c *conn) drop(h *held) {
	delete(c.held, h.ID)
	h.leave()
}

// giveBack ends the leases of a connection that ends. What fails comes back when its lease is over.
func (c *conn) giveBack() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), c.s.o.Grace)
	defer cancel()
	var group sync.WaitGroup
	slots := make(chan struct{}, 64)
	for _, h := range c.held {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			err := h.FailAfter(ctx, 0, errConnectionEnded)
			if err != nil && !errors.Is(err, work.ErrLeaseLost) {
				c.s.o.Logger.Warn("beanstalk: a job is not given back, and is leased until its ttr is over", "id", int64(h.ID), "error", err)
			}
			h.leave()
		})
	}
	group.Wait()
	clear(c.held)
}

var errConnectionEnded = errors.New("the connection that held it has ended")

func (c *conn) kick(cmd command) error {
	n := 0
	err := c.s.tubes.with(c.ctx, c.used.name, func(q *queues.Work) (err error) {
		if err := q.Sweep(c.ctx); err != nil {
			return err
		}
		n, err = verbsOf(q).KickFirst(c.ctx, int(min(cmd.n, math.MaxInt32)))
		return err
	})
	if err != nil {
		return err
	}
	return c.reply(fmt.Sprintf("KICKED %d", n))
}

func (c *conn) kickJob(cmd command) error {
	return c.find(cmd.id, func(_ string, q *queues.Work) error {
		if err := q.Kick(c.ctx, work.ID(cmd.id)); err != nil {
			return err
		}
		return c.reply("KICKED")
	})
}

func (c *conn) pauseTube(cmd command) error {
	return c.s.tubes.find(c.ctx, cmd.tube, func(*queues.Work) error {
		c.s.tubes.pauseTube(cmd.tube, cmd.delay)
		return c.reply("PAUSED")
	})
}
