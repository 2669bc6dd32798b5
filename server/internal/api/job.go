package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// JobIn is an input with a job.
type JobIn struct {
	QueueIn
	ID int64 `path:"id" doc:"Of the job."`
}

// TokenIn is a part of a body.
type TokenIn struct {
	Token string `json:"token" maxLength:"100" doc:"Of the lease, as reserve has given it."`
}

type empty struct{}

type getJobIn struct {
	JobIn
	FormIn
}

type getJobOut struct{ Body jobInfo }

func (a *api) getJob(ctx context.Context, in *getJobIn) (*getJobOut, error) {
	out := new(getJobOut)
	err := a.withJobs(ctx, access.Consume, in.Queue, func(q *queues.Work) error {
		info, err := q.Get(ctx, work.ID(in.ID))
		if err != nil {
			return err
		}
		out.Body = in.Form.info(info)
		result, err := q.Result(ctx, info.ID)
		if result != nil {
			p := in.Form.payload(result)
			out.Body.Result = &p
		}
		return err
	})
	return out, err
}

// held calls f with the lease of a token.
func (a *api) held(ctx context.Context, in JobIn, token string, f func(*lease) error) error {
	return a.withJobs(ctx, access.Consume, in.Queue, func(q *queues.Work) error {
		l, err := q.Held(work.ID(in.ID), token)
		if err != nil {
			return err
		}
		return f(l)
	})
}

// changed does to a job what only an operator may.
func (a *api) changed(ctx context.Context, action string, in JobIn, f func(*queues.Work, work.ID) error) (*empty, error) {
	return a.operated(ctx, action, in.Queue, func(q *queues.Work) error { return f(q, work.ID(in.ID)) }, slog.Int64("id", in.ID))
}

type ackIn struct {
	JobIn
	Body struct {
		TokenIn
		Result *Payload `json:"result,omitempty" doc:"Kept as long as the job is."`
	}
}

func (a *api) ack(ctx context.Context, in *ackIn) (*empty, error) {
	var result []byte
	if in.Body.Result != nil {
		if err := in.Body.Result.check(); err != nil {
			return nil, huma.Error422UnprocessableEntity("result: " + err.Error())
		}
		result = in.Body.Result.bytes()
	}
	return new(empty), a.held(ctx, in.JobIn, in.Body.Token, func(l *lease) error { return l.AckResult(ctx, result) })
}

type heldJob struct {
	ID int64 `json:"id"`
	TokenIn
}

type ackAllIn struct {
	QueueIn
	Body struct {
		Jobs []heldJob `json:"jobs" maxItems:"1000" nullable:"false"`
	}
}

type ackAllOut struct {
	Body struct {
		Acked int     `json:"acked" doc:"How many jobs are done."`
		Lost  []int64 `json:"lost" nullable:"false" doc:"Those whose leases were over."`
	}
}

// ackAll ends several leases, in transactions that they share.
func (a *api) ackAll(ctx context.Context, in *ackAllIn) (*ackAllOut, error) {
	out := new(ackAllOut)
	out.Body.Lost = []int64{}
	err := a.withJobs(ctx, access.Consume, in.Queue, func(q *queues.Work) error {
		errs := together(len(in.Body.Jobs), func(i int) error {
			l, err := q.Held(work.ID(in.Body.Jobs[i].ID), in.Body.Jobs[i].Token)
			if err != nil {
				return err
			}
			return l.Ack(ctx)
		})
		for i, err := range errs {
			switch {
			case errors.Is(err, work.ErrLeaseLost):
				out.Body.Lost = append(out.Body.Lost, in.Body.Jobs[i].ID)
			case err != nil:
				return err
			default:
				out.Body.Acked++
			}
		}
		return nil
	})
	return out, err
}

type extendIn struct {
	JobIn
	Body struct {
		TokenIn
		Lease duration `json:"lease,omitzero" doc:"How long to have it, from now. Default: as long as at first."`
	}
}

