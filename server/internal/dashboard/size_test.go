package dashboard

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// The overview of a thousand queues is small.
func TestOverviewIsSmall(t *testing.T) {
	s := newSite(t)
	s.many(t.Context())
	page, own, all := s.loadAll("/")
	if own == all || all > 40_000 {
		t.Errorf("the first page loads %d bytes, of which %d are its own", all, own)
	}
	has(t, page, "1 to 100 of 1,000", `rel="next"`)
	has(t, s.get("/?page=10", 200), "901 to 1,000 of 1,000")
}

// load gets a page as a browser does, and returns it with what has come over the wire.
func (s *site) load(target string) (page string, wire int) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://localhost"+target, nil)
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s: status %d: %s", target, w.Code, w.Body)
	}
	wire = w.Body.Len()
	z, err := gzip.NewReader(w.Body)
	testkit.NoError(s.t, err)
	b, err := io.ReadAll(z)
	testkit.NoError(s.t, err)
	return string(b), wire
}

// loadAll gets a page, and all that it loads.
func (s *site) loadAll(target string) (page string, wire, all int) {
	s.t.Helper()
	s.sampler.Sample(s.t.Context())
	page, wire = s.load(target)
	all = wire
	for _, address := range assetLink.FindAllStringSubmatch(page, -1) {
		_, n := s.load(address[1])
		all += n
	}
	return page, wire, all
}

var assetLink = regexp.MustCompile(`(?:src|href)="\.(/assets/[^"]+)"`)

// many makes a thousand queues, and puts a job into each.
func (s *site) many(ctx context.Context) (all []*queues.Work) {
	for i := range 1000 {
		q := s.work(fmt.Sprintf("team-%d.service-%d.jobs", i%7, i))
		_, err := q.Put(ctx, []byte("x"), work.Job{})
		testkit.NoError(s.t, err)
		all = append(all, q)
	}
	return all
}
