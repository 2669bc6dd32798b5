package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

func (tb *tab) scripts(run bool) {
	tb.t.Helper()
	_, err := chromedp.Call(tb.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
	must(tb.t, err)
}

// busy has programs put and do jobs over the network until the test is over.
func (s *site) busy() {
	ctx, stop := context.WithCancel(context.Background())
	c, err := client.Dial(ctx, s.url)
	must(s.t, err)
	q, err := client.OpenWork(ctx, c, "receipts", queue.Bytes())
	must(s.t, err)
	items, err := client.OpenQueue(ctx, c, "events", queue.Bytes())
	must(s.t, err)
	var programs sync.WaitGroup
	programs.Go(func() { produce(ctx, q, items) })
	programs.Go(func() {
		_ = work.Run(ctx, q, func(ctx context.Context, job *work.Lease[[]byte]) error { // ctx ends it
			if job.ID%7 == 0 {
				return errors.New("printer is out of paper")
			}
			return nil
		}, work.RunOptions{Workers: 4})
	})
	s.t.Cleanup(func() {
		stop()
		programs.Wait()
		_ = errors.Join(q.Close(), items.Close(), c.Close()) // their server may be gone
	})
}

// produce puts some jobs and items in each tenth of a second.
func produce(ctx context.Context, q *client.WorkQueue[[]byte], items *client.Queue[[]byte]) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for range 1 + i%5 {
			if _, err := q.Put(ctx, fmt.Appendf(nil, `{"receipt":%d}`, i)); err != nil {
				return
			}
		}
		if err := items.EnqueueAll(ctx, [][]byte{[]byte("a"), []byte("b")}); err != nil {
			return
		}
		if i%3 == 0 {
			if _, err := items.Dequeue(ctx); err != nil {
				return
			}
		}
	}
}

