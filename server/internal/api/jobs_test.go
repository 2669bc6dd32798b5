package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
	"github.com/conq-go/conq/work"
)

// reserved reserves jobs and returns them.
func (f *fixture) reserved(query string) []wire.LeasedJob {
	f.t.Helper()
	var got wire.LeasedList
	w := f.call("POST /v1/jobs/w/reserve"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		f.t.Fatalf("reserve%s: %d %s", query, w.Code, w.Body)
	}
	return got.Jobs
}

// A token that is none has none of several jobs acknowledged.
func TestAckAll(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":2,"ids":[1,2]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a"},{"text":"b"}]}`)
	jobs := f.reserved("?n=2")
	ack := func(second string) string {
		return fmt.Sprintf(`{"jobs":[{"id":1,"token":%q},{"id":2,"token":%q}]}`, jobs[0].Token, second)
	}
	f.refused(422, `jobs[1]: work queue "w": invalid argument: "x" is no token`, "POST /v1/jobs/w/ack", ack("x"))
	f.want(200, `{"acked":1,"lost":[2]}`, "POST /v1/jobs/w/ack", ack(jobs[0].Token))
	f.want(200, `{"acked":1,"lost":[1]}`, "POST /v1/jobs/w/ack", ack(jobs[1].Token))
}

// TestNoTimeout: a job of a queue with a limit may have none, in JSON and in a header.
func TestNoTimeout(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":2,"ids":[1,2]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a","timeout":"none"},{"text":"b","timeout":"2m"}]}`)
	f.want(200, `{"added":1,"ids":[3]}`, "POST /v1/jobs/w", "c", "Content-Type: application/octet-stream", "Conq-Timeout: none")
	version := regexp.MustCompile(`"version":\d+`).FindString(f.call("GET /v1/jobs/w/settings", "").Body.String())
	if w := f.call("PUT /v1/jobs/w/settings", `{"lease":"30s","max_attempts":20,"timeout":"1m",`+version+`}`); w.Code != 200 {
		t.Fatalf("settings: %d %s", w.Code, w.Body)
	}
	jobs := f.reserved("?n=3")
	for i, want := range []time.Duration{0, 2 * time.Minute, 0} {
		testkit.Equal(t, "limit", jobs[i].Timeout.Duration, want)
	}
	f.refused(400, "as 1.5s, 2m or 1h30m, or none", "POST /v1/jobs/w", `{"text":"a","timeout":"-1s"}`)
}

// job returns a job in a form that a test can compare.
func (f *fixture) job(id work.ID) string {
	f.t.Helper()
	w := f.call(fmt.Sprint("GET /v1/jobs/w/", id), "")
	if w.Code != 200 {
		return fmt.Sprint(w.Code)
	}
	var j wire.JobInfo
	testkit.NoError(f.t, json.Unmarshal(w.Body.Bytes(), &j))
	errors := []string{}
	for _, e := range j.Failures {
		errors = append(errors, e.Error)
	}
	return fmt.Sprintf("%s %d %d %v", j.State, j.Priority, j.Attempts, errors)
}

// verb does something to a job.
func (f *fixture) verb(status int, j wire.LeasedJob, verb, more string) {
	f.t.Helper()
	w := f.call(fmt.Sprintf("POST /v1/jobs/w/%d/%s", j.ID, verb), fmt.Sprintf(`{"token":%q%s}`, j.Token, more))
	if w.Code != status {
		f.t.Fatalf("%s: %d %s, want %d", verb, w.Code, w.Body, status)
	}
}

