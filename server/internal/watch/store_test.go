package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

func TestPercentilesOfSyncs(t *testing.T) {
	const ms = time.Millisecond
	within := func(some ...int64) kv.Syncs {
		s := kv.Syncs{Within: make(map[time.Duration]int64)}
		for i, n := range some {
			s.Count = n
			if i < len(some)-1 {
				s.Within[ms<<i] = n
			}
		}
		return s
	}
	for _, c := range []struct {
		before, after kv.Syncs
		want          Percentiles
	}{
		{kv.Syncs{}, kv.Syncs{}, Percentiles{}},
		{within(5, 5, 5), within(5, 5, 5), Percentiles{}},
		{kv.Syncs{}, within(100, 100, 100), Percentiles{ms / 2, 95 * ms / 100, 99 * ms / 100}},
		{within(100, 100, 100), within(100, 200, 200), Percentiles{3 * ms / 2, 195 * ms / 100, 199 * ms / 100}},
		{kv.Syncs{}, within(0, 0, 10), Percentiles{2 * ms, 2 * ms, 2 * ms}}, // longer than all bounds
	} {
		testkit.Equal(t, "percentiles", percentilesOf(c.before, c.after), c.want)
	}
}

// slowStore says how it is when it is told to, and has one more sync of a millisecond each time that it is asked.
type slowStore struct {
	kv.DB
	answer chan error
	syncs  int64
}

func (s *slowStore) Health(ctx context.Context) (kv.Health, error) {
	select {
	case err := <-s.answer:
		return kv.Health{Bytes: 7}, err
	case <-ctx.Done():
		return kv.Health{}, ctx.Err()
	}
}

func (s *slowStore) Syncs() kv.Syncs {
	s.syncs++
	return kv.Syncs{Count: s.syncs, Within: map[time.Duration]int64{time.Millisecond: s.syncs}}
}

// A store that does not say how it is holds up no pass, and is not asked again at once.
func TestStoreIsWatched(t *testing.T) { synctest.Test(t, testStoreIsWatched) }

func testStoreIsWatched(t *testing.T) {
	db, h := &slowStore{DB: memory.New(memory.Options{}), answer: make(chan error, 1)}, NewHistory()
	s := NewSampler(db, h)
	began := time.Now()
	s.Sample(t.Context())
	testkit.Equal(t, "waited", time.Since(began), healthWait)
	db.answer <- errors.New("no quorum")
	synctest.Wait()
	for range 30 * 60 {
		s.Sample(t.Context())
		time.Sleep(time.Second)
	}
	store := h.Latest().Store
	if !errors.Is(store.HealthErr, context.DeadlineExceeded) {
		t.Errorf("the store's health is %+v", store)
	}
	testkit.Equal(t, "passes", len(s.store.passes), maxPasses)
	testkit.Equal(t, "99 % of syncs", store.Sync[2], 990*time.Microsecond)
	if store.Over < 9*time.Minute || store.Over > 10*time.Minute || store.Syncs < 500 || store.Syncs > 600 {
		t.Errorf("%d syncs in %v", store.Syncs, store.Over)
	}
	db.answer <- nil
	time.Sleep(healthAfter)
	s.Sample(t.Context())
	testkit.Equal(t, "bytes", h.Latest().Store.Health.Bytes, 7)
	s.store.asking.Wait()
}
