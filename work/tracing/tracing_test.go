package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// A job's attempts are in the trace of who put it, also when that was a while ago.
func TestTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(before)

	q, err := work.Open(t.Context(), testkit.NewMemory(t, kv.Limits{}), "emails", queue.String())
	testkit.NoError(t, err)
	mine := work.Job{Meta: map[string]string{"mine": "1"}}
	ctx, root := provider.Tracer("test").Start(t.Context(), "request")
	j := Job(ctx, mine)
	testkit.Equal(t, "metadata of the caller's", len(mine.Meta), 1)
	for range 2 {
		testkit.NoError(t, testkit.Drop(q.Put(ctx, "secret", j)))
	}
	testkit.NoError(t, testkit.Drop(q.Put(t.Context(), "untraced", Job(t.Context(), work.Job{}))))
	testkit.NoError(t, testkit.Drop(q.Put(t.Context(), "hostile", work.Job{Meta: map[string]string{"traceparent": "00-zz", "tracestate": "\x01"}})))
	root.End()

	run, stop := context.WithCancel(t.Context())
	defer stop()
	done := 0
	h := Handler("emails", func(ctx context.Context, l *work.Lease[string]) error {
		testkit.Equal(t, "traced", trace.SpanContextFromContext(ctx).IsValid(), true)
		if done++; done == 4 {
			stop()
		}
		switch done {
		case 1:
			return work.Cancel(errors.New("secret"))
		case 2:
			return work.Snooze(1 << 40)
		}
		return nil
	})
	testkit.NoError(t, work.Run(run, q, h, work.RunOptions{OnError: func(work.ID, error) {}}))
	var attempts []sdk.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.Name() == "process emails" {
			attempts = append(attempts, s)
		}
	}
	testkit.Equal(t, "attempts", len(attempts), 4)
	for i, s := range attempts {
		in := s.SpanContext().TraceID() == root.SpanContext().TraceID()
		testkit.Equal(t, fmt.Sprint("attempt ", i, " is in the trace"), in, i < 2)
		testkit.Equal(t, fmt.Sprint("attempt ", i, " is linked"), len(s.Links()) == 1, i < 2)
		testkit.Equal(t, fmt.Sprint("status of attempt ", i), s.Status().Code == codes.Error, i == 0)
		if text := fmt.Sprint(s.Attributes(), s.Status(), s.Events()); len(text) == 0 || strings.Contains(text, "secret") {
			t.Errorf("span says %s", text)
		}
	}
}
