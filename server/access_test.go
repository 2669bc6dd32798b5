package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// served starts a server, and returns its address and what stops it.
func served(t *testing.T, o Options) (s *Server, url string) {
	t.Helper()
	s, err := New(testkit.NewMemory(t, kv.Limits{}), o)
	testkit.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		testkit.Check(t, <-done)
		testkit.Check(t, s.Close())
	})
	return s, "http://" + l.Addr().String()
}

// status is that of a request with a token, or without if it is empty, and what the answer says.
func status(t *testing.T, method, url, secret string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	testkit.NoError(t, err)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	testkit.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testkit.NoError(t, err)
	return answer.StatusCode, string(body)
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	secret, entry, err := NewToken(path, "ops", []string{"admin"})
	testkit.NoError(t, err)
	testkit.Equal(t, "the secret is in the entry", bytes.Contains(entry, []byte(secret)), false)
	tokens, err := LoadTokens(path)
	testkit.NoError(t, err)
	var log bytes.Buffer
	s, url := served(t, Options{Tokens: tokens, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})

	code, _ := status(t, http.MethodGet, url+"/v1/queues", "")
	testkit.Equal(t, "status without a token", code, http.StatusUnauthorized)
	code, body := status(t, http.MethodGet, url+"/v1/queues", secret)
	testkit.Equal(t, "status: "+body, code, http.StatusOK)
	for _, open := range []string{"/healthz", "/readyz"} {
		code, _ = status(t, http.MethodGet, url+open, "")
		testkit.Equal(t, open, code, http.StatusOK)
	}

	late, _, err := NewToken(path, "late", []string{"watch"})
	testkit.NoError(t, err)
	code, _ = status(t, http.MethodGet, url+"/v1/queues", late)
	testkit.Equal(t, "status before a reload", code, http.StatusUnauthorized)
	testkit.NoError(t, s.Reload())
	code, _ = status(t, http.MethodGet, url+"/v1/queues", late)
	testkit.Equal(t, "status after it", code, http.StatusOK)
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), late) {
		t.Error("a secret is in the log")
	}
}

// An address that others can reach is refused, and its listener closed.
func TestServeRefuses(t *testing.T) {
	s, err := New(testkit.NewMemory(t, kv.Limits{}), Options{})
	testkit.NoError(t, err)
	defer s.Close()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	testkit.NoError(t, err)
	err = s.Serve(t.Context(), l)
	if err == nil || !strings.Contains(err.Error(), "tokens are needed") {
		t.Fatalf("error %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is open")
	}
}

// Figures are for who may watch all queues, and profiles for who may do all.
func TestWatching(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	secrets := make(map[string]string)
	for _, scope := range []string{"admin", "watch", "admin:some", "consume"} {
		secret, _, err := NewToken(path, scope, []string{scope})
		testkit.NoError(t, err)
		secrets[scope] = secret
	}
	tokens, err := LoadTokens(path)
	testkit.NoError(t, err)
	_, url := served(t, Options{Tokens: tokens})
	for _, c := range []struct {
		path, scope string
		want        int
	}{
		{"/metrics", "watch", 200}, {"/metrics", "admin", 200}, {"/metrics", "consume", 200}, {"/metrics", "admin:some", 403}, {"/metrics", "", 401},
		{"/debug/pprof/heap", "admin", 200}, {"/debug/pprof/", "admin", 200}, {"/debug/pprof/", "watch", 403}, {"/debug/pprof/", "admin:some", 403},
		{"/debug/pprof/goroutine?debug=1", "", 401},
	} {
		code, body := status(t, http.MethodGet, url+c.path, secrets[c.scope])
		testkit.Equal(t, c.path+" with "+c.scope+": "+body[:min(len(body), 200)], code, c.want)
	}
	_, metrics := status(t, http.MethodGet, url+"/metrics", secrets["watch"])
	if !strings.Contains(metrics, `conq_request_seconds_count{protocol="http",status="403",verb="GET /metrics"} 1`) ||
		!strings.Contains(metrics, `verb="refused"} 2`) || !strings.Contains(metrics, "go_goroutines") {
		t.Errorf("metrics are %s", metrics)
	}
}

// The label of a queue that was deleted is another's.
func TestLabelsOfDeletedQueues(t *testing.T) {
	_, url := served(t, Options{MaxLabels: 1})
	add := func(name string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/queues/"+name+"/items", strings.NewReader("x"))
		testkit.NoError(t, err)
		r.Header.Set("Content-Type", "application/octet-stream")
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(r)
		testkit.NoError(t, err)
		testkit.NoError(t, answer.Body.Close())
		testkit.Equal(t, "adding", answer.StatusCode, http.StatusOK)
	}
	add("first")
	code, _ := status(t, http.MethodDelete, url+"/v1/queues/first?confirm=first", "")
	testkit.Equal(t, "deletion", code, http.StatusNoContent)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		add("second")
		_, metrics := status(t, http.MethodGet, url+"/metrics", "")
		if strings.Contains(metrics, `conq_items_total{event="added",queue="second"}`) && !strings.Contains(metrics, `"first"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the label is not another's: %s", metrics)
		}
	}
}
