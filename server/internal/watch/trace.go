package watch

import (
	"cmp"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

var format propagation.TraceContext

// Traced returns a handler with a span for each request, named by the pattern of its path: nothing of what it says is in it. The
// span takes the place of that in the request's traceparent, so that what it causes is the span's. Without a provider it is next.
func Traced(provider trace.TracerProvider, next http.Handler) http.Handler {
	if provider == nil {
		return next
	}
	tracer := provider.Tracer("github.com/conq-go/conq/server")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := propagation.HeaderCarrier(r.Header)
		ctx, span := tracer.Start(format.Extract(r.Context(), header), r.Method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		format.Inject(ctx, header)
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(ctx)
		next.ServeHTTP(answer, r)
		span.SetName(cmp.Or(r.Pattern, r.Method)) // the mux has set it
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", r.Pattern),
			attribute.Int("http.response.status_code", answer.status))
		if answer.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(answer.status))
		}
	})
}
