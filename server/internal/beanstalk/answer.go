package beanstalk

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

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
	c.s.counts.ops[cmd.op].Add(1)
	replied := c.s.o.Observe(opNames[cmd.op])
	c.word = "none"
	defer func() { replied(c.word) }()
	switch cmd.op {
	case opQuit:
		return errQuit
	case opPut:
		return c.put(cmd)
	case opReserve:
		return c.reserve(-1)
	case opReserveTimeout:
		return c.reserve(cmd.timeout)
	}
	if err := c.do(cmd); err != nil {
		return c.fail(cmd, err)
	}
	return nil
}

// do is answer for commands that neither have a body nor wait. What it returns before it has replied is the reply.
func (c *conn) do(cmd command) error {
	switch cmd.op {
	case opUse:
		return c.use(cmd.tube)
	case opWatch:
		return c.watch(cmd.tube)
	case opIgnore:
		return c.ignore(cmd.tube)
	case opReserveJob:
		return c.reserveJob(cmd.id)
	case opDelete:
		return c.delete(cmd.id)
	case opRelease, opBury, opTouch:
		return c.onHeld(cmd)
	case opKick:
		return c.kick(int(min(cmd.n, math.MaxInt32)))
	case opKickJob:
		return c.kickJob(cmd.id)
	case opPauseTube:
		return c.pauseTube(cmd.tube, cmd.delay)
	default:
		return c.show(cmd)
	}
}

// fail replies to a command that has failed.
func (c *conn) fail(cmd command, err error) error {
	switch {
	case errors.Is(err, work.ErrNotFound), errors.Is(err, work.ErrState), errors.Is(err, work.ErrLeaseLost):
		return c.reply("NOT_FOUND")
	case errors.Is(err, kv.ErrTooLarge):
		return c.reply("JOB_TOO_BIG")
	case errors.Is(err, queues.ErrTooMany), cmd.op == opPut && !errors.Is(err, kv.ErrCommitUnknown):
		c.s.o.Logger.Warn("beanstalk: no room, or the store takes nothing", "tube", cmd.tube, "error", err)
		return c.reply("OUT_OF_MEMORY") // the client may try again later
	}
	c.s.o.Logger.Error("beanstalk: a command has failed", "tube", cmd.tube, "id", cmd.id, "error", err)
	return c.reply("INTERNAL_ERROR")
}

func (c *conn) put(cmd command) error {
	if int64(cmd.n) > int64(c.s.o.MaxJobSize) {
		if err := c.flush(); err != nil {
			return err
		}
		if err := c.skip(int64(cmd.n) + int64(len(crlf))); err != nil {
			return err
		}
		return c.reply("JOB_TOO_BIG")
	}
	c.producer.Store(true)
	body, err := c.readBody(int(cmd.n) + len(crlf))
	if err != nil {
		return err
	}
	body, ended := bytes.CutSuffix(body, crlf)
	switch {
	case !ended:
		return c.reply("EXPECTED_CRLF")
	case c.s.draining.Load():
		return c.reply("DRAINING")
	}
	cmd.tube = c.used.name
	q, err := c.s.tubes.queue(c.ctx, c.used, queues.Create)
	if err != nil {
		return c.fail(cmd, err)
	}
	id, err := q.Put(c.ctx, body, work.Job{
		Priority: int64(cmd.priority), Delay: cmd.delay, Lease: min(cmd.ttr, work.MaxLease), MaxAttempts: -1,
	})
	if err != nil {
		return c.fail(cmd, err)
	}
	c.s.tubes.put(c.used)
	return c.replyNumber("INSERTED", uint64(id))
}

