package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/conq-go/conq/server"
)

// The form of a queue's settings names what was typed wrong, keeps the rest, fits a narrow window, and does not undo what another has
// changed meanwhile.
func TestSettingsForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{})
	s.fill()
	one, other := newTab(t, s), newTab(t, s)
	for _, tb := range []*tab{one, other} {
		tb.do(chromedp.EmulateViewport(360, 740))
		tb.open("/do?do=set&q=emails")
		tb.fits("the form")
	}
	value := func(tb *tab, name, text string) {
		t.Helper()
		tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=` + name + `]").value = "` + text + `"`))
	}
	value(one, "rate", "5/s")
	value(one, "lease", "soon")
	one.press("Set")
	one.reads(`Lease: "soon" is no duration`)
	one.fits("the form with an error")
	one.sees(`document.querySelector("[name=rate]").value === "5/s"`)
	value(one, "lease", "1m")
	one.press("Set")
	one.reads("All workers work by the new settings.")

	value(other, "rate", "6/s")
	other.press("Set")
	other.reads("changed meanwhile: open the form again")
	one.open("/do?do=set&q=emails")
	one.sees(`document.querySelector("[name=rate]").value === "5/1s"`)
	one.sees(`document.querySelector("[name=lease]").value === "1m0s"`)
	one.picture("settings", nil)
}