// A job goes through its life by its token.
func TestJobs(t *testing.T) {
	f := newFixture(t)
	const w = "/v1/jobs/w"
	f.want(200, `{"added":2,"ids":[1,2,1],"duplicates":1}`, "POST "+w,
		`{"jobs":[{"text":"a","unique":"u","meta":{"A":"b"}},{"json":[1, 2],"priority":-3},{"text":"c","unique":"u"}]}`)
	f.want(200, `{"added":1,"ids":[3]}`, "POST "+w, "raw", octets, "Conq-Key: a%20b", "Conq-Priority: 9", "Conq-Meta-Trace: %E2%82%AC")
	f.want(200, `{"added":1,"ids":[4]}`, "POST "+w, `{"text":"later","delay":"1h"}`)

	jobs := f.reserved("?n=2&lease=1h")
	testkit.Equal(t, "jobs", len(jobs), 2)
	second, first := jobs[0], jobs[1]
	testkit.Equal(t, "first", fmt.Sprintln(second.ID, first.ID, second.Priority, string(second.JSON), *first.Text, first.Meta), "2 1 -3 [1,2] a map[A:b]\n")
	if left := first.Deadline.Sub(first.Created); left.Minutes() < 59 {
		t.Errorf("it ends after %v", left)
	}
	f.verb(200, first, "extend", "")
	f.verb(200, first, "extend", `,"lease":"2h"`)
	f.verb(204, first, "release", `,"priority":7`)
	testkit.Equal(t, "released", f.job(1), "ready 7 0 []")
	f.verb(409, first, "ack", "")
	f.verb(204, second, "fail", `,"reason":"broken","delay":"0s"`)
	testkit.Equal(t, "failed", f.job(2), "ready -3 1 [broken]")
	again := f.reserved("")[0]
	testkit.Equal(t, "attempt", again.Attempt, 2)
	testkit.Equal(t, "failures", again.Failures[0].Error, "broken")
	f.verb(204, again, "fail", "")
	testkit.Equal(t, "failed again", f.job(2), "scheduled -3 2 [broken failed]")
	f.want(204, "", "POST "+w+"/2/kick", "")
	f.verb(204, f.reserved("")[0], "bury", `,"reason":"no more"`)
	testkit.Equal(t, "buried", f.job(2), "dead -3 3 [broken failed no more]")
	f.verb(204, f.reserved("")[0], "ack", `,"result":{"text":"done"}`)
	testkit.Equal(t, "acked", f.job(1), "404")

	r := f.call("POST "+w+"/reserve", "", "Accept: "+typeBytes)
	h := r.Header()
	testkit.Equal(t, "as bytes", fmt.Sprintln(r.Body, h["Conq-Job-Id"], h["Conq-Priority"], h["Conq-Attempt"], h["Conq-Key"], h["Conq-Meta-Trace"]),
		"raw [3] [9] [1] [a%20b] [%E2%82%AC]\n")
	f.want(200, `{"acked":1,"lost":[2]}`, "POST "+w+"/ack", fmt.Sprintf(`{"jobs":[{"id":2,"token":%q},{"id":3,"token":%q}]}`, again.Token, h.Get("Conq-Token")))
	f.want(204, "", "POST "+w+"/reserve", "", "Accept: "+typeBytes)
	testkit.Equal(t, "none", len(f.reserved("")), 0)
}

// What an operator does needs no token.
func TestOperators(t *testing.T) {
	f := newFixture(t)
	const w = "/v1/jobs/w"
	f.want(200, `{"added":5,"ids":[1,2,3,4,5]}`, "POST "+w, strings.Repeat(`{"text":"a"}`, 5), ndjson)
	f.want(204, "", "PATCH "+w+"/1", `{"priority":4}`)
	f.want(204, "", "POST "+w+"/2/cancel", "")
	f.want(204, "", "POST "+w+"/3/bury", `{"reason":"bad"}`)
	f.want(204, "", "DELETE "+w+"/4", "")
	testkit.Equal(t, "jobs", fmt.Sprintln(f.job(1), f.job(2), f.job(3), f.job(4)), "ready 4 0 [] dead 0 0 [cancelled] dead 0 0 [bad] 404\n")
	f.want(204, "", "POST "+w+"/pause", "")
	testkit.Equal(t, "paused", len(f.reserved("")), 0)
	f.want(204, "", "POST "+w+"/resume", "")
	testkit.Equal(t, "resumed", len(f.reserved("?n=9")), 2)
	got := f.call("GET /v1/queues/w?count=true", "").Body.String()
	if want := `"depth":2,"in":0,"out":0,"failed":0,"jobs":{"ready":0,"scheduled":0,"leased":2,"blocked":0,"dead":2,"done":0,"paused":false}`; !strings.Contains(got, want) {
		t.Errorf("it is %s, want %s", got, want)
	}
	f.refused(422, "confirm has to be", "POST /v1/queues/w/purge", "")
	f.refused(422, "confirm has to be", "POST /v1/queues/w/purge?confirm=q", "")
	f.want(204, "", "POST /v1/queues/w/purge?confirm=w", "")
	f.want(200, `{"jobs":[]}`, "GET "+w, "")
	for _, want := range []string{"reprioritise caller=everyone remote=\"\" id=1", "cancel", "bury", "delete caller=everyone remote=\"\" id=4", "pause", "resume", "purge"} {
		if !strings.Contains(f.log.String(), "action="+want) {
			t.Errorf("%s is not in the log:\n%s", want, f.log)
		}
	}
}

