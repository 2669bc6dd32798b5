package api

import (
	"context"
	"log/slog"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// operation is a request, and the scope that its caller needs on its queue. With none it checks that itself.
type operation struct {
	huma.Operation
	scope access.Scope
}

// input is of a request.
type input interface{ queue() string }

// noQueue is the input of a request to all queues.
type noQueue struct{}

func (noQueue) queue() string { return "" }

type empty struct{}

type answer[B any] struct{ Body B }

// register adds a request. Each error is told as RFC 9457 has it.
func register[I input, O any](a *api, op operation, carryOut func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes = a.MaxBody
	huma.Register(a.API, op.Operation, func(ctx context.Context, in *I) (*O, error) {
		if op.scope != "" {
			if err := access.Check(ctx, op.scope, (*in).queue()); err != nil {
				return nil, problem(err)
			}
		}
		out, err := carryOut(ctx, in)
		if err != nil {
			return nil, problem(err)
		}
		return out, nil
	})
}

// add adds a request whose answer has a body.
func add[I input, B any](a *api, op operation, carryOut func(context.Context, *I) (B, error)) {
	register(a, op, func(ctx context.Context, in *I) (*answer[B], error) {
		b, err := carryOut(ctx, in)
		return &answer[B]{b}, err
	})
}

// onWork returns what calls f with the work queue of an input, which has to exist.
func onWork[I input, O any](a *api, f func(context.Context, *queues.Work, *I) (O, error)) func(context.Context, *I) (O, error) {
	return func(ctx context.Context, in *I) (o O, err error) {
		q, release, err := a.Queues.Work(ctx, (*in).queue(), queues.Existing)
		if err != nil {
			return o, err
		}
		defer release()
		return f(ctx, q, in)
	}
}

// addWork adds one to a work queue.
func addWork[I input, B any](a *api, op operation, carryOut func(context.Context, *queues.Work, *I) (B, error)) {
	add(a, op, onWork(a, carryOut))
}

// addVerb adds one that changes a work queue. Its answer has no body.
func addVerb[I input](a *api, op operation, carryOut func(context.Context, *queues.Work, *I) error) {
	register(a, op, onWork(a, func(ctx context.Context, q *queues.Work, in *I) (*empty, error) {
		return new(empty), carryOut(ctx, q, in)
	}))
}

// addLease adds one that ends a lease.
func addLease[B interface{ Secret() string }](a *api, op operation, carryOut func(context.Context, *lease, *B) error) {
	addVerb(a, op, func(ctx context.Context, q *queues.Work, in *jobBody[B]) error {
		l, err := q.Held(in.ID, in.Body.Secret())
		if err != nil {
			return err
		}
		return carryOut(ctx, l, &in.Body)
	})
}

// audited is the input of what operators do.
type audited interface {
	input
	attributes() []slog.Attr
}

// addOperator is addVerb for what is logged, as an action.
func addOperator[I audited](a *api, action string, op operation, carryOut func(context.Context, *queues.Work, *I) error) {
	addVerb(a, op, func(ctx context.Context, q *queues.Work, in *I) error {
		a.audit(ctx, action, *in)
		return carryOut(ctx, q, in)
	})
}

// addJobVerb adds what operators do to a job.
func (a *api) addJobVerb(action string, op operation, verb func(*queues.Work, context.Context, work.ID) error) {
	addOperator(a, action, op, func(ctx context.Context, q *queues.Work, in *JobIn) error { return verb(q, ctx, in.ID) })
}

func (a *api) audit(ctx context.Context, action string, in audited) {
	access.Audit(ctx, a.Logger, action, in.attributes()...)
}
