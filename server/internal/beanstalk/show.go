package beanstalk

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// counts are of what has happened since the server began, and waiting of connections that wait now.
type counts struct {
	verbs                                []atomic.Int64
	connections, jobs, timeouts, waiting atomic.Int64
}

const (
	urgent      = 1024  // priorities below it
	countUrgent = 10000 // of urgent jobs that are counted where not all ready ones are
)

func (c *conn) listTubes(command) error {
	names, err := c.s.tubes.names(c.ctx)
	if err != nil {
		return err
	}
	return c.replyData("OK", list(names))
}

func (c *conn) listWatched(command) error {
	var names []string
	for _, t := range c.watched {
		names = append(names, t.name)
	}
	return c.replyData("OK", list(names))
}

func list(names []string) []byte {
	data := []byte("---\n")
	for _, name := range names {
		data = fmt.Appendf(data, "- %s\n", name)
	}
	return data
}

func (c *conn) peek(cmd command) error {
	return c.look(cmd, func(_ string, j *work.Info[[]byte]) error { return c.found(j) })
}

func (c *conn) found(j *work.Info[[]byte]) error {
	return c.replyData(fmt.Sprintf("FOUND %d", j.ID), j.Payload)
}

func (c *conn) statsJob(cmd command) error {
	return c.look(cmd, func(name string, j *work.Info[[]byte]) error { return c.replyData("OK", statsJob(name, j, time.Now())) })
}

// look calls f with a job. One that is done is kept for others to look at.
func (c *conn) look(cmd command, f func(string, *work.Info[[]byte]) error) error {
	return c.find(cmd.id, func(name string, q *queues.Work) error {
		info, err := q.Get(c.ctx, work.ID(cmd.id))
		if err == nil && info.State == work.Done {
			err = work.ErrNotFound
		}
		if err != nil {
			return err
		}
		return f(name, info)
	})
}

func peekFirst(state work.State) func(*conn, command) error {
	return func(c *conn, _ command) error {
		var first []*work.Info[[]byte]
		err := c.s.tubes.with(c.ctx, c.used.name, func(q *queues.Work) (err error) {
			if err := q.Sweep(c.ctx); err != nil {
				return err
			}
			first, _, err = q.Page(c.ctx, work.Filter{State: state}, nil, 1)
			return err
		})
		if err == nil && len(first) == 0 {
			err = work.ErrNotFound
		}
		if err != nil {
			return err
		}
		return c.found(first[0])
	}
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
	if err := q.Sweep(ctx); err != nil {
		return err
	}
	s, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	below, err := verbsOf(q).ReadyBelow(ctx, urgent, countUrgent)
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

func (c *conn) statsTube(cmd command) error {
	return c.s.tubes.find(c.ctx, cmd.tube, func(q *queues.Work) error {
		var n jobCounts
		if q != nil {
			if err := n.count(c.ctx, q); err != nil {
				return err
			}
		}
		var rest []field
		c.s.tubes.update(cmd.tube, func(t *tube) {
			total, left := t.paused(time.Now())
			rest = []field{
				{"total-jobs", t.jobs}, {"current-using", t.using}, {"current-watching", t.watched}, {"current-waiting", len(t.waiting)},
				{"cmd-delete", t.deletes}, {"cmd-pause-tube", t.pauses}, {"pause", seconds(total)}, {"pause-time-left", seconds(left)},
			}
		})
		return c.replyData("OK", yaml(slices.Concat([]field{{"name", cmd.tube}}, n.fields(), rest)))
	})
}

func (c *conn) stats(command) error {
	names, err := c.s.tubes.names(c.ctx)
	if err != nil {
		return err
	}
	var n jobCounts
	for _, name := range names {
		if err := c.s.tubes.with(c.ctx, name, func(q *queues.Work) error { return n.count(c.ctx, q) }); err != nil {
			return err
		}
	}
	return c.replyData("OK", yaml(slices.Concat(n.fields(), c.s.verbFields(), c.s.fields(len(names)))))
}

func (s *Server) verbFields() (fields []field) {
	for i := range len(verbs) - uncounted {
		fields = append(fields, field{"cmd-" + verbs[i].name, s.counts.verbs[i].Load()})
	}
	return fields
}

// version is that of beanstalkd whose protocol it is.
const version = "1.12"

func (s *Server) fields(tubes int) []field {
	host, _ := os.Hostname() // "" says that it is not known
	user, system := processorTime()
	return []field{
		{"job-timeouts", s.counts.timeouts.Load()}, {"total-jobs", s.counts.jobs.Load()}, {"max-job-size", s.o.MaxJobSize}, {"current-tubes", tubes},
		{"current-connections", s.count(func(*conn) bool { return true })},
		{"current-producers", s.count(func(c *conn) bool { return c.producer.Load() })},
		{"current-workers", s.count(func(c *conn) bool { return c.worker.Load() })}, {"current-waiting", s.counts.waiting.Load()},
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