// A job fails; its operator finds it by a text of its error, reads that, and retries all that are like it.
func TestStory(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb, second := newTab(t, s), newTab(t, s)
	second.open("/queue?q=emails")
	second.live()
	tb.open("/")
	tb.live()
	tb.do(chromedp.KeyEvent("/"))
	tb.sees(`document.activeElement.id === "find"`)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#find").value = ""`), chromedp.SendKeys(chromedp.CSS("#find"), "ema")) // a browser would not have typed the key, too
	tb.sees(`document.querySelectorAll("tbody tr").length === 1 && location.search.includes("find=ema")`)
	tb.press("24") // dead ones
	tb.reads("Last error")
	tb.types("#text", "timeout\r")
	tb.sees(`location.search.includes("text=timeout") && document.querySelectorAll("tbody tr").length === 8`)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`), chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
	tb.sees(`document.querySelectorAll("tbody tr")[1].matches(":focus-within")`)
	tb.do(chromedp.KeyEvent("\r"))
	tb.reads("Attempts that failed")
	tb.reads("dial tcp 203.0.113.7:25: i/o timeout")
	tb.back()
	tb.press("Retry")
	tb.reads("Retry 8 dead jobs of emails that contain “timeout”")
	tb.press("Retry")
	tb.reads("dead jobs of emails that contain “timeout”: done, 8 of them.") // to count them first may take too long
	tb.reads("No job matches")
	second.sees(`[...document.querySelectorAll(".figures div")].some(d => d.innerText.startsWith("Dead") && d.innerText.endsWith("16"))`)
}

// What one operator does another sees, without loading again.
func TestPauseAndUndo(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb, second := newTab(t, s), newTab(t, s)
	second.open("/")
	second.live()
	tb.open("/queue?q=emails")
	tb.live()
	tb.press("Pause")
	tb.reads("It gives out no more jobs")
	tb.press("Pause")
	tb.reads("Pause emails: done")
	tb.sees(`document.querySelector("h1 .tag.warn")?.innerText === "paused"`)
	second.sees(`[...document.querySelectorAll("tbody tr")].some(r => r.innerText.includes("emails") && r.innerText.includes("paused"))`)
	tb.press("Undo")
	tb.reads("It gives out jobs again")
	tb.press("Resume")
	tb.sees(`!document.querySelector("h1 .tag")`)
	second.sees(`![...document.querySelectorAll("tbody tr")].some(r => r.innerText.includes("emails") && r.innerText.includes("paused"))`)
}

// Each thing that operators do can be done on a page.
func TestActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	act := func(path, button string, fields map[string]string, confirm, result string) {
		t.Helper()
		tb.open(path)
		tb.live()
		tb.press(button)
		tb.sees(`document.querySelector("#dialog").open`)
		for selector, text := range fields {
			tb.do(chromedp.SetValue(chromedp.CSS("#dialog "+selector), text))
		}
		tb.press(confirm)
		tb.reads(result)
	}
	act("/queue?q=thumbnails", "Resume", nil, "Resume", "Resume thumbnails: done")
	act("/queue?q=emails", "Add", map[string]string{"textarea": `{"by":"hand"}`, "[name=priority]": "-9"}, "Add", "Add to emails: done")
	act("/queue?q=orders", "Move", map[string]string{"[name=to]": "orders.old", "[name=n]": "1000"}, "Move", "1,000 items were moved.")
	act("/queue?q=orders.old", "Purge", map[string]string{"#typed": "orders.old"}, "Purge", "The queue is empty.")
	act("/queue?q=orders.old", "Delete", map[string]string{"#typed": "orders.old"}, "Delete", "The queue is deleted.")
	act("/queue?q=thumbnails", "Settings", map[string]string{"[name=order]": "relaxed", "[name=held]": "yes", "[name=timeout]": "none"}, "Set", "All workers work by the new settings.")
	tb.open("/do?do=set&q=thumbnails")
	tb.sees(`["order", "held", "timeout"].map(n => document.querySelector("[name=" + n + "]").value).join() === "relaxed,yes,none"`)
	act("/jobs?q=emails&state=scheduled", "Make ready now", nil, "Make ready", "scheduled jobs of emails ready now: done")
	act("/jobs?q=emails&state=ready", "Change priority", map[string]string{"[name=priority]": "7"}, "Change priority", "to 7: done")
	act("/jobs?q=emails&state=leased", "Cancel", nil, "Cancel jobs", "Cancel 7 leased jobs of emails: done")
	act("/workers", "End leases", nil, "End leases", "”: done, 7 of them.")
	act("/job?q=emails&id=121", "Retry now", nil, "Retry", "Retry job 121 of emails: done")
	act("/job?q=emails&id=121", "Cancel", nil, "Cancel jobs", "Cancel job 121 of emails: done")
	act("/job?q=emails&id=121", "Delete", map[string]string{"#typed": "emails"}, "Delete", "Delete job 121 of emails: done")
	act("/jobs?q=emails&state=dead", "Delete", map[string]string{"#typed": "emails"}, "Delete", "dead jobs of emails: done")
	act("/periodic", "Run now", nil, "Run now", "of emails now: done")
	act("/periodic", "Remove", map[string]string{"#typed": "emails"}, "Remove", "of emails: done. It is put no more.")
	act("/store", "Check", nil, "Check", "All is as it should be.")
	tb.open("/store")
	tb.reads("Delete job 121 of emails")
	tb.picture("activity", nil)
}

// What was typed wrongly is said, and nothing is done.
func TestWrongName(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	tb.open("/do?do=purge&q=orders")
	tb.types("#typed", "order\r")
	tb.reads(`"order" is not the name of the queue: nothing was done.`)
	tb.open("/queue?q=orders")
	tb.reads("1,234")
}

// Charts get a point a second, and fall back to none when their span changes.
func TestChartsMove(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	s.busy()
	tb := newTab(t, s)
	tb.open("/queue?q=receipts")
	tb.live()
	tb.sees(`document.querySelectorAll(".uplot canvas").length === 4`)
	tb.sees(`Number(document.querySelector(".charts").dataset.last) > 0`)
	last := evaluate[int64](tb, `Number(document.querySelector(".charts").dataset.last)`)
	tb.sees(fmt.Sprintf(`Number(document.querySelector(".charts").dataset.last) >= %d`, last+2))
	tb.sees(`[...document.querySelectorAll(".figures div")].some(d => /^In\s+[1-9]/.test(d.innerText))`)
	tb.press("3 hours")
	tb.sees(`document.querySelector("[data-span='3h']").getAttribute("aria-pressed") === "true" && document.querySelectorAll(".uplot canvas").length === 4`)
	tb.press("10 minutes")
	<-time.After(*charted)
	tb.picture("charts", nil)
}

// A page says that its server is gone, and is live again when that is back. What was searched for meanwhile is found then.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	tb.open("/queue?q=orders")
	tb.live()
	s.end()
	tb.reads("not connected, trying again")
	s.start()
	q := s.work("born")
	must(t, q.Close())
	tb.live()
	tb.open("/")
	tb.reads("born")
	tb.live()
	s.end()
	tb.types("#find", "bor")
	tb.reads("not connected, trying again")
	s.start()
	tb.sees(`location.search.includes("find=bor") && document.querySelectorAll("tbody tr").length === 1`)
}

// newGuarded returns a site with queues that asks for tokens, and two of these.
func newGuarded(t *testing.T) (s *site, admin, watch string) {
	path := t.TempDir() + "/tokens.json"
	admin, _, err := server.NewToken(path, "ops", []string{"admin"})
	must(t, err)
	watch, _, err = server.NewToken(path, "wall", []string{"watch"})
	must(t, err)
	tokens, err := server.LoadTokens(path)
	must(t, err)
	s = newSite(t, server.Options{Tokens: tokens})
	s.fill()
	return s, admin, watch
}

// Signing in shows what a token allows, and signing out ends it, in other tabs too.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s, admin, watch := newGuarded(t)
	tb := newTab(t, s)
	tb.open("/queue?q=emails")
	tb.reads("Sign in")
	tb.picture("signin", nil)
	tb.accessible("signin")
	tb.types("#token", "conq_nonsense\r")
	tb.reads("This server has no such token.")
	tb.types("#token", watch+"\r")
	tb.reads("it has not the scope consume")
	if evaluate[bool](tb, `document.body.innerText.includes("Purge") || document.body.innerText.includes("user1")`) {
		t.Error("a token that may only watch sees more")
	}
	tb.press("Sign out")
	tb.reads("Token")
	tb.open("/queue?q=emails")
	tb.types("#token", admin+"\r")
	tb.reads("First ready jobs")
	tb.press("Pause")
	tb.reads("It gives out no more jobs")
	tb.press("Pause")
	tb.reads("Pause emails: done")
	if cookie := evaluate[string](tb, `document.cookie`); cookie != "" {
		t.Errorf("scripts can read the cookie %q", cookie)
	}
	// A form of another server on the same host, with which the browser sends the cookie.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/do?do=resume&amp;q=emails"></form><script>document.forms[0].submit()</script>`, s.url)
	}))
	defer other.Close()
	tb.do(chromedp.Navigate(other.URL))
	tb.reads("the request comes from a page of another site")
	tb.open("/queue?q=emails")
	tb.reads("Resume")
	tb.press("Sign out")
	tb.reads("Token")
}

