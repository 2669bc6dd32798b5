package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

// Bounds of what is waited for before a page is shown.
const (
	startTime = 2 * time.Second        // for an action to end, and be seen
	countTime = 150 * time.Millisecond // for a count
	countMost = 5 * time.Minute        // a count is given up after
)

// act is something that operators do.
type act struct {
	scope access.Scope
	kinds string // of queues, by their first letters: f, p and w; "" is no queue
	// ask says what it will do.
	ask func(d *Dashboard, c *confirm) error
	// do begins it. The form is what ask has asked for.
	do func(d *Dashboard, c *confirm) (queues.Task, error)
	// then is the page that is shown next.
	then func(c *confirm) string
}

// confirm is what will be done, before it is.
type confirm struct {
	*visit
	Do     string
	Queue  *watch.State
	Filter filter
	ID     work.ID // of one job, or 0

	Title  string // what it will do
	Detail string // what that means
	Button string
	Type   string // has to be typed, as it can't be undone; "" is nothing
	Fields []field
	Action string       // the address of what will be done: names in it stay as they are, which values of a form may not
	Once   string       // tells this form from others like it: sent twice it is done once
	Count  *queues.Task // of the jobs that match, while that is not known
	Narrow bool
	Error  string // what was wrong with the form
	Live   string
}

// field is one that a form asks for.
type field struct {
	Name, Label, Value, Help, Kind string
	Choices                        []string // of Kind choice
	Needed                         bool
}

// confirmOf reads which action is asked for, and checks that the caller may.
func (d *Dashboard) confirmOf(v *visit) (*confirm, *act, error) {
	c := &confirm{visit: v, Do: v.query.Get("do"), Once: rand.Text()}
	a := acts[c.Do]
	if a == nil {
		return nil, nil, fail(http.StatusNotFound, "No such action", fmt.Sprintf("%.40q is nothing that this page can do.", c.Do), "")
	}
	if a.kinds == "" {
		c.Action = link("/do", "do", c.Do, "id", v.query.Get("id"))
		return c, a, v.caller.May(a.scope, "")
	}
	s, err := d.state(v, a.scope)
	if err != nil {
		return nil, nil, err
	}
	c.Queue = s
	if !strings.Contains(strings.ToLower(a.kinds), strings.ToLower(kindName(s.Kind)[:1])) {
		return nil, nil, fail(http.StatusConflict, "Not possible", fmt.Sprintf("%s can't be done to a %v.", c.Do, s.Kind), "")
	}
	if id := v.query.Get("id"); id != "" {
		if c.ID, err = idOf(id); err != nil {
			return nil, nil, err
		}
	}
	if c.Filter, err = filterOf(v.query, time.Now()); !c.Filter.Before.IsZero() {
		v.query.Set("before", strconv.FormatInt(c.Filter.Before.Unix(), 10)) // it is done to those that the form has told of
	}
	pairs := []any{"do", c.Do}
	for _, name := range []string{"q", "id", "state", "key", "text", "attempts", "age", "before", "holder", "name"} {
		pairs = append(pairs, name, v.query.Get(name))
	}
	c.Action = link("/do", pairs...)
	return c, a, err
}

// confirm shows what will be done.
func (d *Dashboard) confirm(v *visit) (any, error) {
	c, a, err := d.confirmOf(v)
	if err != nil {
		return nil, err
	}
	if err := a.ask(d, c); err != nil {
		return nil, err
	}
	v.title = c.Button
	if c.Count != nil {
		v.query.Set("count", c.Count.ID)
		c.Live = "./live/confirm?" + v.query.Encode()
	}
	return c, nil
}

// perform does what a form asks for, and shows what comes of it on the page that was left.
func (d *Dashboard) perform(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<20)
	if err := r.ParseForm(); err != nil {
		d.serveProblem(w, r, fail(http.StatusBadRequest, "Not a form", err.Error(), ""))
		return
	}
	for name, values := range r.Form {
		if !utf8.ValidString(name + "\x00" + strings.Join(values, "\x00")) {
			d.serveProblem(w, r, fail(http.StatusBadRequest, "Not a text", fmt.Sprintf("The field %q is not UTF-8.", name), ""))
			return
		}
	}
	v := d.visitOf(r.Context(), r)
	v.query = r.Form
	status, c, err := d.performIn(v)
	if c != nil {
		d.audit(r.Context(), c, err)
	}
	var wrong *formError
	switch {
	case errors.As(err, &wrong):
		d.askAgain(w, r, c, wrong)
	case err != nil:
		d.serveProblem(w, r, err)
	default:
		access.Redirect(w, r, withQuery(acts[c.Do].then(c), "did", status.ID))
	}
}

// formError is what is wrong with what was typed.
type formError struct{ text string }

func (e *formError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &formError{fmt.Sprintf(format, args...)} }

func (d *Dashboard) performIn(v *visit) (queues.Task, *confirm, error) {
	c, a, err := d.confirmOf(v)
	if err != nil {
		return queues.Task{}, nil, err
	}
	if err := a.ask(d, c); err != nil {
		return queues.Task{}, c, err
	}
	if typed := v.query.Get("typed"); c.Type != "" && asTyped(typed) != asTyped(c.Type) {
		return queues.Task{}, c, wrong("%q is not the name of the queue: nothing was done.", typed)
	}
	status, err := a.do(d, c)
	if err != nil {
		return status, c, err
	}
	waiting, cancel := context.WithTimeout(v, startTime)
	defer cancel()
	done, err := d.Tasks.Wait(waiting, status.ID)
	if done.State == queues.TaskFailed && done.Done == 0 && len(c.Fields) > 0 { // what was typed is not lost
		return done, c, wrong("Nothing was done: %v", done.Err)
	}
	if done.State != queues.TaskRunning {
		seen(waiting, d.History, done.Ended)
	}
	return done, c, err
}

