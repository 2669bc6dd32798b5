package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/conq-go/conq/work"
)

// Stats returns how many jobs there are.
func (q *jobs) Stats(ctx context.Context) (work.Stats, error) {
	var answer struct{ State struct{ Jobs work.Stats } }
	err := q.c.do(ctx, call{method: http.MethodGet, path: queuePath(q.name), query: url.Values{"count": {"true"}}, again: true}, &answer)
	return answer.State.Jobs, err
}

// Len returns how many jobs there are in all states.
func (q *jobs) Len(ctx context.Context) (int, error) {
	s, err := q.Stats(ctx)
	return int(s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead + s.Done), err
}

// Clear removes all jobs in any state. Workers have lost their leases.
func (q *jobs) Clear(ctx context.Context) error { return q.c.clear(ctx, q.name) }

// Kick makes a dead or scheduled job ready now.
func (q *jobs) Kick(ctx context.Context, id work.ID) error { return q.change(ctx, id, "kick", nil) }

// Cancel makes a job dead; of one that is leased, the handler's context ends at its next heartbeat.
func (q *jobs) Cancel(ctx context.Context, id work.ID) error { return q.change(ctx, id, "cancel", nil) }

// BuryJob makes a job dead, whoever holds it.
func (q *jobs) BuryJob(ctx context.Context, id work.ID, reason string) error {
	return q.change(ctx, id, "bury", map[string]any{"reason": reason})
}

func (q *jobs) change(ctx context.Context, id work.ID, verb string, body any) error {
	return q.c.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/" + verb, body: body}, nil)
}

// Delete removes a job in any state. A worker that holds it has lost its lease.
func (q *jobs) Delete(ctx context.Context, id work.ID) error {
	return q.c.do(ctx, call{method: http.MethodDelete, path: q.path(id)}, nil)
}

// Reprioritise gives a job another priority; its place is behind those that have it.
func (q *jobs) Reprioritise(ctx context.Context, id work.ID, priority int64) error {
	return q.c.do(ctx, call{method: http.MethodPatch, path: q.path(id), body: map[string]int64{"priority": priority}, again: true}, nil)
}

// Pause has the queue give out nothing until Resume. Leases under way go on.
func (q *jobs) Pause(ctx context.Context) error { return q.switchTo(ctx, "pause") }

// Resume ends Pause.
func (q *jobs) Resume(ctx context.Context) error { return q.switchTo(ctx, "resume") }

func (q *jobs) switchTo(ctx context.Context, verb string) error {
	return q.c.do(ctx, call{method: http.MethodPost, path: jobPath(q.name) + "/" + verb, again: true}, nil)
}

// Every has a job put at each tick of a cron expression; see work.Queue.Every.
func (q *WorkQueue[T]) Every(ctx context.Context, name, spec string, value T, options ...work.EveryOptions) error {
	var o work.EveryOptions
	if len(options) > 0 {
		o = options[0]
	}
	payload, err := encode(q.codec, value)
	if err != nil {
		return err
	}
	body := struct {
		Base64      []byte   `json:"base64"`
		Cron        string   `json:"cron"`
		Priority    int64    `json:"priority,omitempty"`
		Key         string   `json:"key,omitempty"`
		MaxAttempts int      `json:"max_attempts,omitempty"`
		Lease       duration `json:"lease,omitzero"`
		MaxLate     duration `json:"max_late,omitzero"`
	}{payload, spec, o.Priority, o.Key, o.MaxAttempts, duration{o.Lease}, duration{o.MaxLate}}
	return q.c.do(ctx, call{method: http.MethodPut, path: q.periodic(name), body: body, again: true}, nil)
}

func (q *jobs) periodic(name string) string { return jobPath(q.name) + "/periodic/" + escape(name) }

// RemovePeriodic ends a periodic job; jobs that it has put stay. The error is a work.ErrNotFound if there is none.
func (q *jobs) RemovePeriodic(ctx context.Context, name string) error {
	return q.c.do(ctx, call{method: http.MethodDelete, path: q.periodic(name)}, nil)
}

// RunPeriodic puts a periodic job once more, now.
func (q *jobs) RunPeriodic(ctx context.Context, name string) (work.ID, error) {
	var answer struct{ ID work.ID }
	err := q.c.do(ctx, call{method: http.MethodPost, path: q.periodic(name) + "/run"}, &answer)
	return answer.ID, err
}

// Periodics returns the periodic jobs of the queue, by name.
func (q *jobs) Periodics(ctx context.Context) (all []work.Periodic, err error) {
	var answer struct {
		Periodic []struct {
			Name, Cron string
			Next       time.Time
			MaxLate    duration `json:"max_late"`
			Base64     []byte
		}
	}
	err = q.c.do(ctx, call{method: http.MethodGet, path: jobPath(q.name) + "/periodic", query: url.Values{"form": {"base64"}}, again: true}, &answer)
	for _, p := range answer.Periodic {
		all = append(all, work.Periodic{Name: p.Name, Spec: p.Cron, Next: p.Next, MaxLate: p.MaxLate.Duration, Payload: p.Base64})
	}
	return all, err
}