// An open page leads to where one signs in when its session has ended, as it does when the server starts again.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s, admin, _ := newGuarded(t)
	tb := newTab(t, s)
	tb.open("/queue?q=emails")
	tb.types("#token", admin+"\r")
	tb.reads("First ready jobs")
	tb.live()
	s.end()
	s.start()
	tb.sees(`location.pathname === "/sign-in"`)
	tb.types("#token", admin+"\r")
	tb.reads("First ready jobs")
	tb.open("/")
	evaluate[int](tb, `fetch("/sign-out", {method: "POST", body: new URLSearchParams()}).then(r => r.status)`)
	tb.types("#find", "ema")
	tb.sees(`location.pathname === "/sign-in"`)
}

// Keys go through rows and pages, and to other places.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	press := func(keys ...string) {
		for _, key := range keys {
			tb.do(chromedp.KeyEvent(key))
		}
	}
	here := func(row int) {
		t.Helper()
		tb.sees(fmt.Sprintf(`document.querySelectorAll("tbody tr")[%d].matches(":focus-within")`, row))
	}
	tb.open("/jobs?q=emails")
	press("j", "j", "j", "k")
	here(1)
	press("n")
	tb.sees(`location.search.includes("after=")`)
	tb.sees(`document.readyState === "complete"`)
	press("j")
	here(0)
	press("/")
	tb.sees(`document.activeElement.id === "text"`)
	press("\x1b", "?")
	tb.sees(`document.querySelector("#keys").open`)
	press("\x1b")
	tb.sees(`!document.querySelector("#keys").open`)
	press("g", "w")
	tb.sees(`location.pathname === "/workers"`)
	tb.open("/queue?q=emails")
	tb.live()
	tb.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("a.button")].find(e => e.innerText === "Pause").focus()`))
	tb.enter(false)
	tb.sees(`document.activeElement.matches("#dialog button")`)
	tb.enter(true) // the key is still down
	q := s.work("emails")
	defer q.Close()
	stats, err := q.Stats(t.Context())
	must(t, err)
	if stats.Paused || !evaluate[bool](tb, `document.querySelector("#dialog").open`) {
		t.Error("the key that opens a dialog also does what that asks about")
	}
}

func (tb *tab) enter(again bool) {
	tb.t.Helper()
	_, err := chromedp.Call(tb.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{
		Type: "keyDown", Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13, AutoRepeat: &again,
	})
	must(tb.t, err)
}

// streams counts the event streams that a handler answers, and lets browsers keep pages that were left: some do in any case.
type streams struct {
	http.Handler
	mu      sync.Mutex
	open    map[string]int // by path
	changed chan struct{}  // is closed when they do
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/live/") {
		s.add(r.URL.Path, 1)
		defer s.add(r.URL.Path, -1)
	}
	s.Handler.ServeHTTP(kept{w}, r)
}

// kept is an answer that browsers may keep.
type kept struct{ http.ResponseWriter }

func (k kept) WriteHeader(status int) {
	k.Header().Del("Cache-Control")
	k.ResponseWriter.WriteHeader(status)
}

func (k kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (s *streams) add(path string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[path] += n; s.open[path] == 0 {
		delete(s.open, path)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// are waits until one stream of each of some paths is open, and no other.
func (s *streams) are(t *testing.T, paths ...string) {
	t.Helper()
	want := make(map[string]int)
	for _, path := range paths {
		want[path]++
	}
	late := time.After(patience)
	for {
		s.mu.Lock()
		open, changed := maps.Clone(s.open), s.changed
		s.mu.Unlock()
		if maps.Equal(open, want) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("open streams are %v, want %v", open, want)
		}
	}
}

// A page that was left holds no stream, also if the browser keeps it for the way back: a server has but six connections
// of a browser. When it is shown again, it is live again.
func TestPagesThatWereLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	open := &streams{Handler: s.server, open: make(map[string]int), changed: make(chan struct{})}
	front := httptest.NewServer(open)
	t.Cleanup(front.Close) // after the tab is closed
	tb := newTab(t, s)
	tb.url = front.URL
	for _, page := range []string{"queue", "periodic", "workers", "store"} {
		tb.open("/" + page + "?q=thumbnails")
		tb.live()
		open.are(t, "/live/"+page)
		tb.do(chromedp.Evaluate[chromedp.Void](`window.kept = true`))
	}
	tb.back()
	tb.sees(`location.pathname === "/workers" && window.kept`)
	tb.live()
	open.are(t, "/live/workers")
}

// A button does what it says also when another operator has just changed what that is.
func TestChangedButton(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	q := s.work("emails")
	defer q.Close()
	tb := newTab(t, s)
	tb.open("/queue?q=emails")
	tb.live()
	for i := range 6 {
		verb, change := "Resume", q.Pause
		if i%2 == 1 {
			verb, change = "Pause", q.Resume
		}
		must(t, change(t.Context()))
		// Pressed in the moment in which it is shown, which takes a script.
		pressed := evaluate[bool](tb, fmt.Sprintf(`new Promise(r => {
			const find = () => [...document.querySelectorAll("main a.button")].find(e => e.innerText.trim() === %q);
			const look = () => { const e = find(); if (e) { e.click(); watch.disconnect(); r(true); } };
			const watch = new MutationObserver(look);
			watch.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
			look();
		})`, verb))
		if !pressed {
			t.Fatal("not pressed")
		}
		tb.sees(fmt.Sprintf(`document.querySelector("#dialog[open] h1")?.innerText === "%s emails"`, verb))
		tb.press("Leave it")
		tb.sees(`!document.querySelector("#dialog").open`)
	}
}
