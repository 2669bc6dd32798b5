package dashboard

import (
	"net/http"
	"strings"

	"github.com/conq-go/conq/server/internal/access"
)

type signIn struct {
	Next, Err string
	Needed    bool
}

func (d *Dashboard) showSignIn(w http.ResponseWriter, r *http.Request) {
	d.writeSignIn(w, r, http.StatusOK, &signIn{Next: local(r.URL.Query().Get("next"))})
}

func (d *Dashboard) writeSignIn(w http.ResponseWriter, r *http.Request, status int, s *signIn) {
	s.Needed = d.SignIn
	v := d.visitOf(r.Context(), r)
	v.title, v.query = "Sign in", nil
	c := d.content(&page{name: "signin"}, v, s)
	c.Self, c.Theme, c.Stale = signInPath, themeOf(r), nil
	d.write(w, r, status, "signin", c)
}

// signIn begins a session for the holder of a token.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	next := local(r.PostFormValue("next"))
	if err := d.Guard.Login(w, r, strings.TrimSpace(r.PostFormValue("token"))); err != nil {
		d.writeSignIn(w, r, http.StatusUnauthorized, &signIn{Next: next, Err: "This server has no such token."})
		return
	}
	access.Redirect(w, r, next)
}

func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	d.Guard.Logout(w, r)
	access.Redirect(w, r, signInPath)
}
