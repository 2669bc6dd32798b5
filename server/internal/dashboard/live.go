package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/watch"
)

// Bounds of live pages.
const (
	maxStreams = 2000
	streamTime = 2 * time.Minute  // then the browser comes again, and is asked again who it is
	writeTime  = 10 * time.Second // a browser that reads nothing for so long is gone
	pingAfter  = 15 * time.Second
)

// views are the live pages that somebody sees, by what they show.
type views struct {
	mu  sync.Mutex
	all map[string]*view
}

// view is a live page as some tabs see it.
type view struct {
	tabs int // under views.mu

	mu     sync.Mutex
	of     *watch.Snapshot // of which events are
	events []*event        // the last ones, one a section
}

// event is something to be sent. It is another one if it has changed.
type event struct {
	name string
	data []byte
}

func (s *views) enter(key string) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]*view)
	}
	v := s.all[key]
	if v == nil {
		v = new(view)
		s.all[key] = v
	}
	v.tabs++
	return v
}

func (s *views) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.all[key]; v != nil {
		if v.tabs--; v.tabs == 0 {
			delete(s.all, key)
		}
	}
}

// at returns the events of a snapshot, which make makes once.
func (v *view) at(s *watch.Snapshot, make func() []*event) []*event {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == s {
		return v.events
	}
	made := make()
	for i, e := range made {
		for _, old := range v.events {
			if old.name == e.name && bytes.Equal(old.data, e.data) {
				made[i] = old
			}
		}
	}
	v.of, v.events = s, made
	return made
}

// serveLive sends the live sections of a page when they change.
func (d *Dashboard) serveLive(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.streams.Add(1) > maxStreams {
			d.streams.Add(-1)
			http.Error(w, fmt.Sprintf("%d pages are open, and no more can be live", maxStreams), http.StatusServiceUnavailable)
			return
		}
		defer d.streams.Add(-1)
		ctx, cancel := context.WithTimeout(r.Context(), streamTime)
		defer cancel()
		defer context.AfterFunc(d.Stopping, cancel)()
		caller := access.From(r.Context())
		key := p.name + "\x00" + r.Host + "\x00" + r.URL.Query().Encode() + "\x00" + caller.Name + "\x00" + caller.Rights()
		v := d.views.enter(key)
		defer d.views.leave(key)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		d.stream(ctx, w, v, func(s *watch.Snapshot) []*event { return d.events(ctx, p, r, s) })
	})
}

func (d *Dashboard) stream(ctx context.Context, w http.ResponseWriter, v *view, make func(*watch.Snapshot) []*event) {
	sent := map[string]*event{}
	out := http.NewResponseController(w)
	ping := time.NewTicker(pingAfter)
	defer ping.Stop()
	var seen *watch.Snapshot
	for {
		var b bytes.Buffer
		now := d.History.Latest()
		if now != seen {
			for _, e := range v.at(now, func() []*event { return make(now) }) {
				if sent[e.name] != e {
					sent[e.name] = e
					b.Write(e.data)
				}
			}
			seen = now
		}
		if b.Len() == 0 {
			b.Write(sse("alive", nil))
		}
		if err := out.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && ctx.Err() != nil {
			return
		}
		if _, err := b.WriteTo(w); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-now.Next():
		case <-ping.C:
		}
	}
}

// events makes the live sections of a page. One that fails says so in place of all.
func (d *Dashboard) events(ctx context.Context, p *page, r *http.Request, now *watch.Snapshot) (all []*event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTime) // others wait for it, too
	defer cancel()
	v := d.visitOf(ctx, r)
	v.now, v.live = now, true
	data, err := p.load(v)
	if err != nil {
		return []*event{{"problem", sse("problem", d.section(p.name, "stale", problemOf(err)))}}
	}
	c := d.content(p, v, data)
	still, _ := data.(interface{ Skips(section string) bool })
	for _, name := range append([]string{"notice"}, p.sections...) {
		if still != nil && still.Skips(name) {
			continue
		}
		all = append(all, &event{name, sse(name, d.section(p.name, name, c))})
	}
	problem := []byte{}
	if stale := staleness(now); stale != nil {
		problem = d.section(p.name, "stale", stale)
	}
	all = append(all, &event{"problem", sse("problem", problem)})
	if p.points {
		all = append(all, &event{"point", sse("point", d.point(v))})
	}
	return all
}

func (d *Dashboard) section(page, name string, data any) []byte {
	var b bytes.Buffer
	if err := templates()[page].ExecuteTemplate(&b, name, data); err != nil {
		d.Logger.Error("a section could not be made", "page", page, "section", name, "err", err)
	}
	return b.Bytes()
}

// sse is an event as it is sent.
func sse(name string, data []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", name)
	for line := range bytes.SplitSeq(bytes.ReplaceAll(data, []byte("\r"), nil), []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// point is what the charts of a queue show of the last second that is over.
func (d *Dashboard) point(v *visit) []byte {
	q := v.query.Get("q")
	if !v.may(access.Watch, q) || v.now.Queue(q) == nil {
		return []byte("null")
	}
	b, _ := json.Marshal(chartOf(d.History.Queue(q).Last(allFields()...))) // numbers
	return b
}
