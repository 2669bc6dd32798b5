package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is the API over a store.
type fixture struct {
	t       *testing.T
	db      kv.DB
	mux     *http.ServeMux
	handler http.Handler // of somebody who may do everything
	history *watch.History
	tasks   *queues.Tasks
	log     *bytes.Buffer
	stop    context.CancelFunc // as when the server stops
}

func newFixture(t *testing.T) *fixture { return newFixtureOn(t, memory.New(memory.Options{})) }

func newFixtureOn(t *testing.T, db kv.DB) *fixture {
	set := queues.New(db, queues.Options{})
	stopping, stop := context.WithCancel(context.Background())
	h, tasks, log := watch.NewHistory(), new(queues.Tasks), new(bytes.Buffer)
	mux := http.NewServeMux()
	Register(mux, Options{
		Queues: set, Logger: slog.New(slog.NewTextHandler(log, nil)), Stopping: stopping,
		Answers: answers.New(db, time.Now), History: h, Tasks: tasks, MaxBody: 1 << 20, MaxWaiters: 100,
	})
	t.Cleanup(func() {
		stop()
		tasks.Close()
		testkit.NoError(t, set.Close())
		testkit.NoError(t, db.Close())
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Everyone)))
	})
	return &fixture{t, db, mux, handler, h, tasks, log, stop}
}

// call is a request: "POST /path" with a body whose type its first byte tells, and further headers as "Name: value".
func (f *fixture) call(request, body string, headers ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, newRequest(f.t.Context(), request, body, headers...))
	return w
}

func newRequest(ctx context.Context, request, body string, headers ...string) *http.Request {
	method, path, _ := strings.Cut(request, " ")
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(ctx, method, path, r)
	req.Header.Set("Content-Type", typeJSON)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	return req
}

// want calls, and compares status and body.
func (f *fixture) want(status int, want, request, body string, headers ...string) {
	f.t.Helper()
	w := f.call(request, body, headers...)
	if got := strings.TrimSpace(w.Body.String()); w.Code != status || got != want {
		f.t.Fatalf("%s %.200s: %d %.500s\nwant %d %.500s", request, body, w.Code, got, status, want)
	}
}

