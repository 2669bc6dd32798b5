package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is the pages of a store.
type site struct {
	t       testing.TB
	db      kv.DB
	set     *queues.Set
	history *watch.History
	sampler *watch.Sampler
	tasks   queues.Tasks
	handler http.Handler
	pages   *Dashboard
	log     strings.Builder
}

// newSite returns the pages of an empty store; see newSiteOf.
func newSite(t testing.TB, scopes ...string) *site {
	return newSiteOf(t, memory.New(memory.Options{}), scopes...)
}

// newSiteOf returns the pages of a store; scopes are those of the only token, which callers have. Without any no token is needed.
func newSiteOf(t testing.TB, db kv.DB, scopes ...string) *site {
	s := &site{t: t, db: db, history: watch.NewHistory()}
	s.set = queues.New(s.db, queues.Options{Observe: s.history.ObserveItems, Work: work.Options{Observe: s.history.ObserveJobs}})
	s.sampler = watch.NewSampler(s.db, s.history)
	stopping, stop := context.WithCancel(context.Background())
	var sampling sync.WaitGroup
	sampling.Go(func() { s.sampler.Run(stopping) })
	o := access.Options{Public: Public(), Login: SignInPath}
	secret := ""
	if len(scopes) > 0 {
		o.Tokens, secret = tokens(t, scopes)
	}
	guard := access.NewGuard(o)
	mux := http.NewServeMux()
	s.pages = register(mux, Options{
		Queues: s.set, History: s.history, Tasks: &s.tasks, Guard: guard, SignIn: len(scopes) > 0,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)), Stopping: stopping,
		Transactions: func() (n, conflicts int64) { return 4321, 12 },
	})
	guarded := guard.Handler(mux)
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if secret != "" && r.Header.Get("Cookie") == "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		guarded.ServeHTTP(w, r)
	})
	t.Cleanup(func() {
		stop()
		sampling.Wait()
		s.tasks.Close()
		testkit.NoError(t, s.set.Close())
	})
	return s
}

func tokens(t testing.TB, scopes []string) (*access.Tokens, string) {
	var permissions []access.Permission
	for _, s := range scopes {
		p, err := access.ParsePermission(s)
		testkit.NoError(t, err)
		permissions = append(permissions, p)
	}
	token, secret, err := access.NewToken("tester", permissions)
	testkit.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokens.json")
	testkit.NoError(t, access.AddToFile(path, token))
	loaded, err := access.LoadTokens(path)
	testkit.NoError(t, err)
	return loaded, secret
}

// request sends a request as a browser does that shows a page of the server.
func (s *site) request(method, target string, form url.Values) *http.Response {
	s.t.Helper()
	s.sampler.Sample(s.t.Context())
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://localhost"+strings.TrimPrefix(target, "."), body)
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Result()
}

// get returns a page.
func (s *site) get(target string, status int) string {
	s.t.Helper()
	return s.read(s.request(http.MethodGet, target, nil), target, status)
}

func (s *site) read(resp *http.Response, target string, status int) string {
	s.t.Helper()
	body, err := io.ReadAll(resp.Body)
	testkit.NoError(s.t, err)
	if resp.StatusCode != status {
		s.t.Fatalf("%s: status %d, want %d\n%s", target, resp.StatusCode, status, body)
	}
	return string(body)
}

// do performs an action, and returns the task.
func (s *site) do(form url.Values) queues.Task {
	s.t.Helper()
	resp := s.request(http.MethodPost, "/do", form)
	s.read(resp, fmt.Sprint(form), http.StatusSeeOther)
	to, err := url.Parse(resp.Header.Get("Location"))
	testkit.NoError(s.t, err)
	status, err := s.tasks.Wait(s.t.Context(), to.Query().Get("did"))
	testkit.NoError(s.t, err)
	s.get(to.String(), http.StatusOK)
	return status
}

