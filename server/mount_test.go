package server

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// addresses are those that a page names, and those of its forms.
var addresses = regexp.MustCompile(`(href|src|action|hx-get|sse-connect|data-from)="([^"]*)"`)

// TestMounted: a server works under any path of another one: its pages with all that they name, forms, the API and the client.
func TestMounted(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	path := t.TempDir() + "/tokens.json"
	secret, _, err := NewToken(path, "ops", []string{"admin"})
	testkit.NoError(t, err)
	tokens, err := LoadTokens(path)
	testkit.NoError(t, err)
	s, err := New(db, Options{Tokens: tokens})
	testkit.NoError(t, err)
	defer s.Close()
	mux := http.NewServeMux()
	mux.Handle("/tools/conq/", http.StripPrefix("/tools/conq", s))
	outer := httptest.NewServer(mux)
	defer outer.Close()
	base := outer.URL + "/tools/conq"

	c, err := client.Dial(t.Context(), base, client.Options{Token: secret})
	testkit.NoError(t, err)
	defer c.Close()
	jobs, err := client.OpenWork(t.Context(), c, "a/b", queue.String())
	testkit.NoError(t, err)
	testkit.NoError(t, testkit.Drop(jobs.Put(t.Context(), "job")))
	testkit.NoError(t, jobs.Every(t.Context(), "nightly", "@daily", "x"))
	queue, err := client.OpenQueue(t.Context(), c, "items", queue.String())
	testkit.NoError(t, err)
	testkit.NoError(t, queue.Enqueue(t.Context(), "item"))
	for s.history.Latest().Queue("items") == nil || s.history.Latest().Queue("a/b") == nil {
		next := s.history.Latest().Next()
		s.history.Refresh()
		<-next
	}

	browser := &visitor{t: t, base: base, seen: make(map[string]bool)}
	browser.client.Jar, _ = cookiejar.New(nil) // never fails
	for _, deep := range []string{"/", "/v1/queues/items"} {
		if page, at := browser.get(base + deep); !strings.HasPrefix(at, base+"/sign-in?next=") || !strings.Contains(page, "password") {
			t.Fatalf("without a token %s leads to %s", deep, at)
		}
	}
	_, at := browser.post(base+"/sign-in", url.Values{"token": {secret}, "next": {"/queue?q=items"}})
	testkit.Equal(t, "where one comes to by signing in", at, base+"/queue?q=items")
	browser.crawl(base + "/")
	for _, want := range []string{"/store", "/jobs?q=a%2Fb", "/job?id=1&q=a%2Fb", "/queue?q=items", "/live/overview?", "/do?do=pause&q=a%2Fb"} {
		if !browser.seen[base+want] {
			t.Errorf("no page names %s", want)
		}
	}
	page, at := browser.post(base+"/do?do=pause&q=a%2Fb", nil)
	if !strings.HasPrefix(at, base+"/queue?") || !strings.Contains(page, "Resume") {
		t.Errorf("after an action one is at %s", at)
	}
}

// TestIdentify: a program that knows its users says what they may.
func TestIdentify(t *testing.T) {
	_, err := New(testkit.NewMemory(t, kv.Limits{}), Options{Tokens: &Tokens{}, Identify: func(*http.Request) (string, []string, bool) { return "", nil, false }})
	if err == nil {
		t.Error("there may be Tokens and Identify")
	}
	_, at := served(t, Options{Identify: func(r *http.Request) (string, []string, bool) {
		user, _, ok := r.BasicAuth()
		return user, map[string][]string{"ada": {"admin"}, "ben": {"watch"}, "cy": {"everything"}}[user], ok
	}})
	for _, c := range []struct {
		user, method, path string
		status             int
	}{
		{"", http.MethodGet, "/", http.StatusForbidden},
		{"", http.MethodGet, "/healthz", http.StatusOK},
		{"ben", http.MethodGet, "/", http.StatusOK},
		{"ben", http.MethodGet, "/v1/queues", http.StatusOK},
		{"ben", http.MethodPut, "/v1/queues/a", http.StatusForbidden},
		{"ada", http.MethodPut, "/v1/queues/a", http.StatusNoContent},
		{"cy", http.MethodGet, "/", http.StatusInternalServerError},
		{"dan", http.MethodGet, "/metrics", http.StatusForbidden},
	} {
		var body io.Reader
		if c.method == http.MethodPut {
			body = strings.NewReader(`{"kind":"queue"}`)
		}
		r, err := http.NewRequestWithContext(t.Context(), c.method, at+c.path, body)
		testkit.NoError(t, err)
		r.Host = "queues.example" // any name will do
		r.Header.Set("Content-Type", "application/json")
		if c.user != "" {
			r.SetBasicAuth(c.user, "")
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		testkit.NoError(t, err)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s of %q: %s, want %d", c.method, c.path, c.user, resp.Status, c.status)
		}
	}
}

// visitor is a browser, as far as addresses go.
type visitor struct {
	t      *testing.T
	client http.Client
	base   string
	seen   map[string]bool
}

func (v *visitor) get(at string) (page, from string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, at, nil)
	testkit.NoError(v.t, err)
	return v.send(r)
}

func (v *visitor) post(at string, form url.Values) (page, from string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, at, strings.NewReader(form.Encode()))
	testkit.NoError(v.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.send(r)
}

func (v *visitor) send(r *http.Request) (page, from string) {
	v.t.Helper()
	r.Header.Set("Accept", "text/html")
	resp, err := v.client.Do(r)
	testkit.NoError(v.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		v.t.Errorf("%s: %s", r.URL, resp.Status)
	}
	if strings.Contains(r.URL.Path, "/live/") {
		return "", "" // it has no end
	}
	b, err := io.ReadAll(resp.Body)
	testkit.NoError(v.t, err)
	return string(b), resp.Request.URL.String()
}

// crawl visits all that pages name, from one on.
func (v *visitor) crawl(at string) {
	v.t.Helper()
	page, _ := v.get(at)
	from, err := url.Parse(at)
	testkit.NoError(v.t, err)
	for _, m := range addresses.FindAllStringSubmatch(page, -1) {
		to, err := from.Parse(html.UnescapeString(m[2]))
		testkit.NoError(v.t, err)
		to.Fragment = ""
		named := to.String()
		if !strings.HasPrefix(named, v.base+"/") {
			v.t.Errorf("%s names %s", at, m[0])
			continue
		}
		if v.seen[named] || m[1] == "action" {
			continue
		}
		v.seen[named] = true
		if to.Path == from.Path && len(v.seen) > 300 || m[1] == "data-from" {
			continue
		}
		v.crawl(named)
	}
}