type extendOut struct {
	Body struct {
		Deadline  time.Time `json:"deadline"`
		Cancelled bool      `json:"cancelled" doc:"Somebody has cancelled the job: it dies when the lease ends, unless it is acknowledged."`
	}
}

func (a *api) extend(ctx context.Context, in *extendIn) (*extendOut, error) {
	out := new(extendOut)
	err := a.held(ctx, in.JobIn, in.Body.Token, func(l *lease) error {
		err := l.Extend(ctx, in.Body.Lease.Duration)
		if errors.Is(err, work.ErrCancelled) {
			out.Body.Cancelled, err = true, nil
		}
		out.Body.Deadline = l.Deadline()
		return err
	})
	return out, err
}

type releaseIn struct {
	JobIn
	Body struct {
		TokenIn
		Delay    duration `json:"delay,omitzero" doc:"How long until it is ready again. Default: at once."`
		Priority *int64   `json:"priority,omitempty" doc:"Default: the one that it has."`
	}
}

func (a *api) release(ctx context.Context, in *releaseIn) (*empty, error) {
	return new(empty), a.held(ctx, in.JobIn, in.Body.Token, func(l *lease) error {
		if in.Body.Priority != nil {
			return l.ReleaseAs(ctx, in.Body.Delay.Duration, *in.Body.Priority)
		}
		return l.Release(ctx, in.Body.Delay.Duration)
	})
}

type failIn struct {
	JobIn
	Body struct {
		TokenIn
		Delay  *duration `json:"delay,omitempty" doc:"How long until it is tried again. Default: attempt^4 seconds, up to a day."`
		Reason string    `json:"reason,omitempty" doc:"Kept with the job, up to 2048 bytes."`
	}
}

func (a *api) fail(ctx context.Context, in *failIn) (*empty, error) {
	reason := errors.New(cmp.Or(in.Body.Reason, "failed"))
	return new(empty), a.held(ctx, in.JobIn, in.Body.Token, func(l *lease) error {
		if d := in.Body.Delay; d != nil {
			return l.FailAfter(ctx, d.Duration, reason)
		}
		return l.Fail(ctx, reason)
	})
}

type buryIn struct {
	JobIn
	Body struct {
		Token  string `json:"token,omitempty" maxLength:"100" doc:"Of the lease. Without it the job is buried whoever has it, which needs the scope admin."`
		Reason string `json:"reason,omitempty"`
	}
}

func (a *api) bury(ctx context.Context, in *buryIn) (*empty, error) {
	if in.Body.Token == "" {
		return a.changed(ctx, "bury", in.JobIn, func(q *queues.Work, id work.ID) error { return q.Bury(ctx, id, in.Body.Reason) })
	}
	return new(empty), a.held(ctx, in.JobIn, in.Body.Token, func(l *lease) error { return l.Bury(ctx, in.Body.Reason) })
}

func (a *api) kick(ctx context.Context, in *JobIn) (*empty, error) {
	return a.changed(ctx, "kick", *in, func(q *queues.Work, id work.ID) error { return q.Kick(ctx, id) })
}

func (a *api) cancel(ctx context.Context, in *JobIn) (*empty, error) {
	return a.changed(ctx, "cancel", *in, func(q *queues.Work, id work.ID) error { return q.Cancel(ctx, id) })
}

func (a *api) deleteJob(ctx context.Context, in *JobIn) (*empty, error) {
	return a.changed(ctx, "delete", *in, func(q *queues.Work, id work.ID) error { return q.Delete(ctx, id) })
}

type patchJobIn struct {
	JobIn
	Body struct {
		Priority int64 `json:"priority" doc:"Its place is behind those that have it."`
	}
}

func (a *api) patchJob(ctx context.Context, in *patchJobIn) (*empty, error) {
	return a.changed(ctx, "reprioritise", in.JobIn, func(q *queues.Work, id work.ID) error { return q.Reprioritise(ctx, id, in.Body.Priority) })
}
