package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
)

//go:embed templates/*.html
var templateFiles embed.FS

// loadTime bounds how long it takes to gather what a page shows.
const loadTime = 10 * time.Second

// page is one of the pages. The templates of its name are in the file of its name: "main" is the page,
// "head" what stays above it while something is searched for, the others are its sections.
type page struct {
	name     string
	sections []string // that are live, beside "notice"
	load     func(*visit) (any, error)
	points   bool // its charts get points
}

// visit is one request for a page, or one second of a live one.
type visit struct {
	context.Context
	caller  *access.Caller
	query   url.Values
	now     *watch.Snapshot
	address string // of the server, as the browser knows it
	live    bool   // only the live sections are wanted
	title   string
}

func (v *visit) may(s access.Scope, queue string) bool { return v.caller.May(s, queue) == nil }

// content is what templates get.
type content struct {
	Title   string
	Page    string
	Self    string // path and query
	Live    string // where its live sections come from, or ""
	Theme   string
	Caller  string
	Rights  string
	SignOut bool
	Version string
	Stale   *problem // the store could not be read
	Notice  *notice
	Data    any
}

// notice is what has come of what the caller has done.
type notice struct {
	queues.Task
	Undo string // where it is undone, or ""
	Stop string // where it is stopped, or ""
}

var templates = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	base := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+f.Name()))
	}
	return all
})

func (d *Dashboard) visitOf(ctx context.Context, r *http.Request) *visit {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return &visit{Context: ctx, caller: access.From(r.Context()), query: r.URL.Query(), now: d.History.Latest(), address: scheme + r.Host}
}

func (d *Dashboard) servePage(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), loadTime)
		defer cancel()
		v := d.visitOf(ctx, r)
		data, err := p.load(v)
		if err != nil {
			d.serveProblem(w, r, err)
			return
		}
		c := d.content(p, v, data)
		c.Self, c.Theme = r.URL.RequestURI(), themeOf(r)
		if len(p.sections) > 0 || c.Notice != nil {
			c.Live = "./live/" + p.name + "?" + v.query.Encode()
		}
		d.write(w, r, http.StatusOK, p.name, c)
	})
}

func (d *Dashboard) content(p *page, v *visit, data any) *content {
	return &content{
		Title: v.title, Page: p.name, Caller: v.caller.Name, Rights: v.caller.Rights(), SignOut: d.SignIn,
		Version: version.Read().String(), Stale: staleness(v.now), Notice: d.notice(v), Data: data,
	}
}

// staleness says why a snapshot is an old one, if it is.
func staleness(now *watch.Snapshot) *problem {
	if now.Err == nil {
		return nil
	}
	p := *problemOf(now.Err)
	p.Since = now.Time
	return &p
}

// notice returns what has come of the task that the query names, if the caller may know.
func (d *Dashboard) notice(v *visit) *notice {
	status, err := d.Tasks.Get(v.query.Get("did"))
	if err != nil || !v.may(access.Watch, status.Queue) {
		return nil
	}
	n := &notice{Task: status}
	if status.State == queues.TaskRunning && v.may(access.Admin, status.Queue) {
		n.Stop = link("/do", "do", "stop", "id", status.ID)
	}
	if status.State == queues.TaskDone && status.Undo != "" && v.may(access.Admin, status.Queue) {
		n.Undo = link("/do", "do", status.Undo, "q", status.Queue)
	}
	return n
}

// write answers with a page, compressed if the browser can read it so.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, name string, c *content) {
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, "layout", c); err != nil {
		d.Logger.Error("a page could not be made", "page", name, "err", err)
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = b.WriteTo(w) // a client that has gone does not matter, here and below
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	_, _ = b.WriteTo(z)
	_ = z.Close()
}

func (d *Dashboard) serveProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		d.Logger.Error("a page failed", "path", r.URL.Path, "err", err)
	}
	v := d.visitOf(r.Context(), r)
	v.title, v.query = p.Title, nil
	c := d.content(&page{name: "problem"}, v, p)
	c.Self, c.Theme = r.URL.RequestURI(), themeOf(r)
	if r.Method != http.MethodGet {
		c.Self = "/"
	}
	d.write(w, r, p.Status, "problem", c)
}

// link returns the address of a path with a query of names and values, without those that are empty. It is relative, as all
// addresses in pages are, so that the server can be mounted under any path. All pages are on one level.
func link(path string, pairs ...any) string {
	path = "." + path
	q := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// local returns a path of this server, or the overview for any other address.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

// withQuery returns an address with a parameter set.
func withQuery(to, name, value string) string {
	u, err := url.Parse(to)
	if err != nil {
		return "/"
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
