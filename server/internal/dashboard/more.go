package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

func (p *jobPage) setMeta() {
	for name, value := range p.Job.Meta {
		p.Meta = append(p.Meta, pair{name, value})
		if name == "traceparent" { // W3C Trace Context: version, trace, span, flags
			if parts := strings.Split(value, "-"); len(parts) == 4 {
				p.Trace = parts[1]
			}
		}
	}
	sort.Slice(p.Meta, func(i, k int) bool { return p.Meta[i].Name < p.Meta[k].Name })
}

// maxLeases is how many leases are shown of all queues.
const maxLeases = 2000

// workQueues returns the work queues that a caller may do something with.
func (d *Dashboard) workQueues(v *visit, s access.Scope) (all []*watch.State) {
	for _, q := range v.now.Queues {
		if isWork(q) && v.may(s, q.Name) {
			all = append(all, q)
		}
	}
	return all
}

func (d *Dashboard) withWork(ctx context.Context, queue string, f func(*queues.Work) error) error {
	q, release, err := d.Queues.Work(ctx, queue, queues.Existing)
	if err != nil {
		return err
	}
	defer release()
	return f(q)
}

// gone tells whether an error is that a queue is no longer what it was in the snapshot.
func gone(err error) bool { return errors.Is(err, conq.ErrNoQueue) || errors.Is(err, conq.ErrKind) }

type workersPage struct {
	Workers []*worker
	More    bool
	Any     bool
}

// worker is a holder of leases of one queue.
type worker struct {
	Holder, Queue string
	MayAdmin      bool
	Jobs          []*work.Info[[]byte]
	First         time.Time // when the first of its leases is over
	Since         time.Time // since when it has held the first of its jobs; zero if this server has not handed them out
}

func (d *Dashboard) workers(v *visit) (any, error) {
	v.title = "Workers"
	p := new(workersPage)
	left := maxLeases
	for _, s := range d.workQueues(v, access.Consume) {
		p.Any = true
		if s.Leased == 0 {
			continue
		}
		err := d.withWork(v, s.Name, func(q *queues.Work) error {
			jobs, next, err := q.Page(v, work.Filter{State: work.Leased}, nil, left)
			p.Workers = append(p.Workers, d.workersOf(s.Name, v.may(access.Admin, s.Name), jobs)...)
			left -= len(jobs)
			p.More = p.More || next != nil
			return err
		})
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("leases of %q: %w", s.Name, err)
		}
		if left <= 0 {
			p.More = true
			break
		}
	}
	return p, nil
}

// workersOf sorts leased jobs by their holders.
func (d *Dashboard) workersOf(queue string, mayAdmin bool, jobs []*work.Info[[]byte]) (all []*worker) {
	by, held := make(map[string]*worker), d.History.Queue(queue)
	for _, j := range jobs {
		w := by[j.Holder]
		if w == nil {
			w = &worker{Holder: j.Holder, Queue: queue, MayAdmin: mayAdmin, First: j.Time}
			by[j.Holder] = w
			all = append(all, w)
		}
		w.Jobs = append(w.Jobs, j)
		if since, known := held.Held(int64(j.ID)); known && (w.Since.IsZero() || since.Before(w.Since)) {
			w.Since = since
		}
	}
	slices.SortFunc(all, func(a, b *worker) int { return cmp.Compare(a.Holder, b.Holder) })
	return all
}

type storePage struct {
	watch.Store
	Engine         string
	Limits         kv.Limits
	Queues         int
	Err            error
	Version        string
	MayAdmin       bool
	Tasks          []queues.Task
	Transactions   int64
	Conflicts      int64
	Up             time.Duration
	PID            int
	Go             string
	FIFO, Priority int
	Work           int
}

func (d *Dashboard) store(v *visit) (any, error) {
	v.title = "Store"
	p := &storePage{
		Store: v.now.Store, Engine: engineOf(d.Queues.DB()), Limits: d.Queues.DB().Limits(), Queues: len(v.now.Queues),
		Err: v.now.Err, Version: version.Read().String(), MayAdmin: v.may(access.Admin, ""),
		Up: time.Since(began), PID: os.Getpid(), Go: runtime.Version(),
	}
	p.Transactions, p.Conflicts = d.Transactions()
	for _, q := range v.now.Queues {
		switch q.Kind {
		case conq.KindQueue:
			p.FIFO++
		case conq.KindPriorityQueue:
			p.Priority++
		default:
			p.Work++
		}
	}
	for _, t := range d.Tasks.All() {
		if v.may(access.Watch, t.Queue) {
			p.Tasks = append(p.Tasks, t)
		}
	}
	return p, nil
}

// began is when this process did.
var began = time.Now()

// LargestItem is how large an item can be, in bytes.
func (p *storePage) LargestItem() int { return p.Limits.Transaction / 2 }

// engineOf names the engine of a store by the package that it is of.
func engineOf(db kv.DB) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", db), "*"), ".")
	return name
}

func (d *Dashboard) task(v *visit) (any, error) {
	status, err := d.Tasks.Get(v.query.Get("did"))
	if err == nil {
		err = v.caller.May(access.Watch, status.Queue)
	}
	v.title = "Task"
	return &status, err
}

// themes are how pages can look. Without one the browser says.
var themes = []string{"light", "dark"}

func themeOf(r *http.Request) string {
	if c, err := r.Cookie("theme"); err == nil && slices.Contains(themes, c.Value) {
		return c.Value
	}
	return ""
}

func (d *Dashboard) setTheme(w http.ResponseWriter, r *http.Request) {
	c := &http.Cookie{Name: "theme", Path: "/", MaxAge: 10 * 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}
	if theme := r.PostFormValue("theme"); slices.Contains(themes, theme) {
		c.Value = theme
	} else {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
	access.Redirect(w, r, local(r.PostFormValue("from")))
}