// refused calls, and wants a problem that says some words.
func (f *fixture) refused(status int, says, request, body string, headers ...string) {
	f.t.Helper()
	w := f.call(request, body, headers...)
	var p struct {
		Status int
		Detail string
		Errors []struct{ Message, Location string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		f.t.Fatalf("%s: %d, not a problem: %.200s", request, w.Code, w.Body)
	}
	if w.Code != status || p.Status != status || !strings.Contains(fmt.Sprint(p), says) {
		f.t.Fatalf("%s %.200s: %d %+v\nwant %d %s", request, body, w.Code, p, status, says)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		f.t.Fatalf("%s: it is %s", request, got)
	}
}

const (
	ndjson = "Content-Type: " + typeNDJSON
	octets = "Content-Type: " + typeBytes
)

// Items keep their bytes, whatever the form they come and go in.
func TestItems(t *testing.T) {
	f := newFixture(t)
	const q = "/v1/queues/a%2Fb"
	f.want(200, `{"added":4}`, "POST "+q+"/items", `{"items":[{"text":"hi"},{"json":{"a": [1, 2]}},{"base64":"/w=="},{"text":""}]}`)
	f.want(200, `{"added":1}`, "POST "+q+"/items", "raw\x00\xff", octets)
	f.want(200, `{"added":2}`, "POST "+q+"/items", `{"text":"<1>"}`+"\n"+`{"text":"\ud83d\ude00"}`+"\n", ndjson)
	f.want(200, `{"items":[{"text":"hi"},{"json":{"a":[1,2]}},{"base64":"/w=="}],"next":"`+f.next(q, 3)+`"}`, "GET "+q+"/items?limit=3", "")
	f.want(200, `{"items":[{"text":""},{"base64":"cmF3AP8="},{"text":"<1>"},{"text":"😀"}]}`, "GET "+q+"/items?after="+f.next(q, 3), "")
	f.want(200, `{"items":[{"base64":"aGk="}],"next":"`+f.next(q, 1)+`"}`, "GET "+q+"/items?limit=1&form=base64", "")

	f.want(200, `{"items":[{"text":"hi"}]}`, "POST "+q+"/take", "")
	f.want(200, `{"items":[{"json":{"a":[1,2]}},{"base64":"/w=="},{"text":""}]}`, "POST "+q+"/take?n=3", "")
	f.want(200, "raw\x00\xff", "POST "+q+"/take", "", "Accept: "+typeBytes)
	f.want(200, `{"text":"<1>"}`+"\n"+`{"text":"😀"}`, "POST "+q+"/take?n=10", "", "Accept: "+typeNDJSON)
	f.want(200, `{"items":[]}`, "POST "+q+"/take", "")
	f.want(204, ``, "POST "+q+"/take", "", "Accept: "+typeBytes)
}

// next returns the place behind so many items.
func (f *fixture) next(q string, n int) string {
	f.t.Helper()
	var page struct{ Next string }
	testkit.NoError(f.t, json.Unmarshal(f.call(fmt.Sprintf("GET %s/items?limit=%d", q, n), "").Body.Bytes(), &page))
	return page.Next
}

// A priority queue has two ends.
func TestPriorities(t *testing.T) {
	f := newFixture(t)
	const q = "/v1/queues/p"
	f.want(200, `{"added":1}`, "POST "+q+"/items", ` {"priority":0, "text":"alone"}`)
	f.want(200, `{"items":[{"text":"alone"}]}`, "POST "+q+"/take?end=max", "")
	f.want(200, `{"added":3}`, "POST "+q+"/items", `{"text":"a","priority":5}{"text":"b"}{"text":"c","priority":-1}`, ndjson)
	f.want(200, `{"added":1}`, "POST "+q+"/items", "d", octets, "Conq-Priority: 7")
	f.want(200, `{"items":[{"text":"d","priority":7},{"text":"a","priority":5},{"text":"b"},{"text":"c","priority":-1}]}`, "GET "+q+"/items?end=max", "")
	f.want(200, `{"items":[{"text":"c","priority":-1}],"next":"`+f.next(q, 1)+`"}`, "GET "+q+"/items?limit=1", "")
	f.want(200, `{"items":[{"text":"d","priority":7}]}`, "POST "+q+"/take?end=max", "")
	w := f.call("POST "+q+"/take", "", "Accept: "+typeBytes)
	testkit.Equal(t, "item", w.Body.String(), "c")
	testkit.Equal(t, "priority", w.Header().Get("Conq-Priority"), "-1")
	f.want(200, `{"items":[{"text":"a","priority":5}]}`, "POST "+q+"/take?end=max", "")
}

// What can't be done is refused, says what can, and leaves all as it was.
func TestRefusals(t *testing.T) {
	f := newFixture(t)
	const items = "POST /v1/queues/q/items"
	f.want(200, `{"added":1}`, items, `{"items":[{"text":"it"}]}`)
	for _, c := range []struct {
		status              int
		says, request, body string
		headers             []string
	}{
		{415, "can be application/json, application/x-ndjson", items, "x", []string{"Content-Type: text/html"}},
		{415, "Content-Type", items, "x", []string{"Content-Type: "}},
		{415, "a body is sent as it is", items, "x", []string{octets, "Content-Encoding: gzip"}},
		{400, "2 of json, text and base64", items, `{"items":[{"text":"a","base64":""}]}`, nil},
		{400, "items[1]: 0 of json, text", items, `{"items":[{"text":"a"},{}]}`, nil},
		{400, `unknown field "txt"`, items, `{"items":[{"txt":"a"}]}`, nil},
		{400, "text is a number", items, `{"items":[{"text":1}]}`, nil},
		{400, "it has to be an object", items, `{"items":["a"]}`, nil},
		{400, "base64", items, `{"items":[{"base64":"a"}]}`, nil},
		{400, `unknown field "itemz"`, items, `{"itemz":[]}`, nil},
		{400, "0 of json, text", items, `{}`, nil},
		{400, "goes wrong at byte", items, `{"text":"a"}{"text":"b"}`, nil},
		{400, "goes wrong at byte", items, `{"items":{"text":"a"}}`, nil},
		{400, "JSON ends in the middle", items, `{"text":"a"`, nil},
		{400, "goes wrong at byte", items, `[]`, nil},
		{400, "goes wrong at byte", items, ``, nil},
		{400, "goes wrong at byte", items, `{"items":[{"text":"a"}]`, nil},
		{400, "goes wrong at byte", items, `{"items":[{"text":"a"}]}{}`, nil},
		{400, "not UTF-8", items, "{\"items\":[{\"text\":\"\xff\"}]}", nil},
		{400, "not UTF-8", items, "{\"text\":\"\xf0\x9f\x98", []string{ndjson}},
		{400, "JSON ends in the middle", items, "{\"text\":\"", []string{ndjson}},
		{400, "exceeded max depth", items, `{"json":` + strings.Repeat("[", 10001), []string{ndjson}},
		{400, "up to 10000", items, `{"items":[` + strings.Repeat(`{"text":""},`, 10000) + `{"text":""}]}`, nil},
		{413, "up to 1048576 bytes", items, `{"items":[{"text":"` + strings.Repeat("a", 1<<20) + `"}]}`, nil},
		{413, "up to 1048576 bytes", items, strings.Repeat("a", 1<<20+1), []string{octets}},
		{413, "document 1: a JSON document is too long", items, `{"text":"` + strings.Repeat("a", 1<<20), []string{ndjson}},
		{413, "document 2: a JSON document is too long", items, `{"text":"a"}` + strings.Repeat(" ", 2<<20), []string{ndjson}},
		{422, "items of a queue have none", items, `{"items":[{"text":"a","priority":1}]}`, nil},
		{422, "expected length <= 200", items, "a", []string{octets, "Idempotency-Key: " + strings.Repeat("k", 201)}},
		{400, "the Idempotency-Key has to be given once", items, "a", []string{octets, "Idempotency-Key: "}},
		{400, "invalid semicolon", "POST /v1/queues/q/take?n=5;wait=1s", "", nil},
		{400, "\"n\" more than once", "POST /v1/queues/q/take?n=1&n=2", "", nil},
		{422, "unknown query parameter", items + "?x=1", "a", []string{octets}},
		{422, "bad queue name", "POST /v1/queues/" + strings.Repeat("a", 1025) + "/items", "a", []string{octets}},
		{422, "bad queue name", "POST /v1/queues/%ff/items", "a", []string{octets}},
		{422, "bad queue name", "POST /v1/queues/%00/items", "a", []string{octets}},
		{404, "no such queue", "POST /v1/queues/none/take", "", nil},
		{404, "no such queue", "GET /v1/queues/none/items", "", nil},
		{400, "no body", "POST /v1/queues/q/take", "a", nil},
		{422, "number >= 1", "POST /v1/queues/q/take?n=0", "", nil},
		{422, "number <= 10000", "POST /v1/queues/q/take?n=10001", "", nil},
		{422, "0s to 1h0m0s", "POST /v1/queues/q/take?wait=61m", "", nil},
		{422, "no duration", "POST /v1/queues/q/take?wait=5", "", nil},
		{422, "end is for priority queues", "POST /v1/queues/q/take?end=max", "", nil},
		{422, "one of", "POST /v1/queues/q/take?end=left", "", nil},
		{422, "it has to be 1", "POST /v1/queues/q/take?n=2", "", []string{"Accept: " + typeBytes}},
		{422, "number <= 1000", "GET /v1/queues/q/items?limit=1001", "", nil},
		{422, "next of another page", "GET /v1/queues/q/items?after=*", "", nil},
		{422, "no place", "GET /v1/queues/q/items?after=AAAA", "", nil},
		{422, "end is for priority queues", "GET /v1/queues/q/items?end=max", "", nil},
	} {
		f.refused(c.status, c.says, c.request, c.body, c.headers...)
	}
	f.want(200, `{"items":[{"text":"it"}]}`, "POST /v1/queues/q/take?n=10", "")
	f.want(200, `{"added":0}`, items, `{"items":[]`+strings.Repeat(" ", 1<<20-12)+`}`) // just as much as is allowed
}

// A stream that goes wrong says how much of it is durable, and that is.
func TestStreamFails(t *testing.T) {
	f := newFixture(t)
	const q = "/v1/queues/q"
	body := strings.Repeat(`{"text":"a"}`+"\n", 2500) + `{"text":`
	w := f.call("POST "+q+"/items", body, ndjson)
	var p struct {
		Detail string
		Added  int
	}
	testkit.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	testkit.Equal(t, "status", w.Code, 400)
	testkit.Equal(t, "durable", p.Added, 2000)
	testkit.Equal(t, "detail", p.Detail, "document 2501: JSON ends in the middle")
	var got struct{ Items []wire.Item }
	testkit.NoError(t, json.Unmarshal(f.call("POST "+q+"/take?n=10000", "").Body.Bytes(), &got))
	testkit.Equal(t, "items", len(got.Items), 2000)

	f.refused(422, "documents 1001 to 1500: item 499 has a priority", "POST "+q+"/items", strings.Repeat(`{"text":"a"}`+"\n", 1499)+`{"text":"a","priority":1}`, ndjson)
	const other = `{"type":"urn:conq:kind","title":"Conflict","status":409,"detail":"documents 1 to 1: conq: queue is of another kind: \"q\" is a queue, not a work queue","added":0}`
	f.want(409, other, "POST /v1/jobs/q", `{"text":"a"}`, ndjson)
}

// A request with a key is carried out once, also if it is a stream that broke off the first time.
func TestIdempotency(t *testing.T) {
	f := newFixture(t)
	const q, key = "/v1/queues/q", "Idempotency-Key: k"
	for range 2 {
		f.want(200, `{"added":2}`, "POST "+q+"/items", `{"items":[{"text":"a"},{"text":"b"}]}`, key)
	}
	f.refused(422, "another request", "POST "+q+"/items", `{"items":[{"text":"c"}]}`, key)
	f.refused(422, "another request", "POST /v1/queues/other/items", `{"items":[{"text":"a"},{"text":"b"}]}`, key)
	f.want(200, `{"items":[{"text":"a"},{"text":"b"}]}`, "POST "+q+"/take?n=10", "")

	body := strings.Repeat(`{"text":"a"}`+"\n", 2500)
	testkit.Equal(t, "status", f.call("POST "+q+"/items", body+"{", ndjson, "Idempotency-Key: l").Code, 400)
	for range 2 {
		f.want(200, `{"added":2500}`, "POST "+q+"/items", body, ndjson, "Idempotency-Key: l")
	}
	var got struct{ Items []wire.Item }
	testkit.NoError(t, json.Unmarshal(f.call("POST "+q+"/take?n=10000", "").Body.Bytes(), &got))
	testkit.Equal(t, "items", len(got.Items), 2500)
}

// Who waits gets what comes; a client that goes away takes nothing; and nobody waits when the server stops.
func TestWait(t *testing.T) {
	f := newFixture(t)
	const q = "/v1/queues/q"
	f.want(200, `{"added":1}`, "POST "+q+"/items", "a", octets)
	f.want(200, `{"items":[{"text":"a"}]}`, "POST "+q+"/take?wait=1h", "")
	f.want(200, `{"items":[]}`, "POST "+q+"/take?wait=1ms", "")

	ctx, goAway := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		f.handler.ServeHTTP(httptest.NewRecorder(), newRequest(ctx, "POST "+q+"/take?wait=1h", ""))
		close(gone)
	}()
	goAway()
	<-gone
	answers := make(chan string)
	wait := func() { answers <- f.call("POST "+q+"/take?wait=1h", "").Body.String() }
	go wait()
	f.want(200, `{"added":1}`, "POST "+q+"/items", "b", octets)
	testkit.Equal(t, "answer", <-answers, `{"items":[{"text":"b"}]}`+"\n")
	go wait()
	f.stop()
	testkit.Equal(t, "answer", <-answers, `{"items":[]}`+"\n")
}

// Of more requests than may wait, one more is told when to try again.
func TestTooManyWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.want(204, "", "PUT /v1/queues/q", `{"kind":"queue"}`)
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() { f.call("POST /v1/queues/q/take?wait=1h", "") })
		}
		synctest.Wait()
		f.refused(429, "100 requests wait, which is the limit", "POST /v1/queues/q/take?wait=1s", "")
		testkit.Equal(t, "Retry-After", f.call("GET /v1/events", "").Header().Get("Retry-After"), "1")
		f.stop()
		waiting.Wait()
	})
}

// Any name is a queue's, escaped in the path.
func TestNames(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a", "ü/😀", "..", "%", "a b?c#d&e", "\x01", strings.Repeat("x", 1024)} {
		path := strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		f.want(200, `{"added":1}`, "POST /v1/queues/"+path+"/items", "x", octets)
		f.want(200, `{"items":[{"text":"x"}]}`, "POST /v1/queues/"+path+"/take", "")
	}
}
