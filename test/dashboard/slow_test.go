package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server"
)

// slow is a server in front of a site's, that holds back the first request of those that it is about.
type slow struct {
	about   func(*http.Request) bool
	first   atomic.Bool   // has come
	came    chan struct{} // is closed when the first has come
	proceed chan struct{} // is to be closed
}

// newSlow returns a site behind such a server, and a tab that goes there.
func newSlow(t *testing.T, about func(*http.Request) bool) (*slow, *site, *tab) {
	s := newSite(t, server.Options{})
	s.fill()
	held := &slow{about: about, came: make(chan struct{}), proceed: make(chan struct{})}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held.hold(r)
		s.server.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close) // after the tab is closed
	tb := newTab(t, s)
	tb.url = front.URL
	return held, s, tb
}

func (h *slow) hold(r *http.Request) {
	if h.about(r) && h.first.CompareAndSwap(false, true) {
		close(h.came)
		select {
		case <-h.proceed:
		case <-r.Context().Done():
		}
	}
}

func isOf(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, path) }
}

// What is typed while a search is under way stays, and is searched for at once.
func TestTypeDuringSearch(t *testing.T) {
	t.Parallel()
	held, _, tb := newSlow(t, func(r *http.Request) bool { return r.URL.Query().Has("find") })
	tb.open("/")
	tb.live()
	tb.types("#find", "e")
	<-held.came
	tb.types("#find", "ma")
	tb.sees(`location.search.includes("find=ema") && document.querySelector("#find").value === "ema"`)
	tb.sees(`document.activeElement.id === "find" && document.querySelectorAll("tbody tr").length === 1`)
	tb.live()
}

// What is typed before scripts are there is searched for when they are.
func TestTypeBeforeScripts(t *testing.T) {
	t.Parallel()
	held, _, tb := newSlow(t, isOf("/app.js"))
	tb.do(chromedp.Evaluate[chromedp.Void](`location.href = "` + tb.url + `"`))
	<-held.came
	tb.types("#find", "ema")
	close(held.proceed)
	tb.sees(`location.search.includes("find=ema") && document.querySelectorAll("tbody tr").length === 1`)
}

// A button that is pressed again opens one dialog, in which what is typed stays.
func TestPressedTwice(t *testing.T) {
	t.Parallel()
	held, _, tb := newSlow(t, isOf("/do"))
	tb.open("/queue?q=orders")
	tb.live()
	tb.press("Add")
	<-held.came
	tb.press("Add")
	tb.sees(`document.querySelector("#dialog").open`)
	tb.types("#dialog textarea", "typed")
	close(held.proceed)
	tb.sees(`document.querySelector("#dialog textarea").value === "typed"`)
}

// Charts do not ask again while an answer is on its way, however long that takes, and then have what has come meanwhile.
func TestSlowChart(t *testing.T) {
	t.Parallel()
	held, _, tb := newSlow(t, isOf("/chart"))
	tb.open("/queue?q=orders")
	<-held.came
	tb.do(chromedp.Evaluate[chromedp.Void](`{
		window.points = window.asked = 0;
		document.querySelector("#points").addEventListener("htmx:sseBeforeMessage", () => window.points++);
		const fetch = window.fetch;
		window.fetch = (to, ...rest) => {
			window.asked += to.includes("/chart");
			return fetch(to, ...rest);
		};
	}`))
	tb.sees(`window.points > 2`)
	if n := evaluate[int](tb, `window.asked`); n != 0 {
		t.Errorf("the charts have asked %d times more", n)
	}
	close(held.proceed)
	tb.sees(`Number(document.querySelector(".charts").dataset.last) > 0`)
}

// A page whose connection is gone without an end makes another.
func TestSilence(t *testing.T) {
	t.Parallel()
	held, _, tb := newSlow(t, isOf("/live/queue"))
	_, err := chromedp.Call(tb.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const set = setTimeout; window.setTimeout = (f, wait) => set(f, wait === 40000 ? 3000 : wait); }`,
	})
	must(t, err)
	tb.open("/queue?q=orders")
	<-held.came
	tb.live()
}

// The focus goes with its row when rows are in another order, and an open payload stays open when others come.
func TestRowsMove(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	for _, name := range []string{"few", "more", "more"} {
		q := s.work(name)
		_, err := q.Put(t.Context(), []byte("x"))
		must(t, err)
		must(t, q.Close())
	}
	tb := newTab(t, s)
	first := func(name string) {
		t.Helper()
		tb.sees(`document.querySelector("tbody a")?.innerText === "` + name + `"`)
	}
	tb.open("/?sort=depth")
	tb.live()
	first("more")
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("tbody th a")[1].focus()`))
	few := s.work("few")
	for range 3 {
		_, err := few.Put(t.Context(), []byte("x"))
		must(t, err)
	}
	must(t, few.Close())
	first("few")
	if focused := evaluate[string](tb, `document.activeElement.innerText`); focused != "few" {
		t.Errorf("the focus is on %q", focused)
	}
	items, err := conq.OpenQueue(t.Context(), s.db, "items", conq.Bytes())
	must(t, err)
	defer items.Close()
	must(t, items.Enqueue(t.Context(), []byte("one")))
	tb.open("/queue?q=items")
	tb.live()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("details").open = true`))
	must(t, items.Enqueue(t.Context(), []byte("two")))
	tb.sees(`document.querySelectorAll("details").length === 2`)
	if !evaluate[bool](tb, `document.querySelector("details").open`) {
		t.Error("the payload is closed")
	}
}
