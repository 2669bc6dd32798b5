package cli

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// exportSpans returns what sends spans to a collector of OpenTelemetry, and what sends the last ones and ends it. A collector that
// can't be reached costs spans, and is logged.
func exportSpans(ctx context.Context, to string, log *slog.Logger) (spans *trace.TracerProvider, end func(), err error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, nil, usagef("--otlp %.200q: that of a collector is as http://127.0.0.1:4318", to)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans were not sent", "error", err) }))
	spans = trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "conq"))))
	return spans, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := spans.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", "error", err)
		}
	}, nil
}