func (s *site) work(name string) *queues.Work {
	q, release, err := s.set.Work(s.t.Context(), name, queues.Create)
	testkit.NoError(s.t, err)
	s.t.Cleanup(release)
	return q
}

// fill makes a queue of each kind, and jobs in all states but blocked and done.
func (s *site) fill() {
	ctx, t := s.t.Context(), s.t
	q := s.work("emails")
	for i := range 10 {
		id, err := q.Put(ctx, fmt.Appendf(nil, `{"to":"user%d"}`, i), work.Job{Key: fmt.Sprint("k", i)})
		testkit.NoError(t, err)
		if i < 5 {
			testkit.NoError(t, q.Bury(ctx, id, []string{"i/o timeout", "refused"}[i%2]))
		}
	}
	l, err := q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, l.FailAfter(ctx, 1e12, errors.New("later")))
	_, err = q.ReserveWait(ctx)
	testkit.NoError(t, err)
	testkit.NoError(t, q.Every(ctx, "nightly", "0 3 * * *", []byte("tick")))
	fifo, release, err := s.set.Items(ctx, "orders", conq.KindQueue, queues.Create)
	testkit.NoError(t, err)
	defer release()
	for i := range 50 {
		testkit.NoError(t, fifo.Add(ctx, queues.Item{Payload: fmt.Appendf(nil, "order %d", i)}))
	}
	priority, release, err := s.set.Items(ctx, "alerts", conq.KindPriorityQueue, queues.Create)
	testkit.NoError(t, err)
	defer release()
	testkit.NoError(t, priority.Add(ctx, queues.Item{Payload: []byte("low"), Priority: 9}, queues.Item{Payload: []byte("high"), Priority: 1}))
}

// settle has the sampler count queues that were filled while it looked at them. The clock is that of a bubble, on which pages
// also wait long enough for what they show.
func settle() { time.Sleep(10 * time.Second) }

func has(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%s", text, page)
		}
	}
}

func hasNot(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q:\n%s", text, page)
		}
	}
}

func TestPages(t *testing.T) { synctest.Test(t, testPages) }

func testPages(t *testing.T) {
	s := newSite(t)
	has(t, s.get("/", 200), "There is no queue yet", "<footer>conq "+version.Read().String()+"</footer>")
	has(t, s.get("/periodic", 200), "no periodic job")
	has(t, s.get("/workers", 200), "No worker holds a job")
	s.fill()
	settle()
	for _, c := range []struct {
		path  string
		shows []string
	}{
		{"/", []string{"emails", "orders", "alerts", "FIFO"}},
		{"/?find=ORD", []string{"orders"}},
		{"/?only=dead", []string{"emails", `aria-current="true"`}},
		{"/?sort=depth&down=1", []string{`aria-sort="ascending"`}},
		{"/?find=nothing", []string{"Show all 3"}},
		{"/queue?q=emails", []string{"First ready jobs", "user7", "Pause", "Purge"}},
		{"/queue?q=orders", []string{"order 0", "Move", `rel="next"`}},
		{"/queue?q=alerts", []string{"high"}},
		{"/queue?q=alerts&end=max", []string{"highest priority", "low"}},
		{"/jobs?q=emails", []string{"user0", "scheduled"}},
		{"/jobs?q=emails&state=dead&text=timeout", []string{"i/o timeout", "Retry"}},
		{"/jobs?q=emails&state=dead&text=nothing", []string{"No job matches"}},
		{"/jobs?q=emails&state=blocked", []string{"No job is blocked"}},
		{"/job?q=emails&id=1", []string{"&#34;to&#34;: &#34;user0&#34;", "i/o timeout", "Retry now"}},
		{"/periodic", []string{"nightly", "0 3 * * *", "Run now"}},
		{"/workers", []string{"End leases"}},
		{"/store", []string{"4,321 of this server, repeated after a conflict 12 times", "memory", "3: 1 FIFO, 1 priority, 1 work"}},
		{"/do?do=delete&q=emails&state=dead&text=timeout", []string{"Delete 3 dead jobs of emails that contain “timeout”"}},
		{"/do?do=purge&q=orders", []string{"remove all 50 items", "Type <b"}},
	} {
		has(t, s.get(c.path, 200), c.shows...)
	}
	for path, status := range map[string]int{
		"/queue": 404, "/queue?q=none": 404, "/jobs?q=orders": 409, "/jobs?q=emails&state=odd": 422, "/jobs?q=emails&attempts=-1": 422, "/jobs?q=emails&age=1y": 422,
		"/jobs?q=emails&after=!": 400, "/job?q=emails&id=77": 404, "/job?q=emails&id=x": 422, "/do?do=eat&q=emails": 404, "/do?do=pause&q=orders": 409, "/task?did=none": 404,
		"/queue?q=orders&after=AAAA": 500, "/chart?q=none&span=10m": 404, "/chart?q=emails&span=1y": 404, "/payload?q=orders&id=1": 404, "/assets/x/none.js": 404,
		"/do?do=stop&id=none": 404,
	} {
		if path == "/queue?q=orders&after=AAAA" {
			has(t, s.get(path, 200), `role="alert"`) // the rest of the page is there
			continue
		}
		s.get(path, status)
	}
}

