package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
)

// keeper keeps leases. Its methods are those of work.Keeper.
type keeper struct{ *jobs }

// Ack ends a lease: its job is done. Those without a result share requests.
func (q keeper) Ack(ctx context.Context, id work.ID, token string, result []byte) error {
	if result == nil {
		lost, err := q.acks.Do(ctx, wire.HeldJob{ID: id, Token: wire.Token{Token: token}})
		if err == nil && lost {
			err = fmt.Errorf("client: %w: job %d", work.ErrLeaseLost, id)
		}
		return err
	}
	payload := wire.Base64(result)
	return q.end(ctx, id, "ack", wire.Ack{Token: wire.Token{Token: token}, Result: &payload})
}

func (q *jobs) runAcks(ctx context.Context, calls []*batch.Call[wire.HeldJob, bool]) error {
	var held wire.Held
	for _, c := range calls {
		held.Jobs = append(held.Jobs, c.Request)
	}
	var answer wire.Acked
	err := q.do(ctx, call{method: http.MethodPost, path: jobPath(q.name) + "/ack", body: held, missing: work.ErrLeaseLost}, &answer)
	for _, c := range calls {
		c.Result = slices.Contains(answer.Lost, c.Request.ID)
	}
	return err
}

// end sends a verb that ends a lease.
func (q keeper) end(ctx context.Context, id work.ID, verb string, body any) error {
	return q.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/" + verb, body: body, missing: work.ErrLeaseLost}, nil)
}

// Extend has a lease end at a time from now, and returns that time by this machine's clock.
func (q keeper) Extend(ctx context.Context, id work.ID, token string, d time.Duration) (time.Time, error) {
	var answer wire.Extended
	until := time.Now().Add(d)
	body := wire.Extend{Token: wire.Token{Token: token}, Lease: wire.Duration{Duration: d}}
	err := q.do(ctx, call{method: http.MethodPost, path: q.path(id) + "/extend", body: body, again: true, missing: work.ErrLeaseLost}, &answer)
	if err == nil && answer.Cancelled {
		err = work.ErrCancelled
	}
	return until, err
}

// Release gives a job back.
func (q keeper) Release(ctx context.Context, id work.ID, token string, delay time.Duration, priority *int64) error {
	return q.end(ctx, id, "release", wire.Release{Token: wire.Token{Token: token}, Delay: wire.Duration{Duration: delay}, Priority: priority})
}

// valid is the text of an error as JSON can have it.
func valid(reason string) string { return strings.ToValidUTF8(reason, "\uFFFD") }

// Fail ends an attempt with an error.
func (q keeper) Fail(ctx context.Context, id work.ID, token string, delay *time.Duration, reason string) error {
	body := wire.Fail{Token: wire.Token{Token: token}, Reason: valid(reason)}
	if delay != nil {
		body.Delay = &wire.Duration{Duration: *delay}
	}
	return q.end(ctx, id, "fail", body)
}

// Bury makes a job dead.
func (q keeper) Bury(ctx context.Context, id work.ID, token string, reason string) error {
	return q.end(ctx, id, "bury", wire.Bury{Token: token, Reason: valid(reason)})
}
