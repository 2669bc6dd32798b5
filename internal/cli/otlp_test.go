package cli

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// Spans come to a collector, the last ones when the server ends.
func TestExportSpans(t *testing.T) {
	var paths, bodies []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		paths, bodies = append(paths, r.URL.Path), append(bodies, string(b))
	}))
	defer collector.Close()
	for _, to := range []string{collector.URL, collector.URL + "/", collector.URL + "/v1/traces"} {
		spans, end, err := exportSpans(t.Context(), to, slog.New(slog.DiscardHandler))
		testkit.NoError(t, err)
		_, span := spans.Tracer("test").Start(t.Context(), "POST /v1/queues/{q}/items")
		span.End()
		end()
	}
	testkit.EqualSlices(t, "paths", paths, []string{"/v1/traces", "/v1/traces", "/v1/traces"})
	for _, body := range bodies {
		if !strings.Contains(body, "POST /v1/queues/{q}/items") || !strings.Contains(body, "service.name") {
			t.Errorf("%q", body)
		}
	}
	collector.Close()
	var log bytes.Buffer
	spans, end, err := exportSpans(t.Context(), collector.URL, slog.New(slog.NewTextHandler(&log, nil)))
	testkit.NoError(t, err)
	_, span := spans.Tracer("test").Start(t.Context(), "lost")
	span.End()
	end()
	if !strings.Contains(log.String(), "not sent") {
		t.Errorf("the log is %q", log.String())
	}
	for _, wrong := range []string{"", "127.0.0.1:4318", "grpc://h:1", "http://"} {
		if _, _, err := exportSpans(t.Context(), wrong, nil); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:4318") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
