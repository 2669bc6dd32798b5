package dashboard

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/watch"
)

// told is a store that says how it is.
type told struct {
	kv.DB
	health kv.Health
	err    error
	asked  *atomic.Int64
}

// Syncs tells that there are two more each time that it is asked, of 100 µs and 1 ms.
func (d told) Syncs() kv.Syncs {
	n := d.asked.Add(1)
	return kv.Syncs{Count: 2 * n, Within: map[time.Duration]int64{50 * time.Microsecond: 0, 100 * time.Microsecond: n, 1000 * time.Microsecond: 2 * n}}
}

func (d told) Health(context.Context) (kv.Health, error) { return d.health, d.err }

// The page of the store says what the engine does.
func TestStoreHealth(t *testing.T) {
	members := []kv.Member{{Name: "10.0.0.1:2379", Detail: "leads"}, {Name: "10.0.0.2:2379", Down: true, Detail: "<b>timeout"}}
	for _, c := range []struct {
		name  string
		db    told
		shows []string

		overview string
	}{
		{"nothing known", told{}, []string{"answers</span></dd>", "not known", "</span> 100 µs,", "</span> 910 µs,", "</span> 982 µs</span>"}, ">answers</a>"},
		{"size", told{health: kv.Health{Bytes: 12_345_678_901}}, []string{"answers</span></dd>", "12.3 GB</dd>"}, ">answers</a>"},
		{"cluster", told{health: kv.Health{Bytes: 5000, Members: members[:1]}}, []string{"answers</span></dd>", "5.0 kB, of all members", "10.0.0.1:2379", "leads"}, ">answers</a>"},
		{"member down", told{health: kv.Health{Members: members}}, []string{"but 1 of 2 members does not", ">down<", "&lt;b&gt;timeout"}, ">1 of 2 down</a>"},
		{"problem", told{health: kv.Health{Problem: "healing", Members: members}}, []string{"but healing"}, ">has a problem</a>"},
		{"error", told{err: errors.New("no <i>quorum")}, []string{"does not say how it is: no &lt;i&gt;quorum"}, ">unclear</a>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a page waits for the answer, but not for long
				c.db.DB, c.db.asked = memory.New(memory.Options{}), new(atomic.Int64)
				s := newSiteOf(t, c.db)
				s.get("/", 200)
				has(t, s.get("/store", 200), c.shows...)
				has(t, s.get("/", 200), c.overview)
			})
		})
	}
}

// An engine that does not tell of its syncs is said not to.
func TestNoSyncs(t *testing.T) { has(t, newSite(t).get("/store", 200), "not told by this engine") }

// A queue that no snapshot has yet is shown as it is.
func TestNewQueue(t *testing.T) {
	s := newSite(t)
	s.sampler.Sample(t.Context())
	q := s.work("new")
	_, err := q.Put(t.Context(), []byte("x"))
	testkit.NoError(t, err)
	testkit.NoError(t, q.Pause(t.Context()))
	d := &Dashboard{Options: Options{Queues: s.set}}
	state, err := d.state(&visit{Context: t.Context(), caller: access.Everyone, query: url.Values{"q": {"new"}}, now: new(watch.Snapshot)}, access.Watch)
	testkit.NoError(t, err)
	if !state.Paused {
		t.Errorf("the queue is %+v", state)
	}
}
