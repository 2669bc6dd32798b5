package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// JobIn is an input with a job.
type JobIn struct {
	QueueIn
	ID work.ID `path:"id" doc:"Of the job."`
}

func (in JobIn) attributes() []slog.Attr {
	return append([]slog.Attr{slog.Int64("id", int64(in.ID))}, in.QueueIn.attributes()...)
}

type getJobIn struct {
	JobIn
	FormIn
}

func (a *api) getJob(ctx context.Context, q *queues.Work, in *getJobIn) (j wire.JobInfo, err error) {
	info, err := q.Get(ctx, in.ID)
	if err == nil {
		err = info.DecodeError // what is stored of its payload can't be read
	}
	if err != nil {
		return j, err
	}
	j = in.Form.info(info)
	result, err := q.Result(ctx, in.ID)
	if result != nil {
		p := in.Form.payload(result)
		j.Result = &p
	}
	return j, err
}

// jobBody is an input with a job and a body.
type jobBody[B any] struct {
	JobIn
	Body B
}

func (a *api) ack(ctx context.Context, l *lease, b *wire.Ack) error {
	if b.Result == nil {
		return l.Ack(ctx)
	}
	if err := b.Result.Check(); err != nil {
		return huma.Error422UnprocessableEntity("result: " + err.Error())
	}
	return l.AckResult(ctx, b.Result.Bytes())
}

// ackAll ends several leases, in transactions that they share.
func (a *api) ackAll(ctx context.Context, q *queues.Work, in *queueBody[wire.Held]) (wire.Acked, error) {
	acked := wire.Acked{Lost: []work.ID{}}
	leases := make([]*lease, len(in.Body.Jobs))
	for i, j := range in.Body.Jobs { // before any is acknowledged
		l, err := q.Held(j.ID, j.Secret())
		if err != nil {
			return acked, fmt.Errorf("jobs[%d]: %w", i, err)
		}
		leases[i] = l
	}
	errs := together(len(leases), func(i int) error { return leases[i].Ack(ctx) })
	for i, err := range errs {
		switch {
		case errors.Is(err, work.ErrLeaseLost):
			acked.Lost = append(acked.Lost, leases[i].ID)
		case err != nil:
			return acked, err
		default:
			acked.Acked++
		}
	}
	return acked, nil
}

func (a *api) extend(ctx context.Context, q *queues.Work, in *jobBody[wire.Extend]) (out wire.Extended, err error) {
	l, err := q.Held(in.ID, in.Body.Secret())
	if err != nil {
		return out, err
	}
	err = l.Extend(ctx, in.Body.Lease.Duration)
	if errors.Is(err, work.ErrCancelled) {
		out.Cancelled, err = true, nil
	}
	out.Deadline = l.Deadline()
	return out, err
}

type recallsIn struct {
	QueueIn
	After int64         `query:"after" doc:"The next of the answer before. Default: none, and the answer comes at once."`
	Wait  wire.Duration `query:"wait" doc:"How long to wait for one, up to 1h. Default: not at all."`
}

func (a *api) recalls(ctx context.Context, q *queues.Work, in *recallsIn) (wire.Recalls, error) {
	look := func(ctx context.Context) ([]work.Recalls, error) {
		r, err := q.Recalls(ctx, in.After)
		return []work.Recalls{r}, err
	}
	now := func(ctx context.Context) ([]work.Recalls, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		r, err := q.Recalls(ctx, in.After)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return []work.Recalls{r}, err
	}
	out := wire.Recalls{Next: in.After, Jobs: []work.ID{}}
	got, err := takeWithin(ctx, a, in.Wait.Duration, lateJobs, now, look)
	if err != nil || len(got) == 0 {
		return out, err
	}
	out.Next, out.All = got[0].Next, got[0].All
	out.Jobs = append(out.Jobs, got[0].Jobs...)
	return out, nil
}

func (a *api) release(ctx context.Context, l *lease, b *wire.Release) error {
	if b.Priority != nil {
		return l.ReleaseAs(ctx, b.Delay.Duration, *b.Priority)
	}
	return l.Release(ctx, b.Delay.Duration)
}

func (a *api) fail(ctx context.Context, l *lease, b *wire.Fail) error {
	reason := errors.New(cmp.Or(b.Reason, "failed"))
	if b.Delay != nil {
		return l.FailAfter(ctx, b.Delay.Duration, reason)
	}
	return l.Fail(ctx, reason)
}

func (a *api) bury(ctx context.Context, q *queues.Work, in *jobBody[wire.Bury]) error {
	if in.Body.Token != "" {
		l, err := q.Held(in.ID, in.Body.Token)
		if err != nil {
			return err
		}
		return l.Bury(ctx, in.Body.Reason)
	}
	if err := access.Check(ctx, access.Admin, in.Queue); err != nil {
		return err
	}
	a.audit(ctx, "bury", in)
	return q.Bury(ctx, in.ID, in.Body.Reason)
}

func (a *api) patchJob(ctx context.Context, q *queues.Work, in *jobBody[wire.Reprioritise]) error {
	return q.Reprioritise(ctx, in.ID, in.Body.Priority)
}
