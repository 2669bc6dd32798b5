package dashboard

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
)

// TestSettingsForm: what is typed wrong is named with its field, and what is allowed, and stays in the form; a change of another is
// not undone.
func TestSettingsForm(t *testing.T) { synctest.Test(t, testSettingsForm) }

func testSettingsForm(t *testing.T) {
	s := newSite(t)
	s.fill()
	set := func(version string, typed ...string) url.Values {
		form := url.Values{"do": {"set"}, "q": {"emails"}, "version": {version}}
		for i := 0; i < len(typed); i += 2 {
			form.Set(typed[i], typed[i+1])
		}
		return form
	}
	for field, c := range map[string][2]string{
		"lease": {"soon", "Lease: &#34;soon&#34; is no duration"}, "keep": {"1y", "Keep:"}, "timeout": {"x", "Timeout:"}, "tries": {"many", "Most attempts: &#34;many&#34; is no integer"},
		"keylimit": {"1.5", "Key limit:"}, "concurrency": {"x", "Concurrency:"}, "backoff": {"never", "Backoff:"}, "rate": {"fast", "Rate:"},
		"keyrate": {"1/", "Key rate:"}, "order": {"any", "Order:"}, "held": {"maybe", "Unique while dead:"},
	} {
		form := set("0", field, c[0])
		page := s.read(s.request(http.MethodPost, "/do", form), field, http.StatusUnprocessableEntity)
		has(t, page, c[1])
		if field != "order" && field != "held" { // of which one is chosen
			has(t, page, `name="`+field+`" value="`+c[0]+`"`)
		}
	}
	testkit.Equal(t, "state", string(s.do(set("0", "rate", "5/s", "timeout", "1m")).State), "done")
	has(t, s.get("/do?do=set&q=emails", 200), `name="rate" value="5/1s"`, `name="timeout" value="1m0s"`, `name="version" value="1"`)
	testkit.Equal(t, "state", string(s.do(set("1", "rate", "none", "timeout", "none", "keep", "none", "concurrency", "none", "order", "relaxed", "held", "yes")).State), "done")
	page := s.get("/do?do=set&q=emails", 200)
	has(t, page, `<option selected>relaxed</option>`, `<option selected>yes</option>`)
	for _, name := range []string{"rate", "timeout", "keep", "concurrency"} {
		has(t, page, `name="`+name+`" value="none"`)
	}
	page = s.read(s.request(http.MethodPost, "/do", set("0", "rate", "6/s")), "changed", http.StatusUnprocessableEntity)
	has(t, page, "changed meanwhile: open the form again")
}
