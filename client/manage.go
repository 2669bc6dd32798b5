package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// Stats returns how many jobs there are.
func (q *jobs) Stats(ctx context.Context) (work.Stats, error) {
	info, err := q.c.Count(ctx, q.name)
	if err = unless(err); err != nil || info.State == nil || info.State.Jobs == nil {
		return work.Stats{}, err
	}
	return *info.State.Jobs, nil
}

// Kick makes a dead or scheduled job ready now.
func (q *jobs) Kick(ctx context.Context, id work.ID) error { return q.change(ctx, id, "kick", nil) }

// Cancel makes a job dead; of one that is leased, the handler's context ends, at once if its worker goes by the same server, and else within 5 s.
func (q *jobs) Cancel(ctx context.Context, id work.ID) error { return q.change(ctx, id, "cancel", nil) }

// Bury makes a job dead, whoever holds it.
func (q *jobs) Bury(ctx context.Context, id work.ID, reason string) error {
	return q.change(ctx, id, "bury", wire.Bury{Reason: valid(reason)})
}

// change sends a verb that is not carried out twice.
func (q *jobs) change(ctx context.Context, id work.ID, verb string, body any) error {
	return q.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/" + verb, body: body, missing: work.ErrNotFound}, nil)
}

// Delete removes a job in any state. A worker that holds it has lost its lease.
func (q *jobs) Delete(ctx context.Context, id work.ID) error {
	return q.do(ctx, call{method: http.MethodDelete, path: q.path(id), missing: work.ErrNotFound}, nil)
}

// Reprioritise gives a job another priority; its place is behind those that have it.
func (q *jobs) Reprioritise(ctx context.Context, id work.ID, priority int64) error {
	return q.do(ctx, call{method: http.MethodPatch, path: q.path(id), body: wire.Reprioritise{Priority: priority}, again: true, missing: work.ErrNotFound}, nil)
}

// EndLease ends the lease of a job as if it had expired.
func (q *jobs) EndLease(ctx context.Context, id work.ID) error {
	return q.change(ctx, id, "end-lease", nil)
}

// KickAll, DeleteAll, CancelAll, BuryAll, EndLeases and ReprioritiseAll do the same to all jobs that match, in the background of
// the server, and return how many. progress, if not nil, is told the number so far. When ctx ends the server stops; what was done stays.
func (q *jobs) KickAll(ctx context.Context, f work.Filter, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "kick"}, f, progress)
}

// DeleteAll is Delete for all jobs that match; see KickAll.
func (q *jobs) DeleteAll(ctx context.Context, f work.Filter, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "delete"}, f, progress)
}

// CancelAll is Cancel for all jobs that match; see KickAll.
func (q *jobs) CancelAll(ctx context.Context, f work.Filter, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "cancel"}, f, progress)
}

// BuryAll is Bury for all jobs that match; see KickAll.
func (q *jobs) BuryAll(ctx context.Context, f work.Filter, reason string, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "bury", Reason: valid(reason)}, f, progress)
}

// EndLeases is EndLease for all jobs that match; see KickAll.
func (q *jobs) EndLeases(ctx context.Context, f work.Filter, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "end-leases"}, f, progress)
}

// ReprioritiseAll is Reprioritise for all jobs that match; see KickAll.
func (q *jobs) ReprioritiseAll(ctx context.Context, f work.Filter, priority int64, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "reprioritise", Priority: priority}, f, progress)
}

// Count returns how many jobs match. It reads them, in the background of the server; see KickAll.
func (q *jobs) Count(ctx context.Context, f work.Filter, progress func(int)) (int, error) {
	return q.all(ctx, wire.Bulk{Do: "count"}, f, progress)
}

// lookEvery is how often the client asks how far a task is.
const lookEvery = 100 * time.Millisecond

func (q *jobs) all(ctx context.Context, body wire.Bulk, f work.Filter, progress func(int)) (int, error) {
	f.Reverse = false // it says nothing about which
	body.Filter, body.All = wire.FilterOf(f), f == work.Filter{}
	var t wire.Task
	path := jobPath(q.name) + "/bulk"
	if err := q.do(ctx, call{method: http.MethodPost, path: path, body: body}, &t); err != nil || t.State == "" {
		return 0, err
	}
	path += "/" + escape(t.ID)
	for t.State == "running" {
		if !rest(ctx, lookEvery) {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return int(t.Done), errors.Join(context.Cause(ctx), q.do(stopping, call{method: http.MethodDelete, path: path}, nil))
		}
		if err := q.do(ctx, call{method: http.MethodGet, path: path, again: true, missing: queue.ErrNoQueue}, &t); err != nil {
			return int(t.Done), err
		}
		if progress != nil && t.Done > 0 {
			progress(int(t.Done))
		}
	}
	if t.State != "done" {
		return int(t.Done), fmt.Errorf("client: server has stopped: %s", t.Error)
	}
	return int(t.Done), nil
}

// Pause has the queue give out nothing until Resume. Leases under way go on.
func (q *jobs) Pause(ctx context.Context) error { return q.switchTo(ctx, "pause") }

// Resume ends Pause.
func (q *jobs) Resume(ctx context.Context) error { return q.switchTo(ctx, "resume") }

func (q *jobs) switchTo(ctx context.Context, verb string) error {
	c := call{method: http.MethodPost, path: jobPath(q.name) + "/" + verb, again: true, missing: queue.ErrNoQueue}
	err := q.do(ctx, c, nil)
	if errors.Is(err, queue.ErrNoQueue) {
		if err = q.make(ctx, "work queue"); err == nil {
			err = q.do(ctx, c, nil)
		}
	}
	return err
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
	if err := o.Check(); err != nil { // what is not sent
		return fmt.Errorf("client: %w", err)
	}
	body := wire.EveryOf(payload, spec, o)
	return q.do(ctx, call{method: http.MethodPut, path: q.periodic(name), body: body, again: true}, nil)
}

func (q *jobs) periodic(name string) string { return jobPath(q.name) + "/periodic/" + escape(name) }

// RemovePeriodic ends a periodic job; jobs that it has put stay. The error is a work.ErrNotFound if there is none.
func (q *jobs) RemovePeriodic(ctx context.Context, name string) error {
	return q.do(ctx, call{method: http.MethodDelete, path: q.periodic(name), missing: work.ErrNotFound}, nil)
}

// RunPeriodic puts a periodic job once more, now.
func (q *jobs) RunPeriodic(ctx context.Context, name string) (work.ID, error) {
	var answer wire.Ran
	err := q.do(ctx, call{method: http.MethodPost, path: q.periodic(name) + "/run", once: true, missing: work.ErrNotFound}, &answer)
	return answer.ID, err
}

// Periodics returns the periodic jobs of the queue, by name.
func (q *jobs) Periodics(ctx context.Context) (all []work.Periodic, err error) {
	var answer wire.PeriodicList
	err = q.do(ctx, call{method: http.MethodGet, path: jobPath(q.name) + "/periodic", query: url.Values{"form": {"base64"}}, again: true}, &answer)
	for _, p := range answer.Periodic {
		overlap, bad := work.ParseOverlap(p.Overlap)
		if err == nil {
			err = bad
		}
		all = append(all, work.Periodic{Overlap: overlap, Unique: p.Unique, Name: p.Name, Spec: p.Cron, Next: p.Next, MaxLate: p.MaxLate.Duration, Payload: p.Bytes(), Trouble: p.Trouble})
	}
	return all, err
}
