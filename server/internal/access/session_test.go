package access

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// login returns the cookie of a new session.
func login(t *testing.T, g *Guard, secret string) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	testkit.NoError(t, g.Login(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/login", nil), secret))
	return w.Result().Cookies()[0]
}

func TestSession(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens})
	cookie := login(t, g, secrets["ops"])
	testkit.Equal(t, "http only", cookie.HttpOnly, true)
	testkit.Equal(t, "same site", cookie.SameSite, http.SameSiteStrictMode)
	testkit.Equal(t, "secure without TLS", cookie.Secure, false)
	session := request{cookie: cookie.Value}
	session.admitted(t, g, "ops")

	session.method = http.MethodPost
	session.form = url.Values{"x": {"y"}}
	for _, own := range []map[string]string{{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://localhost:7711"}} {
		session.header = own
		session.admitted(t, g, "ops")
	}
	for _, other := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}} {
		session.header = other
		session.refused(t, g, http.StatusForbidden, "another site")
	}

	request{cookie: "guess"}.refused(t, g, http.StatusUnauthorized, "log in again")
	fails(t, g.Login(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), "conq_guess"), "no such token")

	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/logout", nil)
	r.AddCookie(cookie)
	g.Logout(w, r)
	testkit.Equal(t, "cookie", w.Result().Cookies()[0].MaxAge, -1)
	request{cookie: cookie.Value}.refused(t, g, http.StatusUnauthorized)
}

func TestSessionTLS(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	w := httptest.NewRecorder()
	testkit.NoError(t, NewGuard(Options{Tokens: tokens}).Login(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://queues.test/login", nil), secrets["ops"]))
	c := w.Result().Cookies()[0]
	testkit.Equal(t, "name", c.Name, "__Host-conq")
	testkit.Equal(t, "secure", c.Secure, true)
}

// A session ends after its time, and with its token; there are at most so many.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, secrets := newTokens(t, shop)
		g := NewGuard(Options{Tokens: tokens})
		cookie := login(t, g, secrets["ops"])
		<-time.After(sessionTime - time.Second)
		request{cookie: cookie.Value}.admitted(t, g, "ops")
		<-time.After(time.Second)
		request{cookie: cookie.Value}.refused(t, g, http.StatusUnauthorized)

		first := login(t, g, secrets["shop"])
		for range maxSessions {
			<-time.After(time.Second)
			cookie = login(t, g, secrets["ops"])
		}
		testkit.Equal(t, "sessions", len(g.sessions.all), maxSessions)
		request{cookie: first.Value}.refused(t, g, http.StatusUnauthorized)
		request{cookie: cookie.Value}.admitted(t, g, "ops")

		testkit.NoError(t, os.Remove(tokens.path))
		addToken(t, tokens.path, "ops", shop["ops"]...)
		testkit.NoError(t, tokens.Reload())
		request{cookie: cookie.Value}.refused(t, g, http.StatusUnauthorized)
	})
}

// A form of a browser whose session has ended leads to where one logs in, and from there to what it has asked for.
// Nothing is done.
func TestFormsOfOldSessions(t *testing.T) {
	tokens, _ := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens, Login: "/login"})
	form := request{method: http.MethodPost, target: "/do?do=purge&q=a%0Ab", form: url.Values{"x": {"y"}}, header: map[string]string{"Accept": "text/html,*/*"}}
	for _, c := range []struct{ cookie, target, to string }{
		{"ended", form.target, "/login?next=%2Fdo%3Fdo%3Dpurge%26q%3Da%250Ab"}, {"ended", "/theme", "/login?next=%2F"},
	} {
		form.cookie, form.target = c.cookie, c.target
		w := form.send(t, g)
		testkit.Equal(t, "status", w.Code, http.StatusSeeOther)
		testkit.Equal(t, "location", w.Header().Get("Location"), "."+c.to)
	}
	form.header = nil
	form.refused(t, g, http.StatusUnauthorized, "log in again")
}
