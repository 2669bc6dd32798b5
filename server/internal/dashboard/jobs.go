package dashboard

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

// Bounds of one page of jobs: a search goes on at the next one.
const (
	jobsPerPage = 50
	searchTime  = 80 * time.Millisecond // after which no further part is read
	searchBytes = 8 << 20               // of payloads that match; the library bounds those that do not
)

type jobsPage struct {
	Queue    *watch.State
	Filter   filter
	Tabs     []choice
	Jobs     []*work.Info[[]byte]
	Next     string
	Stopped  bool // it ends because it took long, or is large, not because there are so many
	Looked   int  // at so many jobs, on this page and those before it
	First    bool
	MayLook  bool
	MayAdmin bool
	Changes  []change
	still    bool // it is not read again
}

// filter is a work.Filter as an address has it.
type filter struct {
	State, Key, Text, Attempts, Age, Holder, Order string
	work.Filter
}

// change is a link to what can be done to all that match.
type change struct {
	Label, Link string
	Danger      bool
}

var ages = []struct {
	name, label string
	d           time.Duration
}{
	{"", "any age", 0}, {"10m", "over 10 minutes", 10 * time.Minute}, {"1h", "over 1 hour", time.Hour},
	{"1d", "over 1 day", 24 * time.Hour}, {"7d", "over 7 days", 7 * 24 * time.Hour}, {"30d", "over 30 days", 30 * 24 * time.Hour},
}

// Ages are the choices of a form.
func (f *filter) Ages() (all []choice) {
	for _, a := range ages {
		all = append(all, choice{Label: a.label, Link: a.name, Now: a.name == f.Age})
	}
	return all
}

// filterOf reads a filter of an address. The error says which part is not as it should be.
func filterOf(q url.Values, now time.Time) (f filter, err error) {
	f = filter{State: q.Get("state"), Key: q.Get("key"), Text: q.Get("text"), Attempts: q.Get("attempts"), Age: q.Get("age"), Holder: q.Get("holder"), Order: q.Get("order")}
	f.Filter = work.Filter{Key: f.Key, Contains: f.Text, Holder: f.Holder}
	if f.State != "" {
		if f.Filter.State, err = work.ParseState(f.State); err != nil {
			return f, badFilter("%v.", err)
		}
	}
	f.Reverse = f.Order == "last" || f.Order == "" && (f.Filter.State == work.Dead || f.Filter.State == work.Done)
	if f.Attempts != "" {
		if f.MinAttempts, err = strconv.Atoi(f.Attempts); err != nil || f.MinAttempts < 0 {
			return f, badFilter("%.40q is no number of attempts: it is from 0 on.", f.Attempts)
		}
	}
	for _, a := range ages {
		if a.name == f.Age {
			if before, err := strconv.ParseInt(q.Get("before"), 10, 64); err == nil && a.d > 0 {
				f.Before = time.Unix(before, 0)
			} else if a.d > 0 {
				f.Before = now.Add(-a.d)
			}
			return f, nil
		}
	}
	return f, badFilter("%.40q is no age: it is 10m, 1h, 1d, 7d or 30d.", f.Age)
}

func badFilter(format string, args ...any) error {
	return fail(http.StatusUnprocessableEntity, "Not a filter", fmt.Sprintf(format, args...), "Go back, and change it.")
}

// pairs are the filter's parts for link.
func (f *filter) pairs() []any {
	return []any{"state", f.State, "key", f.Key, "text", f.Text, "attempts", f.Attempts, "age", f.Age, "holder", f.Holder, "order", f.Order}
}

func (f *filter) link(path, queue string, more ...any) string {
	return link(path, append(append([]any{"q", queue}, f.pairs()...), more...)...)
}

// IsNarrow tells whether it asks for more than a state.
func (f *filter) IsNarrow() bool {
	return f.Key != "" || f.Text != "" || f.MinAttempts > 0 || f.Age != "" || f.Holder != ""
}