// All that operators do is done, and told of.
func TestActions(t *testing.T) { synctest.Test(t, testActions) }

func testActions(t *testing.T) {
	s := newSite(t)
	s.fill()
	q := s.work("emails")
	stats := func() work.Stats {
		got, err := q.Stats(t.Context())
		testkit.NoError(t, err)
		return got
	}
	is := func(status queues.Task, done int64, what string) {
		t.Helper()
		if status.State != queues.TaskDone || status.Done != done || !strings.Contains(status.What, what) || status.By != "everyone" {
			t.Errorf("the task is %+v, want %d done of %q", status, done, what)
		}
	}
	form := func(do, queue string, more ...string) url.Values {
		v := url.Values{"do": {do}, "q": {queue}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	paused := s.do(form("pause", "emails"))
	is(paused, 1, "Pause emails")
	if !stats().Paused {
		t.Error("the queue is not paused")
	}
	has(t, s.get("/queue?q=emails&did="+paused.ID, 200), "Undo", "paused")
	is(s.do(form("resume", "emails")), 1, "Resume emails")
	is(s.do(form("retry", "emails", "state", "dead", "text", "timeout")), 3, "Retry 3 dead jobs of emails that contain “timeout”")
	if got := stats(); got.Dead != 2 || got.Ready != 6 {
		t.Errorf("after a retry there are %+v", got)
	}
	is(s.do(form("kick", "emails", "state", "scheduled")), 1, "Make 1 scheduled job of emails ready now")
	is(s.do(form("end-leases", "emails", "state", "leased")), 1, "End the leases of 1 leased job")
	is(s.do(form("reprioritise", "emails", "state", "ready", "priority", "-3")), 8, "Change the priority of 8 ready jobs of emails to -3")
	is(s.do(form("cancel", "emails", "id", "1")), 1, "Cancel job 1 of emails")
	is(s.do(form("bury", "emails", "id", "3")), 1, "Bury job 3")
	is(s.do(form("retry", "emails", "id", "1")), 1, "Retry job 1")
	is(s.do(form("delete", "emails", "id", "1", "typed", "emails")), 1, "Delete job 1")
	is(s.do(form("delete", "emails", "state", "dead", "typed", "emails")), 3, "Delete 3 dead jobs of emails")
	is(s.do(form("add", "emails", "payload", "by hand", "priority", "4", "jobkey", "x", "delay", "2h")), 1, "Add to emails")
	is(s.do(form("every", "emails", "name", "hourly", "cron", "@hourly", "payload", "tock")), 1, "Add the periodic job hourly to emails: @hourly")
	has(t, s.get("/periodic", 200), "hourly</th>", "tock")
	is(s.do(form("remove", "emails", "name", "hourly", "typed", "emails")), 1, "Remove the periodic job hourly")
	is(s.do(form("runnow", "emails", "name", "nightly")), 1, "Run nightly of emails now")
	is(s.do(form("remove", "emails", "name", "nightly", "typed", "emails")), 1, "Remove the periodic job nightly of emails")
	hasNot(t, s.get("/periodic", 200), "nightly</th>")
	if got := stats(); got != (work.Stats{Ready: 7, Scheduled: 1}) {
		t.Errorf("after all there are %+v", got)
	}
	is(s.do(form("add", "orders", "payload", "one\r\nmore")), 1, "Add to orders")
	is(s.do(form("add", "alerts", "payload", "x", "priority", "5")), 1, "Add to alerts")
	is(s.do(form("move", "orders", "to", "orders.old", "n", "30")), 30, "Move 30 items from orders to orders.old")
	is(s.do(form("move", "alerts", "to", "alerts.old", "n", "30")), 3, "Move 30 items from alerts")
	is(s.do(url.Values{"do": {"check"}}), s.do(url.Values{"do": {"check"}}).Done, "Check the store")
	settle()
	for _, name := range []string{"emails", "orders.old", "alerts.old"} {
		is(s.do(form("purge", name, "typed", name)), 0, "Purge "+name)
	}
	if got := stats(); got != (work.Stats{}) {
		t.Errorf("after a purge there are %+v", got)
	}
	has(t, s.get("/store", 200), "Purge alerts.old: remove all 3 items", "everyone")
	has(t, s.log.String(), "operator action", "action=purge", "queue=orders.old", "caller=everyone")
	hasNot(t, s.log.String(), "by hand")
}

// What is wrong with a form is said on the form, and nothing is done.
func TestWrongForms(t *testing.T) { synctest.Test(t, testWrongForms) }

func testWrongForms(t *testing.T) {
	s := newSite(t)
	s.fill()
	for _, c := range []struct {
		form  url.Values
		shows string
	}{
		{url.Values{"do": {"purge"}, "q": {"orders"}}, "is not the name of the queue"},
		{url.Values{"do": {"purge"}, "q": {"orders"}, "typed": {"order"}}, "is not the name of the queue"},
		{url.Values{"do": {"delete"}, "q": {"emails"}, "state": {"dead"}}, "is not the name of the queue"},
		{url.Values{"do": {"add"}, "q": {"emails"}, "delay": {"soon"}}, "is no delay"},
		{url.Values{"do": {"add"}, "q": {"alerts"}, "priority": {"high"}}, "is no priority"},
		{url.Values{"do": {"move"}, "q": {"orders"}, "to": {"orders"}, "n": {"1"}}, "already"},
		{url.Values{"do": {"move"}, "q": {"orders"}, "to": {"x"}, "n": {"0"}}, "from 1 on"},
		{url.Values{"do": {"reprioritise"}, "q": {"emails"}}, "A priority is needed"},
	} {
		page := s.read(s.request(http.MethodPost, "/do", c.form), fmt.Sprint(c.form), http.StatusUnprocessableEntity)
		has(t, page, c.shows, `action="./do?do=`)
	}
	for form, shows := range map[string]string{"do=every&q=emails&name=x&cron=never+again": "never again", "do=move&q=orders&n=1&to=emails": "work queue"} {
		v, err := url.ParseQuery(form)
		testkit.NoError(t, err)
		has(t, s.read(s.request(http.MethodPost, "/do", v), form, http.StatusUnprocessableEntity), "Nothing was done: ", shows)
	}
	if all := s.tasks.All(); slices.ContainsFunc(all, func(t queues.Task) bool { return t.State != queues.TaskFailed }) {
		t.Errorf("something was done: %+v", s.tasks.All())
	}
	s.read(s.request(http.MethodPost, "/do", url.Values{"do": {"retry"}, "q": {"emails"}, "state": {"ready"}}), "retry of ready jobs", http.StatusUnprocessableEntity)
	has(t, s.read(s.request(http.MethodPost, "/do", url.Values{"do": {"add"}, "q": {"alerts"}, "unique": {"\xff"}}), "bytes", http.StatusBadRequest), "unique", "not UTF-8")
	failed := s.do(url.Values{"do": {"retry"}, "q": {"emails"}, "id": {"9"}})
	if failed.State != queues.TaskFailed {
		t.Errorf("a retry of a ready job is %+v", failed)
	}
	has(t, s.get("/job?q=emails&id=9&did="+failed.ID, 200), "failed", "not possible in the job&#39;s state")
}

// Figures are sorted from the largest on, names from A on, and the other way when asked again.
func TestSort(t *testing.T) {
	s := newSite(t)
	s.fill()
	for path, want := range map[string]string{
		"/": "alerts emails orders", "/?down=1": "orders emails alerts",
		"/?sort=depth": "orders emails alerts", "/?sort=depth&down=1": "alerts emails orders",
	} {
		var names []string
		for _, m := range regexp.MustCompile(`href="./queue\?q=(\w+)"`).FindAllStringSubmatch(s.get(path, 200), -1) {
			names = append(names, m[1])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}
}

// A form that is sent twice is done once; another one like it, or with something else in it, is done too.
func TestOnce(t *testing.T) {
	s := newSite(t)
	s.fill()
	once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(s.get("/do?do=add&q=orders", 200))
	if once == nil {
		t.Fatal("the form does not tell itself from others")
	}
	form := func(payload, once string) url.Values {
		return url.Values{"do": {"add"}, "q": {"orders"}, "payload": {payload}, "once": {once}}
	}
	first, again := s.do(form("x", once[1])), s.do(form("x", once[1]))
	if first.ID != again.ID {
		t.Errorf("a form that is sent twice is the tasks %s and %s", first.ID, again.ID)
	}
	s.do(form("y", once[1]))
	s.do(form("x", "another"))
	if all := s.tasks.All(); len(all) != 3 {
		t.Errorf("there are %d tasks, want 3: %+v", len(all), all)
	}
}

// What is done to jobs of an age is done to those that the form has told of, however long it is looked at.
func TestAgeOfForm(t *testing.T) { synctest.Test(t, testAgeOfForm) }

func testAgeOfForm(t *testing.T) {
	s := newSite(t)
	s.fill()
	asked := "/do?do=cancel&q=emails&age=10m&before=60"
	has(t, s.get(asked, 200), "Cancel 0 jobs of emails that were put before 1970-01-01 00:01 UTC", "&amp;before=60")
	has(t, s.get("/do?do=cancel&q=emails&age=10m", 200), "&amp;before=946684200") // ten minutes before the clock of a bubble begins
	has(t, s.do(url.Values{"do": {"cancel"}, "q": {"emails"}, "age": {"10m"}, "before": {"60"}}).What, "1970-01-01 00:01 UTC")
}

// A queue that is newer than the last second, or than the server, has its figures.
func TestNewerThanSnapshot(t *testing.T) {
	s := newSite(t)
	s.fill()
	for name, want := range map[string]watch.Counts{
		"emails": {Depth: 5, Ready: 3, Scheduled: 1, Leased: 1, Dead: 5}, "orders": {Estimated: true},
	} {
		v := &visit{Context: t.Context(), caller: access.Everyone, query: url.Values{"q": {name}}, now: new(watch.Snapshot)}
		got, err := s.pages.state(v, access.Watch)
		testkit.NoError(t, err)
		if got.Counts != want {
			t.Errorf("%s is %+v, want %+v", name, got.Counts, want)
		}
	}
}

// A name, or a payload, that has nothing to be seen is shown in quotes, and can be typed so.
func TestBlank(t *testing.T) {
	s := newSite(t)
	_, err := s.work(" \n").Put(t.Context(), []byte("\t"))
	testkit.NoError(t, err)
	has(t, s.get("/", 200), `>&#34; \n&#34;</a>`)
	has(t, s.get("/job?q=+%0A&id=1", 200), `>&#34;\t&#34;</pre>`)
	s.do(url.Values{"do": {"purge"}, "q": {" \n"}, "typed": {`" \n"`}})
}

// A line that a payload begins with is there again when its form is.
func TestFirstLine(t *testing.T) {
	s := newSite(t)
	s.fill()
	form := url.Values{"do": {"add"}, "q": {"emails"}, "payload": {"\nx"}, "delay": {"soon"}}
	has(t, s.read(s.request(http.MethodPost, "/do", form), "a wrong delay", http.StatusUnprocessableEntity), ">\n\nx</textarea>")
}

// Tokens see what their scopes allow, and are offered nothing else.
func TestScopes(t *testing.T) {
	for _, c := range []struct {
		scopes   []string
		has, not []string
	}{
		{[]string{"watch"}, []string{"emails", "scope consume"}, []string{"user7", "Pause", "Purge", ">Add<"}},
		{[]string{"consume:emails"}, []string{"user7"}, []string{"Pause", "Purge", ">Add<"}},
		{[]string{"produce:emails"}, []string{">Add<", "scope consume"}, []string{"user7", "Pause"}},
		{[]string{"admin:emails"}, []string{"user7", "Pause", "Purge", ">Add<"}, nil},
	} {
		s := newSite(t, c.scopes...)
		s.fill()
		page := s.get("/queue?q=emails", 200)
		has(t, page, c.has...)
		hasNot(t, page, c.not...)
		if c.scopes[0] != "watch" {
			hasNot(t, s.get("/", 200), "orders")
			s.get("/queue?q=orders", 403)
			s.get("/chart?q=orders&span=10m", 403)
		}
		if !strings.HasPrefix(c.scopes[0], "admin") {
			s.get("/do?do=pause&q=emails", 403)
			s.read(s.request(http.MethodPost, "/do", url.Values{"do": {"pause"}, "q": {"emails"}}), "pause", 403)
			s.get("/do?do=check", 403)
		}
		if !strings.HasPrefix(c.scopes[0], "admin") && !strings.HasPrefix(c.scopes[0], "consume") {
			s.get("/job?q=emails&id=1", 403)
			s.get("/payload?q=emails&id=1", 403)
			hasNot(t, s.get("/jobs?q=emails", 200), "user7")
			hasNot(t, s.get("/periodic", 200), "tick")
		}
	}
}

func TestSignIn(t *testing.T) {
	s := newSite(t, "admin")
	s.fill()
	send := func(method, target, cookie string, form url.Values) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(form.Encode()))
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Result()
	}
	if to := send("GET", "/queue?q=emails", "a=b", nil).Header.Get("Location"); to != "./sign-in?next=%2Fqueue%3Fq%3Demails" {
		t.Errorf("a browser without a session is sent to %q", to)
	}
	has(t, s.read(send("POST", "/sign-in", "a=b", url.Values{"token": {"conq_wrong"}}), "a wrong token", 401), "no such token")
	hasNot(t, s.get("/sign-in?next=//evil.example", 200), "evil.example")
}

// follow opens the live sections of a page. The function that it returns reads until there is a text.
func (s *site) follow(path string) func(until string) string {
	s.t.Helper()
	s.sampler.Sample(s.t.Context())
	server := httptest.NewServer(s.handler)
	s.t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL + path)
	testkit.NoError(s.t, err)
	s.t.Cleanup(func() { _ = resp.Body.Close() }) // before its server
	stream := make([]byte, 1<<20)
	return func(until string) (got string) {
		for !strings.Contains(got, until) {
			n, err := resp.Body.Read(stream)
			if got += string(stream[:n]); err != nil {
				s.t.Fatalf("%v after %s", err, got)
			}
		}
		return got
	}
}

