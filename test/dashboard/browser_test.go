package dashboard

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var (
	chromium = flag.String("chromium", "/usr/bin/chromium", "the browser")
	shots    = flag.String("shots", "", "folder where screenshots are kept")
	pictures = flag.String("pictures", "", "folder of the pictures of docs/dashboard.md, which are made anew: ../../docs/pictures")
	charted  = flag.Duration("charted", 0, "how long something happens before charts are pictured")
	axePath  = flag.String("axe", "", "axe.min.js of the npm package axe-core; without it accessibility is not checked")
)

// patience is how long something may take to be seen. A test that passes does not wait so long, but a busy machine may take 20 s.
const patience = 2 * time.Minute

var browser context.Context // of which all tabs are

func TestMain(m *testing.M) {
	flag.Parse()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(*chromium), chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var leave context.CancelFunc
	browser, leave = chromedp.NewContext(allocator)
	code := 1
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "the browser does not start:", err)
	} else {
		code = m.Run()
	}
	leave()
	stop()
	os.Exit(code)
}

// tab is a tab of the browser.
type tab struct {
	t   testing.TB
	ctx context.Context
	url string
}

// newTab opens a tab with cookies of its own. What goes wrong in it is an error of the test: in scripts, or against the
// Content-Security-Policy.
func newTab(t testing.TB, s *site) *tab {
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	tb := &tab{t, ctx, s.url}
	must(t, chromedp.Do(ctx))
	listening, stop := context.WithCancel(ctx)
	messages := chromedp.Console(listening)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil {
				return
			}
			if isBad(m) {
				t.Errorf("the browser says: %s %s", m.Text, m.URL)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-read
		cancel()
	})
	tb.do(chromedp.EmulateViewport(1280, 800))
	return tb
}

// noAnswer is what scripts say of requests that were given up, or refused, or had no answer while a server starts again.
var noAnswer = regexp.MustCompile(`sseError|htmx:sendError|htmx:sendAbort|htmx:afterRequest|Response Status Error|Failed to load resource`)

// isBad tells whether a message is an error.
func isBad(m chromedp.ConsoleMessage) bool {
	bad := m.Type == chromedp.ConsoleError || m.IsException()
	return bad && m.Source != "network" && !noAnswer.MatchString(m.Text)
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatalf("%v; %s", err, tb.page())
	}
}

// page is what the tab shows, for errors.
func (tb *tab) page() string {
	html, _ := chromedp.Run(tb.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 3000)`))
	return html
}

// open shows a page.
func (tb *tab) open(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(tb.url+path), chromedp.WaitReady("main"))
}

// back goes to the page before. It does not wait: the browser may have kept that, and loads it not, so that chromedp's NavigateBack
// may wait for ever.
func (tb *tab) back() {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
}

// sees waits until an expression is true. It asks again and again, as a page may be left meanwhile.
func (tb *tab) sees(expression string) {
	tb.t.Helper()
	ticks := time.NewTicker(30 * time.Millisecond)
	defer ticks.Stop()
	late := time.After(patience)
	for {
		ok, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if ok && err == nil {
			return
		}
		select {
		case <-ticks.C:
		case <-late:
			tb.t.Fatalf("not seen (%v): %s, on the page %s", err, expression, tb.page())
		}
	}
}

// reads waits until the page shows a text.
func (tb *tab) reads(text string) {
	tb.t.Helper()
	tb.sees(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// live waits until the page gets news.
func (tb *tab) live() {
	tb.t.Helper()
	tb.sees(`document.querySelector("#connection").classList.contains("live")`)
}

// press clicks on a button or link with a text: in the dialog, if one is open.
func (tb *tab) press(text string) {
	tb.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("a, button")].find(e => e.innerText.trim() === %q && e.checkVisibility())`, text)
	tb.sees(find)
	tb.do(chromedp.Evaluate[chromedp.Void](find + ".click()"))
}

// types writes into a field.
func (tb *tab) types(selector, text string) {
	tb.t.Helper()
	tb.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

func evaluate[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.t.Fatalf("%s: %v; %s", expression, err, tb.page())
	}
	return v
}

// looks are how pages are pictured.
var looks = []struct {
	name          string
	width, height int64
	dark          bool
}{{"light", 1280, 800, false}, {"dark", 1280, 800, true}, {"phone", 360, 740, false}, {"4k", 3840, 2160, false}}

// picture shows the page in all looks, has each checked, and keeps a screenshot if there is a folder for them.
func (tb *tab) picture(name string, check func(look string)) {
	tb.t.Helper()
	for _, look := range looks {
		tb.look(look.width, look.height, look.dark)
		if check != nil {
			check(look.name)
		}
		tb.shoot(*shots, name+"-"+look.name)
		if documented, ok := documented[name+"-"+look.name]; ok {
			tb.shoot(*pictures, documented)
		}
	}
	tb.look(1280, 800, false)
}

// documented are the pictures that documents have.
var documented = map[string]string{"overview-light": "dashboard", "charts-dark": "dashboard-queue", "job-dark": "dashboard-job"}

// shoot keeps a screenshot in a folder, if there is one.
func (tb *tab) shoot(folder, name string) {
	tb.t.Helper()
	if folder == "" {
		return
	}
	must(tb.t, os.MkdirAll(folder, 0o755))
	png, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
	must(tb.t, err)
	must(tb.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

// look gives the tab a size and a scheme of colours, and waits until it is drawn so.
func (tb *tab) look(width, height int64, dark bool) {
	tb.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	must(tb.t, err)
	tb.do(chromedp.EmulateViewport(width, height))
	evaluate[bool](tb, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
}