// Pages of jobs are those that match.
func TestListJobs(t *testing.T) {
	f := newFixture(t)
	const w = "/v1/jobs/w"
	f.want(200, `{"added":3,"ids":[1,2,3]}`, "POST "+w, `{"text":"apple"}{"text":"pear","key":"k","delay":"1h"}{"text":"applet"}`, ndjson)
	ids := func(query string) (all []work.ID, next string) {
		t.Helper()
		var got struct {
			Jobs []wire.JobInfo
			Next string
		}
		testkit.NoError(t, json.Unmarshal(f.call("GET "+w+query, "").Body.Bytes(), &got))
		for _, j := range got.Jobs {
			all = append(all, j.ID)
		}
		return all, got.Next
	}
	for query, want := range map[string][]work.ID{
		"": {1, 2, 3}, "?state=ready": {1, 3}, "?key=k": {2}, "?contains=apple": {1, 3}, "?contains=apple&state=scheduled": nil, "?min_attempts=1": nil,
	} {
		got, next := ids(query)
		testkit.EqualSlices(t, query, got, want)
		testkit.Equal(t, "next", next, "")
	}
	page, next := ids("?limit=2")
	testkit.EqualSlices(t, "page", page, []work.ID{1, 2})
	page, next = ids("?limit=2&after=" + next)
	testkit.EqualSlices(t, "page", page, []work.ID{3})
	testkit.Equal(t, "next", next, "")
}

// A job that a client has waited for that has gone is ready for others at once.
func TestReserveAndGo(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":1,"ids":[1]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a"}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, err := work.Open(t.Context(), f.db, "w", conq.Bytes())
	testkit.NoError(t, err)
	defer q.Close()
	leases, err := q.ReserveN(t.Context(), 1)
	testkit.NoError(t, err)
	testkit.WantError(t, release(ctx, leases), context.Canceled)
	testkit.Equal(t, "job", f.job(1), "ready 0 0 []")

	waits := make(chan struct{})
	f.verb(204, f.reserved("")[0], "ack", "")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		f.handler.ServeHTTP(httptest.NewRecorder(), newRequest(ctx, "POST /v1/jobs/w/reserve?wait=1h", ""))
		close(waits)
	}()
	cancel()
	<-waits
	f.want(200, `{"added":1,"ids":[2]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"b"}]}`)
	testkit.Equal(t, "jobs", len(f.reserved("")), 1)
}

// The lease that a request asks for is in the transaction that reserves: whatever fails after it, nothing is leased for longer.
func TestReserveLeaseInOneStep(t *testing.T) {
	for _, query := range []string{"lease=5s&n=2", "lease=5s&n=2&wait=1s"} {
		inner := memory.New(memory.Options{})
		var armed, broken bool
		f := newFixtureOn(t, &testkit.Hooked{DB: inner, Attempt: func(tx kv.Tx) kv.Tx {
			if broken { // as of a server that was killed after its first transaction
				return testkit.FaultyTx{Tx: tx, Hit: func() error { return testkit.ErrRead }}
			}
			if armed {
				tx.OnCommit(func() { broken = true })
			}
			return tx
		}})
		f.want(200, `{"added":2,"ids":[1,2]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a"},{"text":"b","lease":"1h"}]}`)
		armed = true
		f.call("POST /v1/jobs/w/reserve?"+query, "")
		q, err := work.Open(t.Context(), inner, "w", conq.Bytes())
		testkit.NoError(t, err)
		infos, _, _, err := q.Search(t.Context(), work.Filter{State: work.Leased}, nil, 9)
		testkit.NoError(t, err)
		for _, i := range infos {
			if left := time.Until(i.Time); left > 5*time.Second {
				t.Errorf("%s: job %d is leased for %v", query, i.ID, left)
			}
		}
		testkit.Equal(t, "leased", len(infos), 2)
		testkit.NoError(t, q.Close())
		armed, broken = false, false
	}
}