// A page that is live sends what has changed.
func TestLive(t *testing.T) {
	s := newSite(t)
	s.fill()
	read := s.follow("/live/queue?q=emails")
	has(t, read("event: point"), "event: state", "event: items", "event: notice")
	testkit.NoError(t, s.work("emails").Pause(t.Context()))
	s.sampler.Sample(t.Context())
	again := read("paused")
	has(t, again, "event: state")
	hasNot(t, again, "event: items") // nothing has changed there
}

// A payload, which may be large, is not sent again with what changes each second.
func TestLiveJob(t *testing.T) {
	s := newSite(t)
	s.fill()
	read := s.follow("/live/job?q=emails&id=8")
	has(t, read("event: problem"), "event: job", "user7")
	testkit.NoError(t, s.work("emails").Bury(t.Context(), 8, "by hand"))
	s.sampler.Sample(t.Context())
	hasNot(t, read("by hand"), "user7")
	s.sampler.Sample(t.Context())
	read("event: alive") // so it is known that the server is there
}

func TestAssets(t *testing.T) {
	s := newSite(t)
	page := s.get("/", 200)
	for _, name := range []string{"style.css", "app.js", "htmx.js", "sse.js", "idiomorph.js", "icon.svg"} {
		has(t, page, assetPath(name))
		resp := s.request("GET", assetPath(name), nil)
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, %v", name, resp.StatusCode, resp.Header)
		}
	}
	licences, err := filepath.Glob("assets/vendor/LICENSE.*")
	testkit.NoError(t, err)
	readme, err := os.ReadFile("assets/vendor/README.md")
	testkit.NoError(t, err)
	if len(licences) != 4 {
		t.Errorf("licences are %v", licences)
	}
	for _, name := range []string{"htmx.js", "sse.js", "idiomorph.js", "uplot.js"} {
		has(t, string(readme), name)
	}
	resp := s.request("GET", "/", nil)
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, bad := range []string{" style=", " onclick=", "<style", "javascript:"} {
		hasNot(t, page, bad)
	}
}