// skip reads what the client sends, and drops it.
func (c *conn) skip(n int64) error {
	for n > 0 {
		part, err := c.r.Discard(int(min(n, 1<<20)))
		if n -= int64(part); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) use(name string) error {
	next := c.s.tubes.enter(name, func(t *tube) { t.using++ })
	c.s.tubes.leave(c.used, func(t *tube) { t.using-- })
	c.used = next
	return c.reply("USING " + name)
}

func (c *conn) watch(name string) error {
	if c.watches(name) < 0 {
		if len(c.watched) == maxWatched {
			return c.reply("OUT_OF_MEMORY")
		}
		c.watched = append(c.watched, c.s.tubes.enter(name, func(t *tube) { t.watched++ }))
		c.dropSource()
	}
	return c.replyNumber("WATCHING", uint64(len(c.watched)))
}

func (c *conn) ignore(name string) error {
	if i := c.watches(name); i >= 0 {
		if len(c.watched) == 1 {
			return c.reply("NOT_IGNORED")
		}
		c.dropSource()
		c.s.tubes.leave(c.watched[i], func(t *tube) { t.watched-- })
		c.watched = slices.Delete(c.watched, i, i+1)
	}
	return c.replyNumber("WATCHING", uint64(len(c.watched)))
}

func (c *conn) watches(name string) int {
	return slices.IndexFunc(c.watched, func(t *tube) bool { return t.name == name })
}

// find enters the tube of a job, after what is due there is done.
func (c *conn) find(id uint64) (*tube, *queues.Work, error) {
	if id > math.MaxInt64 {
		return nil, nil, work.ErrNotFound
	}
	name, err := c.nameFor(work.ID(id))
	if err != nil {
		return nil, nil, err
	}
	of, q, err := c.s.tubes.find(c.ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if q == nil {
		c.s.tubes.leave(of, nil)
		return nil, nil, work.ErrNotFound
	}
	if err := q.Reclaim(c.ctx); err != nil {
		c.s.tubes.leave(of, nil)
		return nil, nil, err
	}
	return of, q, nil
}

// nameFor returns the name of the tube of a job. One that was not put by a server is only found by its holder.
func (c *conn) nameFor(id work.ID) (string, error) {
	if h := c.held[id]; h != nil {
		return h.tube.name, nil
	}
	return work.Find(c.ctx, c.s.tubes.set.DB(), id)
}

func (c *conn) delete(id uint64) error {
	if h := c.holds(id); h != nil {
		err := h.Ack(c.ctx)
		of := c.drop(h)
		defer c.s.tubes.leave(of, nil)
		if err == nil {
			return c.deleted(of)
		}
		if !errors.Is(err, work.ErrLeaseLost) {
			return err
		}
	}
	of, q, err := c.find(id)
	if err != nil {
		return err
	}
	defer c.s.tubes.leave(of, nil)
	if err := q.DeleteFree(c.ctx, work.ID(id)); err != nil {
		return err
	}
	return c.deleted(of)
}

func (c *conn) deleted(of *tube) error {
	c.s.tubes.update(of, func(t *tube) { t.deletes++ })
	return c.reply("DELETED")
}

// onHeld does what only the holder of a job may.
func (c *conn) onHeld(cmd command) (err error) {
	h := c.holds(cmd.id)
	if h == nil {
		return work.ErrNotFound
	}
	reply := ""
	switch cmd.op {
	case opTouch:
		if err = h.Extend(c.ctx, 0); errors.Is(err, work.ErrCancelled) {
			err = nil // it was extended
		}
		if err == nil {
			return c.reply("TOUCHED")
		}
	case opRelease:
		reply, err = "RELEASED", h.ReleaseInPlace(c.ctx, cmd.delay, int64(cmd.priority))
	case opBury:
		reply, err = "BURIED", h.BuryAs(c.ctx, "buried", int64(cmd.priority))
	}
	if err == nil || errors.Is(err, work.ErrLeaseLost) {
		c.s.tubes.leave(c.drop(h), nil)
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

// drop forgets a job, and returns its tube, which the caller leaves.
func (c *conn) drop(h *held) *tube {
	delete(c.held, h.ID)
	return h.tube
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
			c.s.tubes.leave(h.tube, nil)
		})
	}
	group.Wait()
	clear(c.held)
}

var errConnectionEnded = errors.New("the connection that held it has ended")

func (c *conn) kick(bound int) error {
	q, err := c.s.tubes.queue(c.ctx, c.used, queues.Existing)
	if isNone(err) {
		return c.reply("KICKED 0")
	}
	if err == nil {
		err = q.Reclaim(c.ctx)
	}
	if err != nil {
		return err
	}
	n, err := q.KickFirst(c.ctx, bound)
	if err != nil {
		return err
	}
	return c.replyNumber("KICKED", uint64(n))
}

func (c *conn) kickJob(id uint64) error {
	of, q, err := c.find(id)
	if err != nil {
		return err
	}
	defer c.s.tubes.leave(of, nil)
	if err := q.Kick(c.ctx, work.ID(id)); err != nil {
		return err
	}
	return c.reply("KICKED")
}

func (c *conn) pauseTube(name string, d time.Duration) error {
	of, _, err := c.s.tubes.find(c.ctx, name)
	if err != nil {
		return err
	}
	c.s.tubes.pauseTube(of, d)
	c.s.tubes.leave(of, nil)
	return c.reply("PAUSED")
}
