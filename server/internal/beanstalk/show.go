package beanstalk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// counts are of what has happened since the server began.
type counts struct {
	ops                   [ops]atomic.Int64
	connections, timeouts atomic.Int64
}

const (
	urgent      = 1024  // priorities below it
	countUrgent = 10000 // of urgent jobs that are counted where not all ready ones are
)

// show answers commands that only look.
func (c *conn) show(cmd command) error {
	switch cmd.op {
	case opPeek, opStatsJob:
		return c.showJob(cmd)
	case opPeekReady:
		return c.peekFirst(work.Ready)
	case opPeekDelayed:
		return c.peekFirst(work.Scheduled)
	case opPeekBuried:
		return c.peekFirst(work.Dead)
	case opStats:
		return c.stats()
	case opStatsTube:
		return c.statsTube(cmd.tube)
	case opListTubes:
		names, err := c.s.tubes.names(c.ctx)
		if err != nil {
			return err
		}
		return c.replyOK(list(names))
	case opListTubesWatched:
		var names []string
		for _, t := range c.watched {
			names = append(names, t.name)
		}
		return c.replyOK(list(names))
	default: // opListTubeUsed
		return c.reply("USING " + c.used.name)
	}
}

func list(names []string) []byte {
	data := []byte("---\n")
	for _, name := range names {
		data = fmt.Appendf(data, "- %s\n", name)
	}
	return data
}

func (c *conn) showJob(cmd command) error {
	of, q, err := c.find(cmd.id)
	if err != nil {
		return err
	}
	defer c.s.tubes.leave(of, nil)
	info, err := q.Get(c.ctx, work.ID(cmd.id))
	switch {
	case err != nil:
		return err
	case info.State == work.Done:
		return work.ErrNotFound // it is kept for others to look at
	case cmd.op == opPeek:
		return c.replyJob("FOUND", info.ID, info.Payload)
	}
	return c.replyOK(statsJob(of.name, info, time.Now()))
}

func (c *conn) peekFirst(state work.State) error {
	q, err := c.s.tubes.queue(c.ctx, c.used, queues.Existing)
	if isNone(err) {
		return work.ErrNotFound
	}
	if err == nil {
		err = q.Reclaim(c.ctx)
	}
	if err != nil {
		return err
	}
	infos, _, err := q.Page(c.ctx, work.Filter{State: state}, nil, 1)
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		return work.ErrNotFound
	}
	return c.replyJob("FOUND", infos[0].ID, infos[0].Payload)
}

var stateNames = map[work.State]string{
	work.Ready: "ready", work.Scheduled: "delayed", work.Leased: "reserved", work.Dead: "buried", work.Blocked: "delayed",
}

func statsJob(tube string, j *work.Info[[]byte], now time.Time) []byte {
	left := time.Duration(0)
	if j.State == work.Leased || j.State == work.Scheduled {
		left = max(0, j.Time.Sub(now))
	}
	h := j.History
	return yaml([]field{
		{"id", int64(j.ID)}, {"tube", tube}, {"state", stateNames[j.State]}, {"pri", j.Priority},
		{"age", seconds(now.Sub(j.Created))}, {"delay", seconds(h.Delay.Round(time.Second))}, {"ttr", seconds(j.Lease)},
		{"time-left", seconds(left)}, {"file", 0}, {"reserves", j.Attempts + h.Releases}, {"timeouts", h.Expiries},
		{"releases", h.Releases}, {"buries", h.Buries}, {"kicks", h.Kicks},
	})
}

func seconds(d time.Duration) int64 { return int64(max(0, d) / time.Second) }

// field is a line of YAML.
type field struct {
	name  string
	value any
}

func yaml(fields []field) []byte {
	data := []byte("---\n")
	for _, f := range fields {
		data = fmt.Appendf(data, "%s: %v\n", f.name, f.value)
	}
	return data
}

// jobCounts are of jobs that are there now.
type jobCounts struct{ urgent, ready, reserved, delayed, buried int64 }

func (n *jobCounts) fields() []field {
	return []field{
		{"current-jobs-urgent", n.urgent}, {"current-jobs-ready", n.ready}, {"current-jobs-reserved", n.reserved},
		{"current-jobs-delayed", n.delayed}, {"current-jobs-buried", n.buried},
	}
}

