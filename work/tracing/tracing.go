// Package tracing carries a trace of OpenTelemetry from who puts a job to who does it, by the job's metadata. It needs
// OpenTelemetry's API only: where spans go, the program says that sets a tracer provider. Without one nothing is recorded.
//
//	id, err := q.Put(ctx, email, tracing.Job(ctx, work.Job{}))
//	err = work.Run(ctx, q, tracing.Handler(q.Name(), handler))
//
// The metadata are traceparent and tracestate, as W3C Trace Context has them. A server puts those of a request's headers into
// the jobs that it puts, so programs in other languages need only send them.
package tracing

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/conq-go/conq/work"
)

const scope = "github.com/conq-go/conq/work/tracing"

var format propagation.TraceContext

// Job returns j with the trace of ctx in its metadata, if there is one. It does not change j's.
func Job(ctx context.Context, j work.Job) work.Job {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return j
	}
	meta := make(map[string]string, len(j.Meta)+2)
	maps.Copy(meta, j.Meta)
	format.Inject(ctx, propagation.MapCarrier(meta))
	j.Meta = meta
	return j
}

// Handler returns a handler with a span for each attempt. It is linked to the span that put the job, and part of its trace. The span has the
// queue, the job's id and attempt, and the error; nothing of the payload.
func Handler[T any](queue string, h work.Handler[T]) work.Handler[T] {
	return func(ctx context.Context, l *work.Lease[T]) error {
		ctx = format.Extract(ctx, propagation.MapCarrier(l.Meta))
		options := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(
				attribute.String("messaging.system", "conq"), attribute.String("messaging.operation.type", "process"),
				attribute.String("messaging.destination.name", queue), attribute.Int64("messaging.message.id", int64(l.ID)), attribute.Int("conq.attempt", l.Attempt),
			),
		}
		if from := trace.SpanContextFromContext(ctx); from.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
		}
		ctx, span := otel.Tracer(scope).Start(ctx, "process "+queue, options...)
		defer span.End()
		err := h(ctx, l)
		if _, snoozed := errors.AsType[interface {
			error
			Snoozed() time.Duration
		}](err); err != nil && !snoozed {
			span.SetStatus(codes.Error, "attempt has failed")
		}
		return err
	}
}
