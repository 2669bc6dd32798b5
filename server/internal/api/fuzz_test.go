package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/jsontext"
	"github.com/conq-go/conq/internal/wire"
)

// Whatever a body is, it is items, or an error; and items come out as they came in.
func FuzzItems(f *testing.F) {
	for _, body := range []string{
		`{"items":[{"text":"a"},{"json":{"a":[1,2]},"priority":-1},{"base64":"/w=="}]}`, `{"text":"😀"}` + "\n" + `{"json":null}`, `{"text":"\ud800"}`, `{"items":[{"text":"a"},{"json":["\udc00\ud800"]}]}`, `{"text":"\ufffd"}`,
		"{\"text\":\"\xf0\x9f\x98\"}", `{"items":[`, `null`, `[]`, `{"items":[]} {}`, `{"base64":"!"}`, `{"json":{"&":[0]}}`, `{"text":1}`, `{"text":"0 "}`, strings.Repeat("[", 100), "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func(func(wire.Item) error) error{
			func(f func(wire.Item) error) error { return lines(bytes.NewReader(body), 1<<16, f) },
			func(f func(wire.Item) error) error {
				return listed(iotest.OneByteReader(bytes.NewReader(body)), "items", f)
			},
		} {
			err := parse(func(i wire.Item) error {
				if err := i.Check(); err != nil {
					return err
				}
				if i.Text != nil && strings.ContainsRune(*i.Text, utf8.RuneError) && !saysReplacement(body) {
					t.Fatalf("%q is read as %q", body, *i.Text)
				}
				for _, f := range []form{"auto", formBase64} {
					again := f.payload(i.Bytes())
					var text bytes.Buffer
					e := json.NewEncoder(&text)
					e.SetEscapeHTML(false) // as replies are written
					if err := e.Encode(again); err != nil {
						t.Fatal(err)
					}
					var back wire.Payload
					if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Check() != nil || !bytes.Equal(back.Bytes(), i.Bytes()) {
						t.Fatalf("%q becomes %q: %v", i.Bytes(), &text, err)
					}
				}
				return nil
			})
			if err == nil && jsontext.Check(body) != nil {
				t.Fatalf("%q is accepted", body)
			}
		}
	})
}

// saysReplacement tells whether a body has U+FFFD itself.
func saysReplacement(body []byte) bool {
	return bytes.ContainsRune(body, utf8.RuneError) || bytes.Contains(bytes.ToLower(body), []byte(`\ufffd`))
}

// Whatever a request is, the answer is no failure of the server.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{
		"GET /v1/queues/a/items?limit=2&after=AA", "POST /v1/queues/a/take?wait=1ms&n=3&end=max", "POST /v1/jobs/w/reserve?lease=1ms", "DELETE /v1/queues/a?confirm=a",
		"GET /v1/jobs/w?state=dead&after=AWNvbnEAAndvcmsAAncAAmoAFQE&min_attempts=-1", "POST /v1/jobs/w/1/ack", "PUT /v1/jobs/w/periodic/p", "GET /v1/jobs/w/bulk/x", "PATCH /v1/jobs/w/99999999999999999999",
	} {
		f.Add(request, `{"token":"1-1-gmd3-0"}`, "1h", "k%20")
	}
	f.Fuzz(func(t *testing.T, request, body, delay, key string) {
		x := newFixture(t)
		x.call("POST /v1/queues/a/items", `{"items":[{"text":"a"}]}`)
		x.call("POST /v1/jobs/w", `{"jobs":[{"text":"a"}]}`)
		method, path, _ := strings.Cut(request, " ")
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") || strings.Contains(path, "events") || strings.Contains(path, "wait") {
			t.Skip()
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, u, path
		r.Header = http.Header{"Content-Type": {typeJSON}, "Conq-Delay": {delay}, "Conq-Key": {key}, "Idempotency-Key": {key}}
		w := httptest.NewRecorder()
		x.handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s %q: %d %s", request, body, w.Code, w.Body)
		}
	})
}
