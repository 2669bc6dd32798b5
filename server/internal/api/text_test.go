package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/work"
)

// Texts that JSON would be read as others of are refused wherever they may stand: else two of them would be one.
func TestTexts(t *testing.T) {
	f := newFixture(t)
	f.want(http.StatusOK, `{"added":1,"ids":[1]}`, "POST /v1/jobs/w", `{"text":"a","key":"k"}`)
	f.want(http.StatusOK, `{"added":1}`, "POST /v1/queues/q/items", `{"text":"a"}`)
	for _, c := range []struct {
		request, body, where string
		headers              []string
	}{
		{"POST /v1/queues/q/items", `{"text":"BAD"}`, "at byte", nil},
		{"POST /v1/queues/q/items", `{"json":{"BAD":1}}`, "at byte", nil},
		{"POST /v1/queues/q/items", `{"items":[{"text":"a"},{"json":"BAD"}]}`, "items[1]", nil},
		{"POST /v1/queues/q/items", `{"text":"a"}` + "\n" + `{"text":"BAD"}`, "document 2", []string{ndjson}},
		{"POST /v1/jobs/w", `{"jobs":[{"text":"a","unique":"BAD"}]}`, "jobs[0]", nil},
		{"POST /v1/jobs/w", `{"text":"a","unique":"BAD"}`, "at byte", nil},
		{"POST /v1/jobs/w", `{"text":"a","key":"BAD"}`, "at byte", nil},
		{"POST /v1/jobs/w", `{"text":"a","meta":{"BAD":""}}`, "at byte", nil},
		{"POST /v1/jobs/w", `{"text":"a","meta":{"m":"BAD"}}`, "document 1", []string{ndjson}},
		{"POST /v1/jobs/w/1/bury", `{"reason":"BAD"}`, "body", nil},
		{"POST /v1/jobs/w/1/fail", `{"token":"BAD"}`, "body", nil},
		{"POST /v1/jobs/w/bulk", `{"do":"delete","key":"BAD"}`, "body", nil},
		{"PUT /v1/jobs/w/periodic/p", `{"text":"a","cron":"@hourly","key":"BAD"}`, "body", nil},
		{"POST /v1/move", `{"from":"q","to":"BAD"}`, "body", nil},
		{"PUT /v1/queues/z", `{"kind":"queue","BAD":1}`, "body", nil},
	} {
		for bad, says := range map[string]string{
			`\ud800`: `\ud800`, `\uDFFFx`: `\udfff`, `\ud800\ud800`: `\ud800`, "\xff": "not UTF-8", "\xed\xa0\x80": "not UTF-8",
		} {
			w := f.call(c.request, strings.ReplaceAll(c.body, "BAD", bad), c.headers...)
			text := strings.ReplaceAll(w.Body.String(), `\\u`, `\u`)
			if w.Code != http.StatusBadRequest || !strings.Contains(text, says) || says[0] == '\\' && !strings.Contains(text, c.where) {
				t.Errorf("%s with %q: %d %s; want 400, %q and %q", c.request, bad, w.Code, text, says, c.where)
			}
		}
	}
	for _, request := range []string{
		"GET /v1/jobs/w?key=%ff", "GET /v1/jobs/w?contains=a%ed%a0%80", "GET /v1/jobs/w?holder=%ff", "POST /v1/jobs/w/reserve?lease=%ff", "DELETE /v1/queues/q?confirm=%ff", "GET /v1/queues/q?%ff=1",
	} {
		f.refused(http.StatusBadRequest, "not UTF-8", request, "")
	}
	f.refused(http.StatusUnprocessableEntity, "", "POST /v1/queues/%ff/items", `{"text":"a"}`)
	f.refused(http.StatusUnprocessableEntity, "not UTF-8", "PUT /v1/jobs/w/periodic/%ff", `{"text":"a","cron":"@hourly"}`)
	f.refused(http.StatusUnprocessableEntity, "not UTF-8", "POST /v1/jobs/w", "a", "Content-Type: "+typeBytes, "Conq-Key: \xff")

	// What is whole is stored as it is, U+FFFD and all.
	for _, unique := range []string{`\ud83d\ude00`, `😀!`, `\ufffd`, `\\ud800`} {
		w := f.call("POST /v1/jobs/w", `{"text":"a","unique":"`+unique+`"}`)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"added":1`) {
			t.Errorf("%s: %d %s", unique, w.Code, w.Body)
		}
	}
	q, err := work.Open(t.Context(), f.db, "w", conq.Bytes())
	testkit.NoError(t, err)
	defer q.Close()
	want := map[string]bool{"😀": true, "😀!": true, "\uFFFD": true, `\ud800`: true, "": true}
	for j, err := range q.List(t.Context(), work.Filter{}) {
		testkit.NoError(t, err)
		if !want[j.Unique] {
			t.Errorf("there is a job with the unique name %q", j.Unique)
		}
		delete(want, j.Unique)
	}
	testkit.Equal(t, "names that are missing", len(want), 0)
}
