package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
)

// perPage is how many queues the overview shows at once.
const perPage = 100

type overview struct {
	Find, Only, Sort string
	Down             bool
	Queues           []*watch.State
	Matching, All    int
	Totals           totals
	First, Last      int // of Matching, from 1 on
	Previous, Next   string
	Columns          []column
	Filters          []choice
	Began            bool // the store has been read
	Store            watch.Store
	StoreErr         error
	Address          string // of the server, as the browser knows it
}

// Health is how the store is, in a word or few.
func (o *overview) Health() string {
	switch {
	case !o.Began:
		return "not read yet"
	case o.StoreErr != nil:
		return "unreadable"
	case o.Store.HealthErr != nil:
		return "unclear"
	case o.Store.Health.Problem != "":
		return "has a problem"
	case o.Store.Down() > 0:
		return fmt.Sprintf("%d of %d down", o.Store.Down(), len(o.Store.Health.Members))
	}
	return healthy
}

// IsIll tells whether the store's health is worth a look.
func (o *overview) IsIll() bool { return o.Health() != healthy }

const healthy = "answers"

type totals struct {
	Depth, Leased, Dead, Paused int64
	In, Out, Failed             float64
	Estimated                   bool // Depth is, of one of them at least
}

// column is a head of the table, by which it can be sorted.
type column struct {
	Name, Label, Title, Class string
	Link                      string
	Sorted                    string // ascending, descending or ""
}

// choice is one of several links.
type choice struct {
	Label, Link string
	N           int64
	Counted     bool
	Now         bool
}

var columns = []column{
	{Name: "name", Label: "Queue"},
	{Name: "depth", Label: "Depth", Title: "items, or jobs that are not dead or done", Class: "n"},
	{Name: "", Label: "10 minutes", Title: "depth, the highest of each 15 seconds", Class: "wide"},
	{Name: "in", Label: "In/s", Title: "added a second by this server, over the last ten", Class: "n wide"},
	{Name: "out", Label: "Out/s", Title: "taken or acknowledged a second by this server, over the last ten", Class: "n wide"},
	{Name: "age", Label: "Oldest", Title: "since when the oldest is there that could be taken; items of a priority queue carry no time", Class: "n"},
	{Name: "ready", Label: "Ready", Title: "jobs that a worker can have now", Class: "n wider"},
	{Name: "leased", Label: "Leased", Title: "jobs that workers hold", Class: "n wider"},
	{Name: "scheduled", Label: "Scheduled", Title: "jobs for later, retries included", Class: "n wider"},
	{Name: "blocked", Label: "Blocked", Title: "jobs that wait for others of their key", Class: "n widest"},
	{Name: "dead", Label: "Dead", Title: "jobs that were given up, and are kept", Class: "n"},
}

// orders say by what queues are sorted: the value that is smaller comes first.
var orders = map[string]func(a, b *watch.State) int{
	"name":      func(a, b *watch.State) int { return cmp.Compare(a.Name, b.Name) },
	"depth":     func(a, b *watch.State) int { return cmp.Compare(a.Depth, b.Depth) },
	"in":        func(a, b *watch.State) int { return cmp.Compare(a.In, b.In) },
	"out":       func(a, b *watch.State) int { return cmp.Compare(a.Out, b.Out) },
	"age":       func(a, b *watch.State) int { return cmp.Compare(since(b), since(a)) },
	"ready":     func(a, b *watch.State) int { return cmp.Compare(a.Ready, b.Ready) },
	"leased":    func(a, b *watch.State) int { return cmp.Compare(a.Leased, b.Leased) },
	"scheduled": func(a, b *watch.State) int { return cmp.Compare(a.Scheduled, b.Scheduled) },
	"blocked":   func(a, b *watch.State) int { return cmp.Compare(a.Blocked, b.Blocked) },
	"dead":      func(a, b *watch.State) int { return cmp.Compare(a.Dead, b.Dead) },
}

// since is when the oldest came; where that is not known, late.
func since(s *watch.State) int64 {
	if s.Oldest.IsZero() {
		return 1 << 62
	}
	return s.Oldest.Unix()
}

var onlies = []struct {
	name, label string
	is          func(*watch.State) bool
}{
	{"", "All", func(*watch.State) bool { return true }},
	{"waiting", "Not empty", func(s *watch.State) bool { return s.Depth > 0 }},
	{"dead", "With dead jobs", func(s *watch.State) bool { return s.Dead > 0 }},
	{"paused", "Paused", func(s *watch.State) bool { return s.Paused }},
	{"broken", "Unreadable", func(s *watch.State) bool { return s.Err != nil }},
}

func (d *Dashboard) overview(v *visit) (any, error) {
	v.title = "Queues"
	o := &overview{Find: strings.TrimSpace(v.query.Get("find")), Only: v.query.Get("only"), Sort: v.query.Get("sort"), Began: !v.now.Time.IsZero(), Store: v.now.Store, StoreErr: v.now.Err, Address: v.address}
	if orders[o.Sort] == nil {
		o.Sort = "name"
	}
	o.Down = v.query.Get("down") != ""
	visible := d.visible(v)
	o.All = len(visible)
	found := o.find(visible)
	o.setFilters(found)
	shown := slices.DeleteFunc(slices.Clone(found), func(s *watch.State) bool { return !o.is(s) })
	o.Matching = len(shown)
	slices.SortStableFunc(shown, func(a, b *watch.State) int { return cmp.Or(o.order(a, b), cmp.Compare(a.Name, b.Name)) })
	o.cut(v, shown)
	o.setColumns()
	return o, nil
}