// A job of which something can't be read holds up no others, and says so itself.
func TestCorruptJobs(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":5,"ids":[1,2,3,4,5]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"header"},{"text":"`+strings.Repeat("payload", 1000)+`"},{"text":"entry"},{"text":"good","key":"k"},{"text":"last"}]}`)
	at := func(kind string, id int64) []byte {
		return tuple.AppendInt(tuple.AppendString(jobs.Space("w").Bytes(), kind), id)
	}
	testkit.NoError(t, f.db.Transact(t.Context(), func(tx kv.Tx) error {
		tx.Set(at("j", 1), []byte("not a header"))
		tx.Clear(at("v", 2))
		tx.Clear(at("j", 3))
		return nil
	}))
	for _, state := range []string{"", "&state=ready"} {
		w := f.call("GET /v1/jobs/w?limit=9"+state, "")
		testkit.Equal(t, "status of a list", w.Code, http.StatusOK)
		for _, id := range []string{`"id":2,`, `"id":4,`, `"id":5,`} {
			if !strings.Contains(w.Body.String(), id) {
				t.Errorf("a list has no %s: %s", id, w.Body)
			}
		}
	}
	f.refused(http.StatusInternalServerError, "its header has format", "GET /v1/jobs/w/1", "")
	f.refused(http.StatusInternalServerError, "payload of job 2 is missing", "GET /v1/jobs/w/2", "")
	got := f.reserved("?n=1")
	got = append(got, f.reserved("?n=9&wait=1s")...)
	testkit.Equal(t, "jobs that were reserved", len(got), 2)
	testkit.Equal(t, "status of a count", f.call("GET /v1/queues/w?count=true", "").Code, http.StatusOK)
	f.refused(http.StatusInternalServerError, "", "POST /v1/jobs/w/1/kick", "")
	f.want(204, "", "POST /v1/jobs/w/2/kick", "")
	testkit.Equal(t, "jobs whose payload is gone", len(f.reserved("?n=9")), 0)
}

// A retry with a key puts nothing twice, and gets the same ids.
func TestPutOnce(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.want(200, `{"added":2,"ids":[1,2,1],"duplicates":1}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a","unique":"u"},{"text":"b"},{"text":"c","unique":"u"}]}`, "Idempotency-Key: k")
	}
	testkit.Equal(t, "jobs", len(f.reserved("?n=9")), 2)
}

// Jobs come again and again by cron.
func TestPeriodic(t *testing.T) {
	f := newFixture(t)
	const p = "/v1/jobs/w/periodic"
	f.want(204, "", "PUT "+p+"/p", `{"text":"t","cron":"@hourly","max_late":"1m","priority":3}`)
	got := regexp.MustCompile(`"next":"[^"]*"`).ReplaceAllString(f.call("GET "+p, "").Body.String(), `"next":""`)
	testkit.Equal(t, "periodic", got, `{"periodic":[{"name":"p","cron":"@hourly","next":"","max_late":"1m0s","overlap":"run","text":"t"}]}`+"\n")
	f.want(200, `{"id":1}`, "POST "+p+"/p/run", "")
	testkit.Equal(t, "job", f.job(1), "ready 3 0 []")
	for range 2 {
		f.want(200, `{"id":2}`, "POST "+p+"/p/run", "", "Idempotency-Key: k")
	}
	testkit.Equal(t, "job", f.job(2), "ready 3 0 []")
	f.refused(404, "no such", "GET /v1/jobs/w/3", "")
	f.refused(404, "no such", "POST "+p+"/q/run", "", "Idempotency-Key: l")
	f.refused(422, "cron expression", "PUT "+p+"/p", `{"text":"t","cron":"often"}`)
	f.refused(422, "0 of json, text and base64", "PUT "+p+"/p", `{"cron":"@hourly"}`)
	f.want(204, "", "DELETE "+p+"/p", "")
	f.refused(404, "no such", "DELETE "+p+"/p", "")
	f.refused(404, "no such", "POST "+p+"/p/run", "")
}

