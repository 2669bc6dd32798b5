package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a server of a store, as operators have it.
type site struct {
	t       testing.TB
	url     string
	address string
	dir     string
	options server.Options
	db      kv.DB
	server  *server.Server
	stop    context.CancelFunc
	stopped chan struct{}
}

// newSite starts a server of an empty store.
func newSite(t testing.TB, o server.Options) *site {
	s := &site{t: t, address: "127.0.0.1:0", dir: t.TempDir(), options: o}
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

func (s *site) start() {
	var err error
	s.db, err = conq.Open(context.Background(), s.dir)
	must(s.t, err)
	srv, err := server.New(s.db, s.options)
	must(s.t, err)
	s.server = srv
	listener, err := net.Listen("tcp", s.address)
	must(s.t, err)
	s.address = listener.Addr().String()
	s.url = "http://" + s.address
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.stopped = stop, make(chan struct{})
	go func() {
		defer close(s.stopped)
		if err := srv.Serve(ctx, listener); err != nil {
			s.t.Error(err)
		}
		if err := errors.Join(srv.Close(), s.db.Close()); err != nil {
			s.t.Error(err)
		}
	}()
}

// end stops the server, and closes the store.
func (s *site) end() {
	s.stop()
	<-s.stopped
}

func (s *site) work(name string) *work.Queue[[]byte] {
	q, err := work.Open(context.Background(), s.db, name, conq.Bytes(), work.Options{Settings: &work.Settings{MaxAttempts: 3, Keep: time.Hour}, Backoff: func(int) time.Duration { return 5 * time.Minute }})
	must(s.t, err)
	return q
}

func email(i int) []byte {
	return fmt.Appendf(nil, `{"to":"user%d@example.org","subject":"Your order %d","template":"order-shipped","attempt":{"relay":"mx%d.example.net","tls":true}}`, i, 1000+i, i%3)
}

// hostile are payloads that try to be more than text.
var hostile = map[string][]byte{
	"script":    []byte(`<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`),
	"attribute": []byte(`" onmouseover="document.title='owned'" x='`),
	"template":  []byte(`{{.Caller}}</pre></td></table><iframe src=/store></iframe>`),
	"long":      []byte(strings.Repeat("x", 1<<20)),
	"nul":       []byte("a\x00b\x1b[31mred\x07"),
	"bidi":      []byte("invoice\u202etxt.exe\u200f\u2066 \u200bhidden"),
	"invalid":   []byte("\xff\xfe\x80broken\xc3"),
	"json":      []byte(`{"<script>":"</script><script>document.title='owned'</script>","\u202e":[1,2,{"a":null}]}`),
	"sse":       []byte("data: x\n\nevent: notice\ndata: <b id=owned>owned</b>\n\n"),
}

// fill makes queues of all kinds, as a day of work leaves them.
func (s *site) fill() {
	ctx := context.Background()
	emails := s.work("emails")
	for i := range 120 {
		_, err := emails.Put(ctx, email(i), work.Job{Key: fmt.Sprintf("customer-%d", i%40), Priority: int64(i % 3), Meta: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "source": "shop"}})
		must(s.t, err)
	}
	reasons := []string{
		"dial tcp 203.0.113.7:25: i/o timeout",
		"550 5.1.1 <user@example.org>: recipient address rejected: user unknown",
		"dial tcp 203.0.113.9:25: connect: connection refused",
	}
	for i := range 36 {
		l, err := emails.ReserveWait(ctx)
		must(s.t, err)
		if i%3 == 0 {
			must(s.t, l.Ack(ctx))
		} else {
			must(s.t, l.Fail(ctx, errors.New(reasons[i%len(reasons)])))
		}
	}
	for i := range 24 {
		id, err := emails.Put(ctx, email(500+i))
		must(s.t, err)
		must(s.t, emails.Bury(ctx, id, reasons[i%len(reasons)]))
	}
	_, err := emails.ReserveWaitN(ctx, 7)
	must(s.t, err)
	must(s.t, emails.Every(ctx, "digest", "0 7 * * 1", []byte(`{"kind":"digest"}`)))
	must(s.t, emails.Every(ctx, "bounces", "@every 15m", []byte(`{"kind":"bounces"}`)))
	must(s.t, emails.Close())

	thumbnails := s.work("thumbnails")
	for i := range 30 {
		_, err := thumbnails.Put(ctx, fmt.Appendf(nil, "image-%d.jpg", i))
		must(s.t, err)
	}
	must(s.t, thumbnails.Pause(ctx))
	must(s.t, thumbnails.Close())

	orders, err := conq.OpenQueue(ctx, s.db, "orders", conq.Bytes())
	must(s.t, err)
	for i := range 1234 {
		must(s.t, orders.Enqueue(ctx, fmt.Appendf(nil, `{"order":%d,"items":[{"sku":"A-%d","n":1}]}`, i, i%17)))
	}
	must(s.t, orders.Close())
	alerts, err := conq.OpenPriorityQueue(ctx, s.db, "alerts", conq.Bytes())
	must(s.t, err)
	for i := range 40 {
		must(s.t, alerts.Push(ctx, fmt.Appendf(nil, "disk %d is %d %% full", i, 60+i), int64(i%5)))
	}
	must(s.t, alerts.Close())
}

var hostileNames = []string{"evil", `<script>document.title="owned"</script>`, "a/b?c=d&e#f", "..", "rtl\u202egnp.exe"}

const hostileHolder = "\"><img src=x onerror=\"document.title='owned'\">\u202e\u200b"

const hostilePeriodic = `<b id="owned">`

func escape(name string) string { return url.QueryEscape(name) }

// fillHostile makes queues whose names and payloads are hostile.
func (s *site) fillHostile() {
	ctx := context.Background()
	for _, name := range hostileNames {
		q := s.work(name)
		for label, payload := range hostile {
			text := strings.ToValidUTF8(strings.ReplaceAll(string(payload[:min(len(payload), 500)]), "\x00", "0"), "?")
			meta := map[string]string{text: text, "traceparent": "00-" + strings.ReplaceAll(text, "-", "_") + "-00f067aa0ba902b7-01"}
			id, err := q.Put(ctx, payload, work.Job{Key: text, Unique: label + text, Meta: meta})
			must(s.t, err)
			must(s.t, q.Bury(ctx, id, string(payload)))
		}
		_, err := q.Put(ctx, hostile["script"])
		must(s.t, err)
		must(s.t, q.Every(ctx, hostilePeriodic, "@daily", hostile["script"]))
		must(s.t, q.Close())
	}
	worker, err := work.Open(ctx, s.db, "evil", conq.Bytes(), work.Options{Holder: hostileHolder})
	must(s.t, err)
	_, err = worker.ReserveWait(ctx)
	must(s.t, err)
	must(s.t, worker.Close())
	q, err := conq.OpenQueue(ctx, s.db, "evil items", conq.Bytes())
	must(s.t, err)
	for _, payload := range hostile {
		must(s.t, q.Enqueue(ctx, payload))
	}
	must(s.t, q.Close())
}