// asTyped is a name as it is read off a page, and typed: with single spaces.
func asTyped(name string) string { return strings.Join(strings.Fields(visible(name)), " ") }

// seen waits until there is a snapshot that was begun after a time, so that the page that is shown next has what was done.
func seen(ctx context.Context, h *watch.History, at time.Time) {
	for now := h.Latest(); now.Time.Add(-now.Took).Before(at); now = h.Latest() {
		h.Refresh()
		select {
		case <-now.Next():
		case <-ctx.Done():
			return
		}
	}
}

func (d *Dashboard) audit(ctx context.Context, c *confirm, err error) {
	attributes := []slog.Attr{slog.String("what", c.Do)}
	if c.Queue != nil {
		attributes = append(attributes, slog.String("queue", c.Queue.Name))
	}
	if c.ID != 0 {
		attributes = append(attributes, slog.Int64("job", int64(c.ID)))
	}
	if err != nil {
		attributes = append(attributes, slog.String("err", err.Error()))
	}
	access.Audit(ctx, d.Logger, c.Do, attributes...)
}

// askAgain shows a form once more, with what is wrong and what was typed.
func (d *Dashboard) askAgain(w http.ResponseWriter, r *http.Request, c *confirm, wrong *formError) {
	c.Error = wrong.text
	for i := range c.Fields {
		c.Fields[i].Value = c.query.Get(c.Fields[i].Name)
	}
	c.title = c.Button
	shown := d.content(&page{name: "confirm"}, c.visit, c)
	shown.Self, shown.Theme = "/", themeOf(r)
	d.write(w, r, http.StatusUnprocessableEntity, "confirm", shown)
}

// Back is the page that an action is begun from.
func (c *confirm) Back() string { return acts[c.Do].then(c) }

// start begins a task in the caller's name.
func (d *Dashboard) start(c *confirm, given queues.Task, f queues.TaskFunc) (queues.Task, error) {
	if c.Queue != nil {
		given.Queue = c.Queue.Name
	}
	given.By, given.What, given.Once = c.caller.Name, c.Title, c.once()
	return d.Tasks.Start(given, f)
}

// once is the same for a form that is sent again as it was: by a double click, or as its answer was lost.
func (c *confirm) once() string {
	if !c.query.Has("once") {
		return ""
	}
	sum := sha256.Sum256([]byte(c.caller.Name + "\n" + c.query.Encode()))
	return string(sum[:])
}

// onQueue begins something quick that is done to a work queue.
func (d *Dashboard) onQueue(c *confirm, undo, note string, f func(ctx context.Context, q *queues.Work) error) (queues.Task, error) {
	return d.start(c, queues.Task{Total: 1, Undo: undo}, func(ctx context.Context, _ func(int)) (int, string, error) {
		err := d.withWork(ctx, c.Queue.Name, func(q *queues.Work) error { return f(ctx, q) })
		return one(err), note, err
	})
}

// matching sets how many jobs match, or begins to count them.
func (d *Dashboard) matching(c *confirm, known int64) (n int64, exact bool, err error) {
	c.Narrow = c.Filter.IsNarrow()
	if !c.Narrow {
		return known, true, nil
	}
	id := c.query.Get("count")
	if _, err := d.counts.Get(id); err != nil {
		begun, err := d.counts.Start(queues.Task{Queue: c.Queue.Name, Total: known}, d.counting(c))
		if err != nil {
			return 0, false, nil // too many count: it is done without
		}
		id = begun.ID
	}
	waiting, cancel := context.WithTimeout(c.visit, countTime)
	defer cancel()
	status, err := d.counts.Wait(waiting, id)
	if err == nil && status.State == queues.TaskRunning {
		c.Count = &status
	}
	return status.Done, status.State == queues.TaskDone, err
}

func (d *Dashboard) counting(c *confirm) queues.TaskFunc {
	filter, queue := c.Filter.Filter, c.Queue.Name
	return func(ctx context.Context, progress func(int)) (n int, _ string, err error) {
		ctx, cancel := context.WithTimeout(ctx, countMost)
		defer cancel()
		err = d.withWork(ctx, queue, func(q *queues.Work) error {
			n, err = q.Count(ctx, filter, progress)
			return err
		})
		return n, "", err
	}
}

// of says which jobs, with their number if that is known.
func (d *Dashboard) of(c *confirm, change queues.Change) (string, error) {
	stats := work.Stats{Ready: c.Queue.Ready, Scheduled: c.Queue.Scheduled, Leased: c.Queue.Leased, Blocked: c.Queue.Blocked, Dead: c.Queue.Dead, Done: c.Queue.Done}
	err := d.withWork(c, c.Queue.Name, func(q *queues.Work) (err error) {
		stats, err = q.Stats(c)
		return err
	})
	if err != nil {
		return "", err
	}
	n, exact, err := d.matching(c, change.Of(stats))
	if err != nil {
		return "", err
	}
	if !exact {
		return "all " + c.Filter.phrase(c.Queue.Name, 2), nil
	}
	return num(n) + " " + c.Filter.phrase(c.Queue.Name, n), nil
}