// Items move in one transaction, once for a key.
func TestMove(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":4}`, "POST /v1/queues/a/items", `{"text":"1"}{"text":"2"}{"text":"3"}{"text":"4"}`, ndjson)
	f.want(200, `{"moved":1}`, "POST /v1/move", `{"from":"a","to":"b"}`)
	for range 2 {
		f.want(200, `{"moved":2}`, "POST /v1/move", `{"from":"a","to":"b","n":2}`, "Idempotency-Key: k")
	}
	f.refused(422, "another request", "POST /v1/move", `{"from":"a","to":"b","n":3}`, "Idempotency-Key: k")
	f.want(200, `{"items":[{"json":1},{"json":2},{"json":3}]}`, "GET /v1/queues/b/items", "")
	f.want(200, `{"moved":1}`, "POST /v1/move", `{"from":"a","to":"b","n":1000}`)
	f.want(200, `{"moved":0}`, "POST /v1/move", `{"from":"a","to":"b"}`)
	f.want(200, `{"added":2}`, "POST /v1/queues/p/items", `{"text":"x","priority":1}{"text":"y","priority":2}`, ndjson)
	f.want(200, `{"moved":1}`, "POST /v1/move", `{"from":"p","to":"r","end":"max"}`)
	f.want(200, `{"items":[{"text":"y","priority":2}]}`, "GET /v1/queues/r/items", "")
	f.refused(409, "another kind", "POST /v1/move", `{"from":"p","to":"a"}`)
	f.refused(404, "no such queue", "POST /v1/move", `{"from":"none","to":"a"}`)
	f.refused(422, "the same queue", "POST /v1/move", `{"from":"a","to":"a"}`)
	f.refused(422, "end is for", "POST /v1/move", `{"from":"a","to":"b","end":"max"}`)
	f.want(200, `{"added":1,"ids":[1]}`, "POST /v1/jobs/w", `{"jobs":[{"text":"a"}]}`)
	f.refused(409, "jobs do not move", "POST /v1/move", `{"from":"w","to":"b"}`)
}

// Queues are made, looked at and emptied.
func TestQueues(t *testing.T) {
	f := newFixture(t)
	for range 2 {
		f.want(204, "", "PUT /v1/queues/p", `{"kind":"priority queue"}`)
	}
	f.refused(409, "another kind", "PUT /v1/queues/p", `{"kind":"queue"}`)
	f.refused(422, "one of", "PUT /v1/queues/p", `{"kind":"stack"}`)
	f.refused(404, "no such queue", "GET /v1/queues/q", "")
	f.want(200, `{"name":"p","kind":"priority queue"}`, "GET /v1/queues/p", "")
	f.want(200, `{"added":1}`, "POST /v1/queues/p/items", `{"items":[{"text":"a"}]}`)
	f.want(200, `{"queues":[{"name":"p","kind":"priority queue"}]}`, "GET /v1/queues", "")
	if got := f.call("GET /v1/queues/p?count=true", "").Body.String(); !strings.Contains(got, `"depth":1`) {
		t.Error(got)
	}
	f.want(204, "", "POST /v1/queues/p/purge?confirm=p", "")
	f.want(200, `{"items":[]}`, "GET /v1/queues/p/items", "")
	f.refused(404, "no such queue", "POST /v1/queues/q/purge?confirm=q", "")
}

// A queue that is deleted is not there any more, whoever had it open, and can be made as another kind.
func TestDeleteQueue(t *testing.T) {
	f := newFixture(t)
	kinds := []string{"queue", "priority queue", "work queue"}
	for i, kind := range kinds {
		f.want(204, "", "PUT /v1/queues/q", `{"kind":"`+kind+`"}`)
		if kind == "work queue" {
			f.call("POST /v1/jobs/q", `{"text":"a"}`)
		} else {
			f.call("POST /v1/queues/q/items", `{"items":[{"text":"a"}]}`)
		}
		f.refused(422, "confirm has to be", "DELETE /v1/queues/q", "")
		f.refused(422, "confirm has to be", "DELETE /v1/queues/q?confirm=p", "")
		f.want(204, "", "DELETE /v1/queues/q?confirm=q", "")
		f.refused(404, "no such queue", "GET /v1/queues/q", "")
		f.refused(404, "no such queue", "DELETE /v1/queues/q?confirm=q", "")
		f.refused(404, "no such queue", "GET /v1/queues/q/items", "")
		f.want(200, `{"queues":[]}`, "GET /v1/queues", "")
		if !strings.Contains(f.log.String(), "action=\"delete queue\"") {
			t.Errorf("after a %s was deleted the log has nothing of it (%d)", kind, i)
		}
	}
}

