package watch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	testkit.Equal(t, "status", w.Code, http.StatusOK)
	return w.Body.String()
}

func says(t *testing.T, metrics string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("metrics have no line %s", line)
		}
	}
}

// sample has the store looked at until items are counted.
func sample(t *testing.T, db kv.DB, h *History) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewSampler(db, h).Run(ctx)
	}()
	<-time.After(10 * time.Second) // of a bubble of synctest
	stop()
	<-done
}

// What handles do is counted, and depths are those of the store.
func TestMetrics(t *testing.T) { synctest.Test(t, testMetrics) }

func testMetrics(t *testing.T) {
	ctx, db, h := t.Context(), testkit.NewMemory(t, kv.Limits{}), NewHistory()
	m := NewMetrics(Options{History: h, MaxQueues: 10})
	q, err := conq.OpenQueue(ctx, db, "emails", conq.Bytes(), conq.Options{Observe: m.ObserveItems})
	testkit.NoError(t, err)
	testkit.NoError(t, q.EnqueueAll(ctx, [][]byte{{1}, {2}, {3}}))
	testkit.NoError(t, testkit.Drop(q.Dequeue(ctx)))
	jobs, err := work.Open(ctx, db, `na"me`+"\n", conq.Bytes(), work.Options{Observe: m.ObserveJobs})
	testkit.NoError(t, err)
	for range 3 {
		testkit.NoError(t, testkit.Drop(jobs.Put(ctx, nil)))
	}
	for i := range 2 {
		l, err := jobs.ReserveWait(ctx)
		testkit.NoError(t, err)
		if i == 0 {
			testkit.NoError(t, l.Ack(ctx))
		} else {
			testkit.NoError(t, l.Fail(ctx, nil))
		}
	}
	mail, err := work.Open(ctx, db, "mail", conq.Bytes(), work.Options{Settings: &work.Settings{Lease: time.Minute}, Observe: m.ObserveJobs})
	testkit.NoError(t, err)
	testkit.NoError(t, testkit.Drop(mail.Put(ctx, nil, work.Job{MaxAttempts: 2})))
	for range 2 {
		testkit.NoError(t, testkit.Drop(mail.ReserveWait(ctx)))
		<-time.After(2 * time.Minute) // of a bubble of synctest
	}
	testkit.WantError(t, testkit.Drop(mail.ReserveN(ctx, 1)), conq.ErrEmpty)
	testkit.NoError(t, testkit.Drop(mail.Put(ctx, nil, work.Job{MaxAttempts: 1})))
	last, err := mail.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, last.Fail(ctx, nil))
	testkit.NoError(t, jobs.Pause(ctx))
	says(t, scrape(t, m),
		`conq_items_total{event="added",queue="emails"} 3`,
		`conq_items_total{event="taken",queue="emails"} 1`,
		`conq_items_total{event="added",queue="na\"me\n"} 3`,
		`conq_items_total{event="reserved",queue="na\"me\n"} 2`,
		`conq_items_total{event="acknowledged",queue="na\"me\n"} 1`,
		`conq_items_total{event="failed",queue="na\"me\n"} 1`,
		`conq_items_total{event="retried",queue="na\"me\n"} 1`,
		`conq_items_total{event="expired",queue="mail"} 2`,
		`conq_items_total{event="retried",queue="mail"} 1`,
		`conq_items_total{event="failed",queue="mail"} 1`,
		`conq_items_total{event="dead",queue="mail"} 2`,
		`conq_job_wait_seconds_count 5`,
		`conq_transactions_total{verb="added"} 1`,
		`conq_batch_calls_count{verb="jobs added"} 5`,
	)
	sample(t, db, h)
	says(t, scrape(t, m),
		`conq_queues 3`,
		`conq_queue_items{kind="queue",queue="emails",state="ready"} 2`,
		`conq_queue_items{kind="work queue",queue="na\"me\n",state="ready"} 2`,
		`conq_queue_items{kind="work queue",queue="na\"me\n",state="scheduled"} 0`,
		`conq_queue_paused{queue="na\"me\n"} 1`,
	)
}

