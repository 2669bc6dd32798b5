// Package dashboard is the pages on which operators see the queues of a store, and act on them.
//
// Pages are made on the server, by html/template, and work without scripts: links and forms. With them a page
// stays as it would be if it were loaded again each second. A [view] is a page with its query, as one kind of caller sees it;
// however many tabs show it, its live sections are made once for each snapshot of package history, and sent to those
// that do not have them yet.
//
// Payloads, names and errors are others': what is shown of them has no control characters, and no template
// has them as anything but text. The Content-Security-Policy allows no script and no style but those of assets.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

// Options are what the dashboard needs of its server. All are needed.
type Options struct {
	Queues   *queues.Set
	History  *watch.History
	Tasks    *queues.Tasks
	Guard    *access.Guard
	Logger   *slog.Logger
	Stopping context.Context // ends when the server stops: pages that are live end then
	SignIn   bool            // tokens are needed

	// Transactions tells how many of this server have committed, and how often one had to run again.
	Transactions func() (n, conflicts int64)
}

// Dashboard serves the pages.
type Dashboard struct {
	Options
	pages     map[string]*page
	views     views
	periodics periodics
	streams   atomic.Int64
	counts    queues.Tasks // of jobs that match, before something is done to them
}

// Public are the paths that need no token.
func Public() []string { return []string{signInPath, "/assets/"} }

// SignInPath is where a browser is sent that has no session.
const (
	SignInPath = signInPath
	signInPath = "/sign-in"
)

// Register adds the pages to a mux.
func Register(mux *http.ServeMux, o Options) { register(mux, o) }

func register(mux *http.ServeMux, o Options) *Dashboard {
	d := &Dashboard{Options: o}
	context.AfterFunc(o.Stopping, d.counts.Close)
	d.pages = map[string]*page{
		"/{$}":      {name: "overview", sections: []string{"totals", "rows"}, load: d.overview},
		"/queue":    {name: "queue", sections: []string{"state", "figures", "items"}, load: d.queue, points: true},
		"/jobs":     {name: "jobs", sections: []string{"tabs", "list"}, load: d.jobs},
		"/job":      {name: "job", sections: []string{"job", "content", "failures"}, load: d.job},
		"/periodic": {name: "periodic", sections: []string{"periodic"}, load: d.periodic},
		"/workers":  {name: "workers", sections: []string{"workers"}, load: d.workers},
		"/store":    {name: "store", sections: []string{"store", "activity"}, load: d.store},
		"/task":     {name: "task", load: d.task},
		"/do":       {name: "confirm", sections: []string{"count"}, load: d.confirm},
	}
	for path, p := range d.pages {
		mux.Handle("GET "+path, d.secured(d.servePage(p)))
		mux.Handle("GET /live/"+p.name, d.secured(d.serveLive(p)))
	}
	mux.Handle("POST /do", d.secured(http.HandlerFunc(d.perform)))
	mux.Handle("GET /chart", d.secured(http.HandlerFunc(d.serveChart)))
	mux.Handle("GET /payload", d.secured(http.HandlerFunc(d.servePayload)))
	mux.Handle("GET "+signInPath, d.secured(http.HandlerFunc(d.showSignIn)))
	mux.Handle("POST "+signInPath, d.secured(http.HandlerFunc(d.signIn)))
	mux.Handle("POST /sign-out", d.secured(http.HandlerFunc(d.signOut)))
	mux.Handle("POST /theme", d.secured(http.HandlerFunc(d.setTheme)))
	mux.Handle("GET /assets/", d.secured(http.HandlerFunc(serveAsset)))
	return d
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secured sets what a browser may do with an answer.
func (d *Dashboard) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// problem is what is shown in place of a page.
type problem struct {
	Status int
	Title  string
	Detail string
	Advice string    // what to do next
	Since  time.Time // of what is shown beside it; zero if that is of now, or nothing
}

func (p *problem) Error() string { return p.Detail }

func fail(status int, title, detail, advice string) *problem {
	return &problem{Status: status, Title: title, Detail: detail, Advice: advice}
}

// problems says what errors of the library are on a page. The first that matches counts.
var problems = []struct {
	err    error
	status int
	title  string
	advice string
}{
	{access.ErrForbidden, http.StatusForbidden, "Not allowed", "Sign in with another token, or ask whoever has made this one."},
	{conq.ErrNoQueue, http.StatusNotFound, "No such queue", "It may never have been, or its name is written otherwise: look for it on the overview."},
	{work.ErrNotFound, http.StatusNotFound, "No such job", "It is acknowledged or deleted, or has never been. Ids never come again."},
	{queues.ErrNoTask, http.StatusNotFound, "No such task", "See the last ones on the page of the store."},
	{queues.ErrTooManyTasks, http.StatusTooManyRequests, "Too much at once", "See what runs on the page of the store."},
	{conq.ErrKind, http.StatusConflict, "Another kind of queue", ""},
	{conq.ErrName, http.StatusUnprocessableEntity, "Not a name", ""},
	{work.ErrState, http.StatusConflict, "Not in this state", "Load the page again to see how it is now."},
	{kv.ErrInvalid, http.StatusUnprocessableEntity, "Not possible", ""},
	{kv.ErrTooLarge, http.StatusRequestEntityTooLarge, "Too large", ""},
	{kv.ErrClosed, http.StatusServiceUnavailable, "The store is closed", "The server is stopping, or its disk has failed: see its log."},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "It took too long", "Try again; a cluster may be unreachable."},
}

func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return fail(known.status, known.title, err.Error(), known.advice)
		}
	}
	return fail(http.StatusInternalServerError, "That failed", err.Error(), "The server's log may say more.")
}