// A search tells how far it has come, over its pages.
func TestSearchProgress(t *testing.T) { synctest.Test(t, testSearchProgress) }

func testSearchProgress(t *testing.T) {
	s := newSite(t)
	s.fill()
	has(t, s.get("/jobs?q=emails&state=dead&text=timeout", 200), "Searched all of 5 dead jobs.")
	has(t, s.get("/jobs?q=emails&text=nothing", 200), "No job matches", "Searched all of 10 jobs.")
	hasNot(t, s.get("/jobs?q=emails&state=dead", 200), "earched")
	large := s.work("large")
	for range 12 {
		_, err := large.Put(t.Context(), make([]byte, 1<<20+1), work.Job{Key: "k"})
		testkit.NoError(t, err)
	}
	small := s.work("small")
	for range jobsPerPage + 10 {
		_, err := small.Put(t.Context(), []byte("match"))
		testkit.NoError(t, err)
	}
	for _, c := range []struct {
		path          string
		shows, shows2 string
	}{
		{"/jobs?q=large&key=k", "There may be more: searched 8 of 12 jobs.", "Searched all of 12 jobs."},
		{"/jobs?q=small&text=match", "Searched 50 of 60 jobs.", "Searched all of 60 jobs."},
	} {
		page := s.get(c.path, 200)
		has(t, page, c.shows)
		next := regexp.MustCompile(`href="(\./jobs[^"]*)" rel="next"`).FindStringSubmatch(page)
		if next == nil {
			t.Fatalf("%s has no next page", c.path)
		}
		has(t, s.get(html.UnescapeString(next[1]), 200), c.shows2)
	}
}