// phrase says which jobs, after a number: dead jobs of "emails" that contain "timeout".
func (f *filter) phrase(queue string, n int64) string {
	var b strings.Builder
	if f.State != "" {
		b.WriteString(f.State + " ")
	}
	b.WriteString("jobs")
	if n == 1 {
		b.Reset()
		b.WriteString(strings.TrimSpace(f.State + " job"))
	}
	fmt.Fprintf(&b, " of %s", visible(queue))
	var parts []string
	if f.Text != "" {
		parts = append(parts, "contain “"+visible(f.Text)+"”")
	}
	if f.Key != "" {
		parts = append(parts, "have the key “"+visible(f.Key)+"”")
	}
	if f.Holder != "" {
		parts = append(parts, "were last held by “"+visible(f.Holder)+"”")
	}
	if f.MinAttempts > 0 {
		parts = append(parts, "were tried at least "+plural(int64(f.MinAttempts), "time", "times"))
	}
	if !f.Before.IsZero() {
		parts = append(parts, "were put before "+f.Before.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if len(parts) > 0 {
		b.WriteString(" that " + strings.Join(parts, " and "))
	}
	return b.String()
}

func (d *Dashboard) jobs(v *visit) (any, error) {
	s, err := d.state(v, access.Watch)
	if err != nil {
		return nil, err
	}
	if !isWork(s) {
		return nil, fail(http.StatusConflict, "No jobs", fmt.Sprintf("%s is a %v: it has items, not jobs.", visible(s.Name), s.Kind), "See its items on its own page.")
	}
	v.title = "Jobs of " + visible(s.Name)
	p := &jobsPage{Queue: s, MayLook: v.may(access.Consume, s.Name), MayAdmin: v.may(access.Admin, s.Name)}
	if p.Filter, err = filterOf(v.query, time.Now()); err != nil {
		return nil, err
	}
	p.setTabs()
	p.setChanges()
	if !p.MayLook {
		return p, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(v.query.Get("after"))
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Not a page", "The address has an after that no page of this server has.", "Begin with the first page.")
	}
	p.First = len(after) == 0
	p.Looked, _ = strconv.Atoi(v.query.Get("looked"))
	p.Looked = max(0, p.Looked)
	if p.still = v.live && (!p.First || p.Filter.IsNarrow()); p.still {
		return p, nil
	}
	return p, d.search(v, p, after)
}

// Skips tells that a list stays as it was read: one that is searched for, or not the first one.
func (p *jobsPage) Skips(section string) bool { return p.still && section == "list" }

// When says what the time of a job of the list is.
func (p *jobsPage) When() string {
	if name := timeNames[p.Filter.Filter.State]; name != "" {
		return name
	}
	return "Put"
}

// timeNames say what the time of a job is.
var timeNames = map[work.State]string{
	work.Scheduled: "Ready", work.Leased: "Lease ends", work.Dead: "Died", work.Done: "Forgotten",
}

// row is a job of a list.
type row struct {
	*work.Info[[]byte]
	When template.HTML
}

// Preview is the beginning of its payload.
func (r row) Preview() string { return preview(r.Payload) }

// Error is the beginning of its last error.
func (r row) Error() string {
	if len(r.Failures) == 0 {
		return ""
	}
	return oneLine([]byte(r.Failures[len(r.Failures)-1].Error), 160)
}

// Rows are the jobs, with the time that their state is ordered by.
func (p *jobsPage) Rows() (rows []row) {
	for _, j := range p.Jobs {
		r := row{Info: j, When: when(j.Created)}
		if p.Filter.Filter.State != 0 && !j.Time.IsZero() {
			r.When = when(j.Time)
		}
		rows = append(rows, r)
	}
	return rows
}

// Nothing says that there is no such job, and what may be the reason.
func (p *jobsPage) Nothing() string {
	switch {
	case p.Filter.IsNarrow():
		return "No job matches. Try with less in the filter."
	case p.Filter.State == "dead":
		return "No job is dead. Jobs come here when they have failed too often, or were buried or cancelled."
	case p.Filter.State == "ready" && p.Queue.Paused:
		return "No job is ready, and the queue is paused."
	case p.Filter.State == "":
		return "The queue has no jobs."
	}
	return "No job is " + p.Filter.State + "."
}

func (p *jobsPage) setTabs() {
	for _, tab := range []struct {
		state string
		n     int64
	}{
		{"", p.Queue.Depth + p.Queue.Dead + p.Queue.Done}, {"ready", p.Queue.Ready}, {"leased", p.Queue.Leased},
		{"scheduled", p.Queue.Scheduled}, {"blocked", p.Queue.Blocked}, {"dead", p.Queue.Dead}, {"done", p.Queue.Done},
	} {
		f := p.Filter
		f.State = tab.state
		label := strings.ToUpper(tab.state[:min(1, len(tab.state))]) + tab.state[min(1, len(tab.state)):]
		if tab.state == "" {
			label = "All"
		}
		p.Tabs = append(p.Tabs, choice{label, f.link("/jobs", p.Queue.Name), tab.n, true, tab.state == p.Filter.State})
	}
}

// setChanges offers what can be done to all that match.
func (p *jobsPage) setChanges() {
	if !p.MayAdmin {
		return
	}
	for _, c := range []struct {
		verb, label string
		states      string // of which it is; "" is any
		danger      bool
	}{
		{"retry", "Retry", "dead", false}, {"kick", "Make ready now", "scheduled", false}, {"end-leases", "End leases", "leased", false},
		{"cancel", "Cancel", " ready leased scheduled blocked", false}, {"bury", "Bury", " leased", false},
		{"reprioritise", "Change priority", " ready leased scheduled blocked dead", false},
		{"delete", "Delete", "", true},
	} {
		if c.states == "" || strings.Contains(c.states+" ", p.Filter.State+" ") {
			p.Changes = append(p.Changes, change{c.label, p.Filter.link("/do", p.Queue.Name, "do", c.verb), c.danger})
		}
	}
}

// Progress says how far a search has come: 4,000 of 10,412 dead jobs.
func (p *jobsPage) Progress() string {
	all := int64(p.Looked)
	for _, tab := range p.Tabs {
		if tab.Now {
			all = max(all, tab.N)
		}
	}
	of := plural(all, strings.TrimSpace(p.Filter.State+" job"), strings.TrimSpace(p.Filter.State+" jobs"))
	if p.Next == "" {
		return "all of " + of
	}
	return num(p.Looked) + " of " + of
}

// search reads until a page is full, the end is reached, or it has taken long enough. A live page looks only as far
// as that costs nothing.
func (d *Dashboard) search(v *visit, p *jobsPage, after []byte) error {
	q, release, err := d.Queues.Work(v, p.Queue.Name, queues.Existing)
	if err != nil {
		return err
	}
	defer release()
	if len(after) == 0 {
		after = nil
	}
	began, size := time.Now(), 0
	for {
		jobs, next, looked, err := q.Search(v, p.Filter.Filter, after, jobsPerPage-len(p.Jobs))
		if err != nil {
			return err
		}
		p.Jobs, after, p.Looked = append(p.Jobs, jobs...), next, p.Looked+looked
		for _, j := range jobs {
			size += len(j.Payload)
		}
		if after == nil || len(p.Jobs) == jobsPerPage {
			break
		}
		if p.Stopped = time.Since(began) > searchTime || size > searchBytes; p.Stopped {
			break
		}
	}
	if after != nil {
		p.Next = p.Filter.link("/jobs", p.Queue.Name, "looked", p.Looked, "after", base64.RawURLEncoding.EncodeToString(after))
	}
	return nil
}

type jobPage struct {
	Queue   *watch.State
	Job     *work.Info[[]byte]
	Payload payload
	Result  *payload
	Meta    []pair
	Trace   string
	Since   time.Time // it is held, if this server has handed it out
	Changes []change
}

type pair struct{ Name, Value string }

func (d *Dashboard) job(v *visit) (any, error) {
	s, err := d.state(v, access.Consume)
	if err != nil {
		return nil, err
	}
	id, err := idOf(v.query.Get("id"))
	if err != nil {
		return nil, err
	}
	v.title = fmt.Sprintf("Job %d of %s", id, visible(s.Name))
	q, release, err := d.Queues.Work(v, s.Name, queues.Existing)
	if err != nil {
		return nil, err
	}
	defer release()
	p := &jobPage{Queue: s}
	if p.Job, err = q.Get(v, id); err != nil {
		return nil, err
	}
	if v.may(access.Admin, s.Name) {
		p.setChanges()
	}
	if p.Job.State == work.Leased {
		p.Since, _ = d.History.Queue(s.Name).Held(int64(id))
	}
	p.Payload = payloadOf(p.Job.Payload)
	p.setMeta()
	result, err := q.Result(v, id)
	if err == nil && result != nil {
		shown := payloadOf(result)
		p.Result = &shown
	}
	return p, err
}

// TimeName and TimeShown are the time of the job's state.
func (p *jobPage) TimeName() string { return timeNames[p.Job.State] }

// TimeShown is when that is.
func (p *jobPage) TimeShown() template.HTML {
	if p.Job.State == work.Leased {
		return lease(p.Job.Time)
	}
	return when(p.Job.Time)
}

// Failures are the attempts that failed, the last one first.
func (p *jobPage) Failures() []work.Failure {
	all := slices.Clone(p.Job.Failures)
	slices.Reverse(all)
	return all
}

// setChanges offers what can be done to the job in its state.
func (p *jobPage) setChanges() {
	for _, c := range []struct {
		verb, label, states string
		danger              bool
	}{
		{"retry", "Retry now", "dead", false}, {"kick", "Make ready now", "scheduled", false}, {"end-leases", "End lease", "leased", false},
		{"cancel", "Cancel", "ready leased scheduled blocked", false}, {"bury", "Bury", "leased", false}, {"reprioritise", "Change priority", "ready leased scheduled blocked dead", false},
		{"delete", "Delete", "ready leased scheduled blocked dead done", true},
	} {
		if slices.Contains(strings.Fields(c.states), p.Job.State.String()) {
			p.Changes = append(p.Changes, change{c.label, link("/do", "do", c.verb, "q", p.Queue.Name, "id", p.Job.ID), c.danger})
		}
	}
}

func idOf(s string) (work.ID, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, fail(http.StatusUnprocessableEntity, "Not a job", fmt.Sprintf("%.40q is no id of a job: it is a positive number.", s), "")
	}
	return work.ID(id), nil
}

func (d *Dashboard) servePayload(w http.ResponseWriter, r *http.Request) {
	v := d.visitOf(r.Context(), r)
	s, err := d.state(v, access.Consume)
	if err == nil && s.Kind != conq.KindWorkQueue {
		err = work.ErrNotFound
	}
	if err != nil {
		d.serveProblem(w, r, err)
		return
	}
	page, err := d.job(v)
	if err != nil {
		d.serveProblem(w, r, err)
		return
	}
	job := page.(*jobPage).Job
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d"`, job.ID))
	_, _ = w.Write(job.Payload) // a client that has gone does not matter
}
