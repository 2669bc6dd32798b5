package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// No log has a token, a payload, a job's key or other words of a client's, at any level; and the trace of a request goes with its jobs.
func TestLogHasNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	secret, _, err := NewToken(path, "ops", []string{"admin"})
	testkit.NoError(t, err)
	tokens, err := LoadTokens(path)
	testkit.NoError(t, err)
	var log bytes.Buffer
	_, url := served(t, Options{
		Tokens: tokens, Traces: true,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	n := 0
	do := func(want int, method, path, token, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		testkit.NoError(t, err)
		if body == "" {
			r.Body = nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		n++
		r.Header.Set("Idempotency-Key", fmt.Sprint("hush", n))
		r.Header.Set("Traceparent", parent)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(r)
		testkit.NoError(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		testkit.NoError(t, err)
		testkit.Equal(t, method+" "+path+": "+string(b), answer.StatusCode, want)
		return string(b)
	}
	do(200, "POST", "/v1/queues/q/items", secret, `{"items":[{"text":"hush-payload"}]}`)
	do(400, "POST", "/v1/queues/q/items", secret, `{"items":[{"hush-member":"hush-payload"}]}`)
	do(401, "POST", "/v1/queues/q/items", "conq_hush-token", `{"items":[]}`)
	do(200, "POST", "/v1/jobs/w", secret, `{"jobs":[{"text":"hush-payload","key":"hush-key","unique":"hush-unique","meta":{"a":"hush-meta"}},{"text":"b","meta":{"traceparent":"own"}}]}`)
	do(200, "GET", "/v1/jobs/w?contains=hush-payload&key=hush-key", secret, "")
	do(200, "POST", "/v1/queues/q/take", secret, "")
	reserved := do(200, "POST", "/v1/jobs/w/reserve?n=2", secret, "")
	for _, want := range []string{`"traceparent":"` + parent + `"`, `"traceparent":"own"`} {
		if !strings.Contains(reserved, want) {
			t.Errorf("jobs are %s, without %s", reserved, want)
		}
	}
	do(409, "POST", "/v1/jobs/w/1/ack", secret, `{"token":"1-1-gmd3-0"}`)
	do(204, "POST", "/v1/jobs/w/pause", secret, "")
	do(422, "POST", "/v1/queues/q/purge?confirm=hush", secret, "")
	do(204, "POST", "/v1/queues/q/purge?confirm=q", secret, "")
	if !strings.Contains(log.String(), `"action":"purge","caller":"ops"`) || strings.Count(log.String(), `"msg":"request"`) < 8 {
		t.Errorf("log has too little: %s", &log)
	}
	for _, hidden := range []string{secret, "hush", parent, "1-1-gmd3-0"} {
		if strings.Contains(log.String(), hidden) {
			t.Errorf("log has %q: %s", hidden, &log)
		}
	}
}