// Queues are listed a page at a time.
func TestQueuePages(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.want(204, "", fmt.Sprintf("PUT /v1/queues/q%d", i), `{"kind":"queue"}`)
	}
	var seen []string
	for after := ""; ; {
		var page struct {
			Queues []struct{ Name string }
			Next   string
		}
		testkit.NoError(t, json.Unmarshal(f.call("GET /v1/queues?limit=2&after="+after, "").Body.Bytes(), &page))
		if len(page.Queues) > 2 {
			t.Fatalf("a page of %d", len(page.Queues))
		}
		for _, q := range page.Queues {
			seen = append(seen, q.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	testkit.EqualSlices(t, "queues", seen, []string{"q0", "q1", "q2", "q3", "q4"})
}

// All jobs that match are changed in the background, and a task tells what came of it.
func TestBulk(t *testing.T) {
	f := newFixture(t)
	const w = "/v1/jobs/w"
	f.want(200, `{"added":3,"ids":[1,2,3]}`, "POST "+w, `{"text":"a"}{"text":"b"}{"text":"ab"}`, ndjson)
	var started wire.Task
	r := f.call("POST "+w+"/bulk", `{"do":"bury","contains":"a"}`)
	testkit.NoError(t, json.Unmarshal(r.Body.Bytes(), &started))
	testkit.Equal(t, "status", r.Code, 202)
	status, err := f.tasks.Wait(t.Context(), started.ID)
	testkit.NoError(t, err)
	testkit.Equal(t, "changed", status.Done, 2)
	testkit.Equal(t, "jobs", fmt.Sprintln(f.job(1), f.job(2), f.job(3)), "dead 0 0 [buried by an operator] ready 0 0 [] dead 0 0 [buried by an operator]\n")
	var got struct{ Tasks []wire.Task }
	testkit.NoError(t, json.Unmarshal(f.call("GET "+w+"/bulk", "").Body.Bytes(), &got))
	testkit.Equal(t, "tasks", len(got.Tasks), 1)
	testkit.NoError(t, json.Unmarshal(f.call("GET "+w+"/bulk/"+started.ID, "").Body.Bytes(), &started))
	testkit.Equal(t, "task", fmt.Sprintln(started.State, started.Done, started.By), "done 2 everyone\n")
	f.want(204, "", "DELETE "+w+"/bulk/"+started.ID, "")
	f.refused(404, "no such task", "GET "+w+"/bulk/none", "")
	f.refused(404, "no such task", "GET /v1/jobs/other/bulk/"+started.ID, "")
	f.refused(422, "one of", "POST "+w+"/bulk", `{"do":"wash"}`)
	f.refused(422, "can't be retried", "POST "+w+"/bulk", `{"do":"retry","state":"ready"}`)
	f.refused(404, "no such queue", "POST /v1/jobs/none/bulk", `{"do":"kick","all":true}`)
	for _, body := range []string{`{"do":"delete"}`, `{"do":"bury","reverse":true}`, `{"do":"kick","all":false}`} {
		f.refused(422, "it would be all jobs: give a condition, or all as true", "POST "+w+"/bulk", body)
	}
	for _, body := range []string{`{"do":"retry"}`, `{"do":"delete","all":true}`} {
		testkit.NoError(t, json.Unmarshal(f.call("POST "+w+"/bulk", body).Body.Bytes(), &started))
		_, err := f.tasks.Wait(t.Context(), started.ID)
		testkit.NoError(t, err)
	}
	f.want(200, `{"jobs":[]}`, "GET "+w, "")
}