func TestConflicts(t *testing.T) {
	m := NewMetrics(Options{History: NewHistory(), MaxQueues: 1})
	m.ObserveItems(conq.Event{Kind: conq.Taken, Calls: 5, Attempts: 3})
	m.ObserveItems(conq.Event{Kind: conq.Waiting, Items: 7})
	says(t, scrape(t, m), `conq_conflicts_total{verb="taken"} 2`, `conq_batch_calls_sum{verb="taken"} 5`)
	if n, conflicts := m.Transactions(); n != 1 || conflicts != 2 {
		t.Errorf("there were %d transactions with %d conflicts, want 1 with 2", n, conflicts)
	}
}

type disk struct{}

func (disk) DiskBytes() int64 { return 4096 }

func (disk) Syncs() kv.Syncs {
	return kv.Syncs{Count: 3, Took: 1500 * time.Millisecond, Within: map[time.Duration]int64{time.Millisecond: 1, time.Second: 3}}
}

func TestStore(t *testing.T) {
	says(t, scrape(t, NewMetrics(Options{History: NewHistory(), MaxQueues: 1, Store: disk{}})),
		`conq_build_info{goversion="`+runtime.Version()+`",revision="`+version.Read().Revision+`",version="`+version.Read().Version+`"} 1`,
		"conq_store_bytes 4096", "conq_store_sync_seconds_count 3", "conq_store_sync_seconds_sum 1.5", `conq_store_sync_seconds_bucket{le="0.001"} 1`)
}

// However many queues there are, a scrape is bounded.
func TestLabelsAreBounded(t *testing.T) {
	m := NewMetrics(Options{History: NewHistory(), MaxQueues: 100})
	for i := range 100_000 {
		m.ObserveItems(conq.Event{Queue: fmt.Sprint("queue", i), Kind: conq.Added, Items: 2, Calls: 1, Attempts: 1})
	}
	metrics := scrape(t, m)
	says(t, metrics, `conq_items_total{event="added",queue="(other)"} 199800`, `conq_items_total{event="added",queue="queue99"} 2`)
	testkit.Equal(t, "series of items", strings.Count(metrics, "\nconq_items_total{"), 101)
}

// A queue that was deleted leaves its label to another, and nothing that was counted of it; one that is not listed yet has its own.
func TestLabelsOfDeleted(t *testing.T) {
	m := NewMetrics(Options{History: NewHistory(), MaxQueues: 2})
	add := func(queue string) {
		m.ObserveItems(conq.Event{Queue: queue, Kind: conq.Added, Items: 1, Calls: 1, Attempts: 1})
	}
	add("deleted")
	add("stays")
	add("third")
	says(t, scrape(t, m), `conq_items_total{event="added",queue="(other)"} 1`, `conq_items_total{event="added",queue="deleted"} 1`)
	m.Listed([]conq.Info{{Name: "stays"}, {Name: "third"}})
	says(t, scrape(t, m), `conq_items_total{event="added",queue="deleted"} 1`)
	m.Listed([]conq.Info{{Name: "stays"}, {Name: "third"}})
	add("third")
	metrics := scrape(t, m)
	says(t, metrics, `conq_items_total{event="added",queue="third"} 1`, `conq_items_total{event="added",queue="stays"} 1`)
	if strings.Contains(metrics, "deleted") {
		t.Errorf("metrics have a queue that was deleted: %s", metrics)
	}
	m.Listed([]conq.Info{{Name: "stays"}})
	m.Listed([]conq.Info{{Name: "stays"}, {Name: "third"}}) // made anew
	m.Listed([]conq.Info{{Name: "stays"}})
	says(t, scrape(t, m), `conq_items_total{event="added",queue="third"} 1`)
}

// Queues without a label of their own are summed up.
func TestOtherDepths(t *testing.T) { synctest.Test(t, testOtherDepths) }

