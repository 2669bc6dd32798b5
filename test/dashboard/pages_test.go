package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/conq-go/conq/server"
)

// pages are all of them, and what they show when they are there.
var pages = []struct{ name, path, shows string }{
	{"overview", "/", "thumbnails"},
	{"queue-work", "/queue?q=emails", "First ready jobs"},
	{"queue-fifo", "/queue?q=orders", "First items"},
	{"queue-priority", "/queue?q=alerts", "First items"},
	{"jobs-dead", "/jobs?q=emails&state=dead", "timeout"},
	{"jobs-all", "/jobs?q=emails", "scheduled"},
	{"job", "/job?q=emails&id=22", "Attempts that failed"},
	{"periodic", "/periodic", "digest"},
	{"workers", "/workers", "End leases"},
	{"store", "/store", "embedded"},
	{"confirm", "/do?do=delete&q=emails&state=dead&text=timeout", "Delete"},
	{"add", "/do?do=add&q=emails", "Priority"},
	{"problem", "/queue?q=nothing", "No such queue"},
}

// Each page is there, accessible, and as wide as its window, in all looks. Nothing in it is against its policy.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	s.busy()
	tb, html := newTab(t, s), newServed(t)
	for _, p := range pages {
		tb.open(p.path)
		tb.reads(p.shows)
		html.add(tb)
		tb.picture(p.name, func(look string) {
			tb.fits(p.path + " " + look)
			tb.accessible(p.path + " " + look)
		})
	}
	tb.open("/")
	tb.do(chromedp.KeyEvent("?"))
	tb.sees(`document.querySelector("#keys").open`)
	tb.accessible("keys")
	tb.open("/queue?q=thumbnails")
	tb.press("Resume")
	tb.sees(`document.querySelector("#dialog").open`)
	tb.picture("dialog", nil)
	tb.accessible("dialog")
	html.validate(t)
}

// Where there is nothing yet, pages say what to do next.
func TestEmpty(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	must(t, s.work("emails").Close())
	tb, html := newTab(t, s), newServed(t)
	for _, p := range []struct{ name, path, shows string }{
		{"periodic", "/periodic", "This makes one"},
		{"workers", "/workers", "One begins so"},
		{"store", "/store", "Nothing, since this server began"},
		{"queue", "/queue?q=emails", "No job is ready"},
		{"jobs", "/jobs?q=emails", "The queue has no jobs"},
		{"found", "/?find=nothing", "Show all 1"},
	} {
		tb.open(p.path)
		tb.reads(p.shows)
		html.add(tb)
		tb.picture("empty-"+p.name, func(look string) {
			tb.fits(p.path + " " + look)
			tb.accessible(p.path + " " + look)
		})
	}
	none := newSite(t, server.Options{})
	tb = newTab(t, none)
	tb.open("/")
	tb.reads("There is no queue yet")
	html.add(tb)
	tb.picture("empty-overview", nil)
	html.validate(t)
}

// fits checks that nothing makes the page wider than its window.
func (tb *tab) fits(what string) {
	tb.t.Helper()
	if wide := evaluate[int](tb, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		tb.t.Errorf("%s is %d pixels wider than its window", what, wide)
	}
}

// accessible has axe check the page.
func (tb *tab) accessible(what string) {
	tb.t.Helper()
	if *axePath == "" {
		return
	}
	if !evaluate[bool](tb, "Boolean(window.axe)") {
		source, err := os.ReadFile(*axePath)
		must(tb.t, err)
		tb.do(chromedp.Evaluate[chromedp.Void](string(source)))
	}
	found := evaluate[string](tb, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.passes.length < 5 ? [["nothing was checked"]] : r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary)])))`)
	var violations [][]any
	must(tb.t, json.Unmarshal([]byte(found), &violations))
	for _, v := range violations {
		tb.t.Errorf("%s: %v", what, fmt.Sprint(v...))
	}
}

// hostilePaths are of the pages that show what fillHostile makes.
func hostilePaths() []string {
	paths := []string{"/", "/queue?q=evil+items", "/periodic", "/workers", "/store"}
	for _, name := range hostileNames {
		for _, path := range []string{"/queue?q=%s", "/jobs?q=%s", "/jobs?q=%s&state=dead", "/do?do=purge&q=%s"} {
			paths = append(paths, fmt.Sprintf(path, escape(name)))
		}
	}
	for id := range len(hostile) + 1 {
		paths = append(paths, fmt.Sprint("/job?q=evil&id=", id+1))
	}
	for _, payload := range hostile {
		text := escape(strings.ToValidUTF8(string(payload[:min(len(payload), 500)]), "?"))
		paths = append(paths, "/jobs?q=evil&text="+text, "/do?do=retry&q=evil&state=dead&key="+text, "/?find="+text)
	}
	return append(paths, "/jobs?q=evil&holder="+escape(hostileHolder), "/do?do=end-leases&q=evil&holder="+escape(hostileHolder),
		"/do?do=runnow&q=evil&name="+escape(hostilePeriodic), "/do?do=remove&q=evil&name="+escape(hostilePeriodic))
}

// Others' text is only text, wherever it is shown.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fillHostile()
	tb, html := newTab(t, s), newServed(t)
	tb.open("/")
	tb.reads("evil items")
	for _, path := range hostilePaths() {
		tb.open(path)
		if bad := evaluate[bool](tb, `document.title === "owned" || Boolean(document.querySelector("#owned, main script, main iframe, main img, main [onmouseover]"))`); bad {
			t.Errorf("%s: a payload was more than text", path)
		}
		tb.fits(path)
		html.add(tb)
	}
	html.validate(t)
	tb.open("/queue?q=evil+items")
	tb.live()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true)`))
	tb.fits("open payloads")
	tb.picture("hostile", nil)
	tb.accessible("hostile")
}

// Without scripts pages show all, and forms and links do all.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	tb := newTab(t, s)
	tb.scripts(false)
	tb.open("/")
	tb.scripts(true) // of the test's own
	tb.reads("emails")
	tb.scripts(false)
	tb.do(chromedp.Navigate(s.url+"/do?do=pause&q=emails"), chromedp.Click(chromedp.CSS("#confirm button")), chromedp.WaitVisible(chromedp.CSS(".notice.done")))
	tb.scripts(true)
	tb.reads("Pause emails: done")
	tb.reads("paused")
}
