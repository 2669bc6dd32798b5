package access

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// login returns the cookie of a new session, and its csrf token.
func login(t *testing.T, g *Guard, secret string) (cookie *http.Cookie, csrf string) {
	t.Helper()
	w := httptest.NewRecorder()
	testkit.NoError(t, g.Login(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/login", nil), secret))
	cookie = w.Result().Cookies()[0]
	return cookie, request{cookie: cookie.Value}.send(t, g).Header().Get("CSRF")
}

func TestSession(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens})
	cookie, csrf := login(t, g, secrets["ops"])
	testkit.Equal(t, "http only", cookie.HttpOnly, true)
	testkit.Equal(t, "same site", cookie.SameSite, http.SameSiteStrictMode)
	testkit.Equal(t, "secure without TLS", cookie.Secure, false)
	session := request{cookie: cookie.Value}
	session.admitted(t, g, "ops")

	session.method = http.MethodPost
	session.refused(t, g, http.StatusForbidden, "csrf")
	_, otherCSRF := login(t, g, secrets["ops"])
	for _, wrong := range []string{"", "x", otherCSRF, strings.ToLower(csrf)} {
		session.form = url.Values{"csrf": {wrong}}
		session.refused(t, g, http.StatusForbidden, "csrf")
	}
	session.form = url.Values{"csrf": {csrf}}
	session.admitted(t, g, "ops")
	session.form, session.header = nil, map[string]string{"X-CSRF-Token": csrf}
	session.admitted(t, g, "ops")
	session.target, session.header = "/?csrf="+csrf, nil // which logs and histories have
	session.refused(t, g, http.StatusForbidden, "csrf")

	request{cookie: csrf}.refused(t, g, http.StatusUnauthorized, "log in again")
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
		cookie, _ := login(t, g, secrets["ops"])
		<-time.After(sessionTime - time.Second)
		request{cookie: cookie.Value}.admitted(t, g, "ops")
		<-time.After(time.Second)
		request{cookie: cookie.Value}.refused(t, g, http.StatusUnauthorized)

		first, _ := login(t, g, secrets["shop"])
		for range maxSessions {
			<-time.After(time.Second)
			cookie, _ = login(t, g, secrets["ops"])
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

// A form of a browser whose session has ended leads to where one logs in, and from there to what it has asked for; one of another
// session, as that of a tab of before, to that at once. In neither case is anything done.
func TestFormsOfOldSessions(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens, Login: "/login"})
	cookie, _ := login(t, g, secrets["ops"])
	form := request{method: http.MethodPost, target: "/do?do=purge&q=a%0Ab", form: url.Values{"csrf": {"old"}}, header: map[string]string{"Accept": "text/html,*/*"}}
	for _, c := range []struct{ cookie, target, to string }{
		{"ended", form.target, "/login?next=%2Fdo%3Fdo%3Dpurge%26q%3Da%250Ab"}, {"ended", "/theme", "/login?next=%2F"}, {cookie.Value, form.target, form.target}, {cookie.Value, "/theme", "/"},
	} {
		form.cookie, form.target = c.cookie, c.target
		w := form.send(t, g)
		testkit.Equal(t, "status", w.Code, http.StatusSeeOther)
		testkit.Equal(t, "location", w.Header().Get("Location"), "."+c.to)
	}
	form.header = nil
	form.refused(t, g, http.StatusForbidden, "csrf")
}
