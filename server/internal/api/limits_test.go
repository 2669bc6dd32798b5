package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// No request fails as it is over the limits of an engine, but a list, which is added in one transaction.
func TestNoneTooLarge(t *testing.T) {
	const n = 300
	for _, limits := range []kv.Limits{
		{Key: 4096, Value: 512 << 10, Transaction: 1280 << 10, Operations: 128}, {Key: 10_000, Value: 30_000, Transaction: 100_000, Operations: 64},
	} {
		t.Run(fmt.Sprint(limits.Operations), func(t *testing.T) {
			f := newFixtureOn(t, memory.New(memory.Options{Limits: limits}))
			f.manyItems(n)
			f.manyJobs(n)
		})
	}
}

// ok answers a request that has to succeed.
func (f *fixture) ok(request, body string, answer any, headers ...string) {
	f.t.Helper()
	w := f.call(request, body, headers...)
	if w.Code >= 300 {
		f.t.Fatalf("%s: %d %s", request, w.Code, w.Body)
	}
	if answer != nil {
		testkit.NoError(f.t, json.Unmarshal(w.Body.Bytes(), answer))
	}
}

func (f *fixture) manyItems(n int) {
	for i, kind := range []string{"queue", "priority queue"} {
		for _, name := range []string{"from", "to"} {
			f.ok(fmt.Sprintf("PUT /v1/queues/%s%d", name, i), fmt.Sprintf(`{"kind":%q}`, kind), nil)
		}
		for _, headers := range [][]string{{ndjson}, {ndjson, fmt.Sprint("Idempotency-Key: k", i)}} {
			f.ok(fmt.Sprintf("POST /v1/queues/from%d/items", i), strings.Repeat(`{"text":"x"}`, n), nil, headers...)
		}
		moved, tries := 0, 0
		for some := (wire.Moved{}); moved < 2*n; moved += some.Moved {
			var headers []string
			if tries++; tries%2 == 0 {
				headers = []string{fmt.Sprint("Idempotency-Key: m", i, " ", tries)}
			}
			f.ok("POST /v1/move", fmt.Sprintf(`{"from":"from%d","to":"to%d","n":1000}`, i, i), &some, headers...)
			if some.Moved == 0 {
				f.t.Fatalf("%d of %d moved", moved, 2*n)
			}
		}
		taken := 0
		for some := (struct{ Items []json.RawMessage }{}); taken < 2*n; taken += len(some.Items) {
			f.ok(fmt.Sprintf("POST /v1/queues/to%d/take?n=1000", i), "", &some)
			if len(some.Items) == 0 {
				f.t.Fatalf("%d of %d taken", taken, 2*n)
			}
		}
	}
	if w := f.call("POST /v1/queues/from0/items", `{"items":[`+strings.Repeat(`{"text":"x"},`, n)+`{"text":"x"}]}`); w.Code != 413 {
		f.t.Errorf("a list: %d %s, want 413", w.Code, w.Body)
	}
}

func (f *fixture) manyJobs(n int) {
	put := func(headers ...string) {
		b := new(strings.Builder)
		for i := range n {
			fmt.Fprintf(b, `{"text":"x","key":"%d","unique":"%d %v","meta":{"a":"b"}}`, i, i, headers)
		}
		f.ok("POST /v1/jobs/w", b.String(), nil, headers...)
	}
	put(ndjson)
	put(ndjson, "Idempotency-Key: j")
	acked := 0
	for acked < n {
		jobs := f.reserved("?n=1000")
		if len(jobs) == 0 {
			f.t.Fatalf("%d jobs acknowledged, then none", acked)
		}
		held := make([]map[string]any, len(jobs))
		for i, j := range jobs {
			held[i] = map[string]any{"id": j.ID, "token": j.Token}
		}
		b, err := json.Marshal(map[string]any{"jobs": held})
		testkit.NoError(f.t, err)
		var some wire.Acked
		f.ok("POST /v1/jobs/w/ack", string(b), &some)
		acked += some.Acked
	}
	for _, body := range []string{`{"do":"bury","all":true}`, `{"do":"retry"}`, `{"do":"cancel","all":true}`, `{"do":"kick","all":true}`, `{"do":"delete","all":true}`} {
		var task wire.Task
		f.ok("POST /v1/jobs/w/bulk", body, &task)
		status, err := f.tasks.Wait(f.t.Context(), task.ID)
		testkit.NoError(f.t, err)
		if status.Err != nil {
			f.t.Errorf("%s: %v", body, status.Err)
		}
	}
	f.want(200, `{"jobs":[]}`, "GET /v1/jobs/w", "")
}