func testOtherDepths(t *testing.T) {
	ctx, db, h := t.Context(), testkit.NewMemory(t, kv.Limits{}), NewHistory()
	m := NewMetrics(Options{History: h, MaxQueues: 2})
	for i := range 5 {
		q, err := conq.OpenQueue(ctx, db, fmt.Sprint("queue", i), conq.Bytes())
		testkit.NoError(t, err)
		testkit.NoError(t, q.EnqueueAll(ctx, make([][]byte, i+1)))
	}
	sample(t, db, h)
	for range 2 {
		metrics := scrape(t, m)
		says(t, metrics, `conq_queues 5`, `conq_queue_items{kind="queue",queue="queue1",state="ready"} 2`,
			`conq_queue_items{kind="queue",queue="(other)",state="ready"} 12`)
		testkit.Equal(t, "series of depths", strings.Count(metrics, "\nconq_queue_items{"), 3)
	}
}

// A request is measured by the pattern of its path, whatever that is, and the log has nothing of what it says.
func TestRequests(t *testing.T) {
	m := NewMetrics(Options{History: NewHistory(), MaxQueues: 1})
	var log strings.Builder
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/queues/{q}/items", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.PathValue("q") == "bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write([]byte("secret answer"))
		w.(http.Flusher).Flush()
	})
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := m.Requests(logger, func(*http.Request) string { return "shop" }, mux)
	for _, target := range []string{"/v1/queues/secret1/items?key=secret2", "/v1/queues/bad/items", "/secret3"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("secret4"))
		r.Header.Set("Authorization", "Bearer secret5")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("log has a secret: %s", &log)
	}
	for _, want := range []string{
		`"level":"DEBUG","msg":"request","verb":"POST /v1/queues/{q}/items","status":200`, `"bytes":13,"caller":"shop","remote":"192.0.2.1"`,
		`"level":"ERROR","msg":"request","verb":"POST /v1/queues/{q}/items","status":500`, `"verb":"none","status":404`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %s: %s", want, &log)
		}
	}
	m.Begin("beanstalk")("put", "INSERTED")
	says(t, scrape(t, m),
		`conq_request_seconds_count{protocol="http",status="200",verb="POST /v1/queues/{q}/items"} 1`,
		`conq_request_seconds_count{protocol="http",status="404",verb="none"} 1`,
		`conq_request_seconds_count{protocol="beanstalk",status="INSERTED",verb="put"} 1`,
		`conq_requests{protocol="http"} 0`)
}

// A request is a span in the trace of who sends it, and what it causes goes on from there.
func TestTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	mux := http.NewServeMux()
	var caused string
	mux.HandleFunc("POST /v1/jobs/{q}", func(w http.ResponseWriter, r *http.Request) {
		caused = r.Header.Get("traceparent")
		w.WriteHeader(http.StatusInternalServerError)
	})
	const trace, from = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs/secret", nil)
	r.Header.Set("traceparent", "00-"+trace+"-"+from+"-01")
	Traced(provider, mux).ServeHTTP(httptest.NewRecorder(), r)
	r.Header.Set("traceparent", "00-zz") // a hostile one is none
	Traced(provider, mux).ServeHTTP(httptest.NewRecorder(), r)
	span, other := spans.Ended()[0], spans.Ended()[1]
	testkit.Equal(t, "name", span.Name(), "POST /v1/jobs/{q}")
	testkit.Equal(t, "trace", span.SpanContext().TraceID().String(), trace)
	testkit.Equal(t, "parent", span.Parent().SpanID().String(), from)
	testkit.Equal(t, "failed", span.Status().Code, codes.Error)
	testkit.Equal(t, "what it causes", caused, "00-"+other.SpanContext().TraceID().String()+"-"+other.SpanContext().SpanID().String()+"-01")
	if text := fmt.Sprint(span.Attributes(), span.Status(), span.Name()); strings.Contains(text, "secret") || other.Parent().IsValid() {
		t.Errorf("span says %s, another one has parent %v", text, other.Parent())
	}
}
