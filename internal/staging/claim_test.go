package staging

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// pythonWorld is a world whose clients follow the Python algorithm.
type pythonWorld struct {
	t  *testing.T
	db kv.DB
	m  *mortal // of the victim

	mu  sync.Mutex
	got map[string]int
	wg  sync.WaitGroup
}

func newPythonWorld(t *testing.T, m *mortal) *pythonWorld {
	w := &pythonWorld{t: t, db: testkit.NewMemory(t, kv.Limits{}), m: m, got: map[string]int{}}
	m.DB, m.name = w.db, pythonStep
	for i := range worldItems {
		testkit.NoError(t, w.db.Transact(t.Context(), func(tx kv.Tx) error {
			return pythonQueue{}.push(tx, fmt.Append(nil, i))
		}))
	}
	return w
}

func (w *pythonWorld) pop(db kv.DB) {
	v, err := pythonQueue{}.pop(context.Background(), db)
	if err != nil && !errors.Is(err, errDead) {
		w.t.Errorf("a client: %v", err)
	}
	if err == nil && v != nil {
		w.mu.Lock()
		w.got[string(v)]++
		w.mu.Unlock()
	}
}

// pythonScenarios bring the victim to each step.
var pythonScenarios = []struct {
	name string
	run  func(*pythonWorld)
}{
	{"alone", func(w *pythonWorld) { w.pop(w.m) }},
	{"behind another", func(w *pythonWorld) {
		if _, err := (pythonQueue{}).request(context.Background(), w.db); err != nil {
			w.t.Error(err) // of a client that has just popped alone in vain, and dies
		}
		w.pop(w.m)
	}},
	{"is served", func(w *pythonWorld) {
		if _, err := (pythonQueue{}).request(context.Background(), w.db); err != nil {
			w.t.Error(err)
		}
		w.m.before = func(n int) {
			if n == 2 { // it has registered
				w.wg.Go(func() { w.pop(w.db) })
				synctest.Wait()
			}
		}
		w.pop(w.m)
	}},
}

// lost drains the queue and returns how many items nobody has got: those are
// neither in the queue nor does anybody wait for them.
func (w *pythonWorld) lost() (n int) {
	w.wg.Wait()
	pass(time.Hour)
	for {
		v, err := pythonQueue{}.pop(context.Background(), w.db)
		testkit.NoError(w.t, err)
		if v == nil {
			break
		}
		w.got[string(v)]++
	}
	for i := range worldItems {
		if w.got[strconv.Itoa(i)] == 0 {
			n++
		}
	}
	return n
}

// TestPythonLoses shows where the algorithm of FoundationDB's Python layer loses
// items: the same cases as in TestKill, where ours loses none.
func TestPythonLoses(t *testing.T) {
	type where struct {
		fate fate
		step string
	}
	lost := map[where]int{}
	for f := range fates {
		for _, scenario := range pythonScenarios {
			for at, more := 1, true; more; at++ {
				m := &mortal{at: at, fate: f}
				n := 0
				testkit.Bubble(t, func(t *testing.T) {
					w := newPythonWorld(t, m)
					scenario.run(w)
					n = w.lost()
				})
				if scenario.name == "behind another" || scenario.name == "is served" {
					n-- // that of the dead client, which is lost in each case
				}
				lost[where{f, m.hit}] = max(lost[where{f, m.hit}], n)
				more = m.hit != ""
			}
		}
	}
	// What a client has taken that died after its last commit counts as delivered.
	for _, w := range []where{
		{diesAfter, "register"}, {diesBefore, "collect"}, {diesAfter, "fulfil"},
		{unknownApplied, "pop alone"}, {unknownApplied, "register"}, {unknownApplied, "collect"},
	} {
		if lost[w] <= 0 {
			t.Errorf("%s at %q: nothing is lost, but something should be", fates[w.fate], w.step)
		}
	}
}

// hundred has 100 clients register before the first of them fulfils, for 100
// values of the largest size, which do not fit into one transaction together. It
// returns how many of them got one, and how many an error.
func hundred(t *testing.T, push func(kv.Tx, []byte) error, pop func(kv.DB) (bool, error)) (got, failed int) {
	const clients, size = 100, 100_000
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Transaction: 10_000_000, Value: size})
		for range clients {
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return push(tx, make([]byte, size)) }))
		}
		registered := make(chan struct{})
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				ok, err := pop(&mortal{DB: db, name: func(*mortal, *recorder) string { return "" }, before: func(n int) {
					if n == 2 {
						<-registered
					}
				}})
				mu.Lock()
				defer mu.Unlock()
				if ok {
					got++
				}
				if err != nil {
					failed++
					if !errors.Is(err, kv.ErrTooLarge) {
						t.Error(err)
					}
				}
			})
			synctest.Wait()
		}
		close(registered)
		wg.Wait()
	})
	return got, failed
}

// TestHundredLargeValues checks that 100 values of 100 kB stop nobody who waits.
func TestHundredLargeValues(t *testing.T) {
	got, failed := hundred(t, testQueue.Enqueue, func(db kv.DB) (bool, error) {
		v, err := Take(context.Background(), stage(db, Options{}), Front, 1, values)
		return len(v) == 1, err
	})
	if got != 100 || failed != 0 {
		t.Errorf("%d clients got a value and %d an error; want each of 100 to get one", got, failed)
	}
}

// TestPythonStops shows that in the Python algorithm they stop everybody.
func TestPythonStops(t *testing.T) {
	testkit.Long(t)
	q := pythonQueue{}
	first := true
	got, failed := hundred(t, q.push, func(db kv.DB) (bool, error) {
		if first { // without a request everybody would pop alone, one after the other
			first = false
			if _, err := q.request(context.Background(), db); err != nil {
				return false, err
			}
		}
		v, err := q.pop(context.Background(), db)
		return v != nil && err == nil, err
	})
	if got != 0 || failed != 100 {
		t.Errorf("%d clients got a value and %d an error; want an error for each of 100", got, failed)
	}
}