// count adds the jobs of a queue, after what is due there is done.
func (n *jobCounts) count(ctx context.Context, q *queues.Work) error {
	if err := q.Reclaim(ctx); err != nil {
		return err
	}
	s, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	below, err := q.ReadyBelow(ctx, urgent, countUrgent)
	if err != nil {
		return err
	}
	if below == countUrgent {
		below = int(s.Ready) // most have the same priorities
	}
	n.urgent += int64(below)
	n.ready += s.Ready
	n.reserved += s.Leased
	n.delayed += s.Scheduled + s.Blocked
	n.buried += s.Dead
	return nil
}

func (c *conn) statsTube(name string) error {
	of, q, err := c.s.tubes.find(c.ctx, name)
	if err != nil {
		return err
	}
	defer c.s.tubes.leave(of, nil)
	var n jobCounts
	if q != nil {
		if err := n.count(c.ctx, q); err != nil {
			return err
		}
	}
	var rest []field
	c.s.tubes.update(of, func(t *tube) {
		total, left := t.paused(time.Now())
		rest = []field{
			{"total-jobs", t.jobs}, {"current-using", t.using}, {"current-watching", t.watched}, {"current-waiting", len(t.waiting)},
			{"cmd-delete", t.deletes}, {"cmd-pause-tube", t.pauses}, {"pause", seconds(total)}, {"pause-time-left", seconds(left)},
		}
	})
	return c.replyOK(yaml(slices.Concat([]field{{"name", name}}, n.fields(), rest)))
}

// opNames are the words of commands.
var opNames = func() (names [ops]string) {
	for word, s := range commands {
		names[s.op] = word
	}
	return names
}()

// counted are the commands in the order in which stats has them.
var counted = []op{
	opPut, opPeek, opPeekReady, opPeekDelayed, opPeekBuried, opReserve, opReserveTimeout, opDelete, opRelease, opUse, opWatch, opIgnore,
	opBury, opKick, opTouch, opStats, opStatsJob, opStatsTube, opListTubes, opListTubeUsed, opListTubesWatched, opPauseTube,
}

func (c *conn) stats() error {
	names, err := c.s.tubes.names(c.ctx)
	if err != nil {
		return err
	}
	var n jobCounts
	for _, name := range names {
		of, q, err := c.s.tubes.find(c.ctx, name)
		if err == nil && q != nil {
			err = n.count(c.ctx, q)
		}
		if of != nil {
			c.s.tubes.leave(of, nil)
		}
		if err != nil && !errors.Is(err, work.ErrNotFound) {
			return err
		}
	}
	return c.replyOK(yaml(slices.Concat(n.fields(), c.s.opFields(), c.s.fields(len(names)))))
}

func (s *Server) opFields() (fields []field) {
	for _, op := range counted {
		fields = append(fields, field{"cmd-" + opNames[op], s.counts.ops[op].Load()})
	}
	return fields
}

// version is that of beanstalkd whose protocol it is.
const version = "1.12"

func (s *Server) fields(tubes int) []field {
	waiting, jobs := s.tubes.totals()
	host, _ := os.Hostname() // "" says that it is not known
	user, system := processorTime()
	return []field{
		{"job-timeouts", s.counts.timeouts.Load()}, {"total-jobs", jobs}, {"max-job-size", s.o.MaxJobSize}, {"current-tubes", tubes},
		{"current-connections", s.count(func(*conn) bool { return true })},
		{"current-producers", s.count(func(c *conn) bool { return c.producer.Load() })},
		{"current-workers", s.count(func(c *conn) bool { return c.worker.Load() })}, {"current-waiting", waiting},
		{"total-connections", s.counts.connections.Load()}, {"pid", os.Getpid()}, {"version", fmt.Sprintf("%q", version)},
		{"rusage-utime", exact(user)}, {"rusage-stime", exact(system)}, {"uptime", seconds(time.Since(s.started))},
		{"binlog-oldest-index", 0}, {"binlog-current-index", 0}, {"binlog-records-migrated", 0}, {"binlog-records-written", 0},
		{"binlog-max-size", 0}, {"draining", s.draining.Load()}, {"id", s.id}, {"hostname", host}, {"os", runtime.GOOS},
		{"platform", runtime.GOARCH},
	}
}

func exact(d time.Duration) string {
	return fmt.Sprintf("%d.%06d", d/time.Second, d%time.Second/time.Microsecond)
}