// visible returns the queues that the caller may know of.
func (d *Dashboard) visible(v *visit) []*watch.State {
	if v.may(access.Watch, "") {
		return v.now.Queues
	}
	return slices.DeleteFunc(slices.Clone(v.now.Queues), func(s *watch.State) bool { return !v.may(access.Watch, s.Name) })
}

func (o *overview) find(all []*watch.State) (found []*watch.State) {
	find := strings.ToLower(o.Find)
	for _, s := range all {
		if !strings.Contains(strings.ToLower(s.Name), find) {
			continue
		}
		found = append(found, s)
		o.Totals.Depth += s.Depth
		o.Totals.Estimated = o.Totals.Estimated || s.Estimated
		o.Totals.Leased += s.Leased
		o.Totals.Dead += s.Dead
		o.Totals.In += s.In
		o.Totals.Out += s.Out
		o.Totals.Failed += s.Failed
		if s.Paused {
			o.Totals.Paused++
		}
	}
	return found
}

func (o *overview) is(s *watch.State) bool {
	for _, only := range onlies {
		if only.name == o.Only {
			return only.is(s)
		}
	}
	return true
}

// setFilters counts what each filter would leave. Those that would leave nothing are not shown.
func (o *overview) setFilters(found []*watch.State) {
	for _, only := range onlies {
		n := int64(0)
		for _, s := range found {
			if only.is(s) {
				n++
			}
		}
		if n > 0 || only.name == o.Only || only.name == "" {
			o.Filters = append(o.Filters, choice{only.label, link("/", "find", o.Find, "only", only.name, "sort", o.sortName(), "down", o.down()), n, true, only.name == o.Only})
		}
	}
}

func (o *overview) order(a, b *watch.State) int {
	if o.Down == (o.Sort == "name") {
		return orders[o.Sort](b, a)
	}
	return orders[o.Sort](a, b)
}

func (o *overview) sortName() string {
	if o.Sort == "name" {
		return ""
	}
	return o.Sort
}

func (o *overview) down() string {
	if o.Down {
		return "1"
	}
	return ""
}

// setColumns makes links by which the table is sorted: names from A on first, figures from the largest on.
func (o *overview) setColumns() {
	o.Columns = slices.Clone(columns)
	for i := range o.Columns {
		c := &o.Columns[i]
		if c.Name == "" {
			continue
		}
		down := ""
		if c.Name == o.Sort {
			if down = "1"; o.Down {
				down = ""
			}
			c.Sorted = "ascending"
			if o.Down == (c.Name == "name") {
				c.Sorted = "descending"
			}
		}
		name := c.Name
		if name == "name" {
			name = ""
		}
		c.Link = link("/", "find", o.Find, "only", o.Only, "sort", name, "down", down)
	}
}

// cut leaves one page.
func (o *overview) cut(v *visit, shown []*watch.State) {
	pages := max(1, (len(shown)+perPage-1)/perPage)
	page, _ := strconv.Atoi(v.query.Get("page"))
	page = max(1, min(pages, page))
	first := (page - 1) * perPage
	last := min(len(shown), first+perPage)
	o.Queues, o.First, o.Last = shown[first:last], first+1, last
	to := func(p int) string {
		return link("/", "find", o.Find, "only", o.Only, "sort", o.sortName(), "down", o.down(), "page", p)
	}
	if page > 1 {
		o.Previous = to(page - 1)
	}
	if page < pages {
		o.Next = to(page + 1)
	}
}

// state returns a queue that the caller may do something with.
func (d *Dashboard) state(v *visit, s access.Scope) (*watch.State, error) {
	name := v.query.Get("q")
	if name == "" {
		return nil, fail(http.StatusNotFound, "No queue was named", "The address has no q, which names a queue.", "Choose one on the overview.")
	}
	if err := v.caller.May(s, name); err != nil {
		return nil, err
	}
	if q := v.now.Queue(name); q != nil {
		return q, nil
	}
	info, err := d.Queues.Lookup(v, name) // newer than the last second
	if err != nil {
		return nil, err
	}
	state := &watch.State{Name: name, Kind: info.Kind}
	if state.Estimated = !isWork(state); state.Estimated {
		return state, nil
	}
	return state, d.withWork(v, name, func(q *queues.Work) error {
		now, err := q.Stats(v)
		state.Ready, state.Scheduled, state.Leased, state.Blocked = now.Ready, now.Scheduled, now.Leased, now.Blocked
		state.Depth = now.Ready + now.Scheduled + now.Leased + now.Blocked
		state.Dead, state.Done, state.Paused = now.Dead, now.Done, now.Paused
		return err
	})
}

func isWork(s *watch.State) bool { return s.Kind == conq.KindWorkQueue }
