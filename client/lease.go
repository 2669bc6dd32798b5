package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/work"
)

// heldJob is a job that is to be acknowledged.
type heldJob struct {
	ID    work.ID `json:"id"`
	Token string  `json:"token"`
}

// keeper keeps leases. Its methods are those of work.Keeper.
type keeper struct{ *jobs }

// Ack ends a lease: its job is done. Those without a result share requests.
func (q keeper) Ack(ctx context.Context, id work.ID, token string, result []byte) error {
	if result == nil {
		lost, err := q.acks.Do(ctx, heldJob{id, token})
		if err == nil && lost {
			err = fmt.Errorf("client: %w: job %d", work.ErrLeaseLost, id)
		}
		return err
	}
	body := map[string]any{"token": token, "result": map[string][]byte{"base64": result}}
	return q.end(ctx, id, "ack", body)
}

func (q *jobs) runAcks(calls []*combine.Call[heldJob, bool]) {
	share(calls, func(ctx context.Context, calls []*combine.Call[heldJob, bool]) error {
		var all []heldJob
		for _, c := range calls {
			all = append(all, c.Request)
		}
		var answer struct{ Lost []work.ID }
		err := q.c.do(ctx, call{method: http.MethodPost, path: jobPath(q.name) + "/ack", body: map[string]any{"jobs": all}}, &answer)
		if err != nil {
			return err
		}
		for _, c := range calls {
			c.Result = slices.Contains(answer.Lost, c.Request.ID)
		}
		return nil
	})
}

// end sends a verb that ends a lease.
func (q *jobs) end(ctx context.Context, id work.ID, verb string, body map[string]any) error {
	return q.c.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/" + verb, body: body}, nil)
}

// Extend has a lease end at a time from now, and returns that time by this machine's clock.
func (q keeper) Extend(ctx context.Context, id work.ID, token string, d time.Duration) (time.Time, error) {
	var answer struct{ Cancelled bool }
	until := time.Now().Add(d)
	body := map[string]any{"token": token, "lease": duration{d}}
	err := q.c.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/extend", body: body, again: true}, &answer)
	if err == nil && answer.Cancelled {
		err = work.ErrCancelled
	}
	return until, err
}

// Release gives a job back.
func (q keeper) Release(ctx context.Context, id work.ID, token string, delay time.Duration, priority *int64) error {
	body := map[string]any{"token": token, "delay": duration{delay}}
	if priority != nil {
		body["priority"] = *priority
	}
	return q.end(ctx, id, "release", body)
}

// Fail ends an attempt with an error.
func (q keeper) Fail(ctx context.Context, id work.ID, token string, delay *time.Duration, reason string) error {
	body := map[string]any{"token": token, "reason": reason}
	if delay != nil {
		body["delay"] = duration{*delay}
	}
	return q.end(ctx, id, "fail", body)
}

// Bury makes a job dead.
func (q keeper) Bury(ctx context.Context, id work.ID, token string, reason string) error {
	return q.end(ctx, id, "bury", map[string]any{"token": token, "reason": reason})
}
