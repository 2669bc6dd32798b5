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
