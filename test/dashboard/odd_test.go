package dashboard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

// oddNames are as long, and as unlike a name, as names may be.
var oddNames = []string{"payments/eu/west", "Überweisungen-€-日本語", strings.Repeat("w", 200), strings.Repeat("日", 341), " two\nlines\t"}

// Queues of odd names, with odd jobs, are shown as they are, and things are done to them.
func TestOddNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	ctx := context.Background()
	for _, name := range oddNames {
		q := s.work(name)
		_, err := q.Put(ctx, nil, work.Job{Priority: -1 << 63, Key: strings.Repeat("k", 900), Delay: 20 * 365 * 24 * time.Hour})
		must(t, err)
		id, err := q.Put(ctx, []byte("x"), work.Job{Priority: 1<<63 - 1})
		must(t, err)
		must(t, q.Bury(ctx, id, strings.Repeat("e", 3000)))
		_, err = q.Put(ctx, []byte("x"))
		must(t, err)
		_, err = q.ReserveWait(ctx)
		must(t, err)
		must(t, q.Every(ctx, strings.Repeat("p", 200), "@hourly", nil))
		must(t, q.Close())
	}
	tb, html := newTab(t, s), newServed(t)
	tb.open("/")
	tb.reads(oddNames[0])
	paths := []string{"/", "/workers", "/periodic"}
	for _, name := range oddNames {
		for _, page := range []string{"queue?", "jobs?", "do?do=purge&"} {
			paths = append(paths, "/"+page+"q="+escape(name))
		}
	}
	for _, path := range paths {
		tb.open(path)
		html.add(tb)
		for _, width := range []int64{1280, 360} {
			tb.look(width, 800, false)
			tb.fits(fmt.Sprint(path, " of ", width))
		}
	}
	html.validate(t)
	for _, name := range oddNames {
		tb.open("/do?do=purge&q=" + escape(name))
		tb.types("#typed", strings.Join(strings.Fields(name), " ")+"\r")
		tb.reads("The queue is empty.")
	}
}

// A store that is closed under its pages is said to be, and so is from when what they show is.
func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	tb.open("/queue?q=emails")
	tb.live()
	tb.reads("Dead\n24") // so the history has read the store
	must(t, s.db.Close())
	tb.reads("The store is closed: kv: closed. The server is stopping")
	tb.reads("What is shown is from")
	for path, shows := range map[string]string{"/": "unreadable", "/store": "can't be read", "/jobs?q=emails": "The store is closed"} {
		tb.open(path)
		tb.reads(shows)
	}
	tb.picture("closed", nil)
	tb.open("/do?do=pause&q=emails")
	tb.do(chromedp.Click(chromedp.CSS("#confirm button")))
	tb.reads("kv: closed")
}
