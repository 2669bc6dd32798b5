package dashboard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

func deletion(queue, typed string) url.Values {
	return url.Values{"do": {"rm"}, "q": {queue}, "typed": {typed}}
}

func (s *site) there(name string) bool {
	_, found, err := conq.Lookup(s.t.Context(), s.db, name)
	testkit.NoError(s.t, err)
	return found
}

// A queue of any kind is deleted once its name was typed. Leases are lost; a handle that is open makes it anew.
func TestDeleteQueue(t *testing.T) { synctest.Test(t, testDeleteQueue) }

func testDeleteQueue(t *testing.T) {
	s := newSite(t)
	s.fill()
	settle()
	q := s.work("emails")
	held, err := q.ReserveWait(t.Context())
	testkit.NoError(t, err)
	for name, what := range map[string]string{"emails": "Delete emails with 10 jobs", "orders": "Delete orders with 50 items", "alerts": "Delete alerts with 2 items"} {
		has(t, s.get("/queue?q="+name, 200), "do=rm&amp;q="+name)
		has(t, s.get("/do?do=rm&q="+name, 200), what, "gone for good", `name="typed"`)
		testkit.Equal(t, "a form deletes nothing", s.there(name), true)

		status := s.do(deletion(name, name))
		if status.State != queues.TaskDone || status.Queue != name || !strings.HasPrefix(status.What, "Delete "+name) || status.Note != "The queue is deleted." {
			t.Errorf("the task is %+v", status)
		}
		testkit.Equal(t, name+" is there", s.there(name), false)
		hasNot(t, s.get("/", 200), "q="+name)
		s.get("/queue?q="+name, 404)
		s.get("/do?do=rm&q="+name, 404)
		s.read(s.request(http.MethodPost, "/do", deletion(name, name)), "again", 404)
		has(t, s.log.String(), "action=rm", "queue="+name)
	}
	testkit.WantError(t, held.Ack(t.Context()), work.ErrLeaseLost)
	testkit.NoError(t, testkit.Drop(q.Put(t.Context(), []byte("anew"))))
	has(t, s.get("/queue?q=emails", 200), "emails")
	orders, release, err := s.set.Items(t.Context(), "orders", conq.KindPriorityQueue, queues.Create) // as another kind
	testkit.NoError(t, err)
	defer release()
	testkit.NoError(t, orders.Add(t.Context(), queues.Item{Payload: []byte("x"), Priority: 1}))
	has(t, s.get("/queue?q=orders", 200), `class="kind">priority<`)
}

// Nothing is deleted if the name is not typed, the form comes from another site, or the caller may not.
func TestDeleteRefused(t *testing.T) {
	s := newSite(t)
	s.fill()
	names := []string{"emails", "orders", "alerts"}
	for _, name := range names {
		for _, typed := range []string{"", "x", name + "x", strings.ToUpper(name)} {
			page := s.read(s.request(http.MethodPost, "/do", deletion(name, typed)), typed, http.StatusUnprocessableEntity)
			has(t, page, "is not the name of the queue: nothing was done", `action="./do?do=rm`)
		}
		for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/do", strings.NewReader(deletion(name, name).Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(header, value)
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			testkit.Equal(t, header, w.Code, http.StatusForbidden)
		}
		s.get("/do?do=rm&q="+name+"&typed="+name, 200) // a link deletes nothing
		testkit.Equal(t, name+" is there", s.there(name), true)
	}
	s.get("/do?do=rm&q=none", 404)
	s.read(s.request(http.MethodPost, "/do", deletion("none", "none")), "none", 404)
	s.read(s.request(http.MethodPost, "/do", deletion("", "")), "no name", 404)
	testkit.Equal(t, "tasks", len(s.tasks.All()), 0)

	for _, scope := range []string{"watch", "produce", "consume", "admin:orders"} {
		s := newSite(t, scope)
		s.fill()
		hasNot(t, s.read(s.request(http.MethodGet, "/", nil), "/", 200), "do=rm&amp;q=emails")
		s.get("/do?do=rm&q=emails", 403)
		s.read(s.request(http.MethodPost, "/do", deletion("emails", "emails")), scope, 403)
		testkit.Equal(t, "the queue is there", s.there("emails"), true)
	}
}

// A queue that others have deleted since the page was shown is said not to be there.
func TestDeleteAgain(t *testing.T) {
	s := newSite(t)
	s.fill()
	s.get("/do?do=rm&q=orders", 200)
	testkit.NoError(t, conq.DeleteQueue(t.Context(), s.db, "orders"))
	status := s.do(deletion("orders", "orders"))
	if status.State != queues.TaskFailed || !errors.Is(status.Err, conq.ErrNoQueue) {
		t.Errorf("the task is %+v", status)
	}
	s.get("/queue?q=orders", 404)
}
