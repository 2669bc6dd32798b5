package recipe_test

import (
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// publishedEnqueue has the key scheme of the queue among FoundationDB's Go
// recipes, which leaves the random element out: (items, index).
func publishedEnqueue(items subspace.Subspace, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		index := int64(0)
		for last, err := range tx.Snapshot().Range(items.Range(), kv.RangeOptions{Limit: 1, Reverse: true}) {
			if err != nil {
				return err
			}
			t, err := items.Unpack(last.Key)
			if err != nil {
				return err
			}
			index = t[0].(int64)
		}
		key, err := items.Pack(tuple.Tuple{index + 1})
		if err != nil {
			return err
		}
		tx.Set(key, []byte(value))
		return nil
	}
}

// Two enqueues that saw the same last item: the published recipe writes one key
// twice, and an item is lost.
func TestSameIndexLosesNothing(t *testing.T) {
	db := open(t)
	published := subspace.Named("published")
	transact(t, db, publishedEnqueue(published, "zero"))
	if n := together(t, db, publishedEnqueue(published, "a"), publishedEnqueue(published, "b")); n != 1 {
		t.Errorf("published recipe: %d attempts", n)
	}
	wantValues(t, db, published.Range(), "zero", "a")

	q := recipe.NewQueue(queueItems, sequence(make([]byte, 20), slices.Repeat([]byte{9}, 20), slices.Repeat([]byte{5}, 20)))
	transact(t, db, enqueue(q, "zero"))
	if n := together(t, db, enqueue(q, "a"), enqueue(q, "b")); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	wantValues(t, db, q.Range(), "zero", "b", "a") // one index, by the random elements
}

func TestQueueConflicts(t *testing.T) {
	q := recipe.NewQueue(queueItems, nil)
	ahead := func(tx kv.Tx) error { // an enqueue that saw an older last item
		key, err := queueItems.Pack(tuple.Tuple{0, make([]byte, 20)})
		tx.Set(key, []byte("ahead"))
		return err
	}
	first := func(tx kv.Tx) (kv.KeyValue, bool, error) { // a Peek that decides on a write
		item, ok, err := q.First(tx)
		tx.Set([]byte("seen"), item.Value)
		return item, ok, err
	}
	snapshot := func(tx kv.Tx) (kv.KeyValue, bool, error) {
		item, ok, err := q.First(tx.Snapshot())
		tx.Set([]byte("seen"), item.Value)
		return item, ok, err
	}
	clearAll := func(tx kv.Tx) error { q.Clear(tx); return nil }
	two := []string{"a", "b"}
	for name, c := range map[string]struct {
		before        []string
		first, second func(kv.Tx) error
		attempts      int
		after         []string
	}{
		"enqueue, enqueue":         {two, enqueue(q, "c"), enqueue(q, "c"), 1, []string{"a", "b", "c", "c"}},
		"enqueue, enqueue, empty":  {nil, enqueue(q, "c"), enqueue(q, "c"), 1, []string{"c", "c"}},
		"enqueue, dequeue":         {two, enqueue(q, "c"), does(q.Dequeue), 1, []string{"b", "c"}},
		"enqueue, dequeue of last": {[]string{"a"}, enqueue(q, "c"), does(q.Dequeue), 1, []string{"c"}},
		"enqueue, clear":           {two, enqueue(q, "c"), clearAll, 1, []string{"c"}},
		"clear, enqueue":           {two, clearAll, enqueue(q, "c"), 1, nil},
		"dequeue, enqueue":         {[]string{"a"}, does(q.Dequeue), enqueue(q, "c"), 1, []string{"c"}},
		"dequeue, dequeue":         {[]string{"a", "b", "c"}, does(q.Dequeue), does(q.Dequeue), 2, []string{"c"}},
		"dequeue, enqueue, empty":  {nil, does(q.Dequeue), enqueue(q, "c"), 1, []string{"c"}}, // it writes nothing
		"dequeue, enqueue ahead":   {two, does(q.Dequeue), ahead, 2, two},
		"first, dequeue":           {two, does(first), does(q.Dequeue), 2, []string{"b"}},
		"first, enqueue":           {two, does(first), enqueue(q, "c"), 1, []string{"a", "b", "c"}},
		"first, enqueue, empty":    {nil, does(first), enqueue(q, "c"), 2, []string{"c"}},
		"snapshot first, dequeue":  {two, does(snapshot), does(q.Dequeue), 1, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			transact(t, db, enqueue(q, c.before...))
			if n := together(t, db, c.first, c.second); n != c.attempts {
				t.Errorf("%d attempts, want %d", n, c.attempts)
			}
			wantValues(t, db, q.Range(), c.after...)
		})
	}
}

// Priorities 1, 5 and 9 have an item each, 5 and 9 have two.
func TestPriorityQueueConflicts(t *testing.T) {
	last := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	firstPushed := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	at := func(priority int64) func(kv.Tx) error { return push(last, "new", priority) }
	ahead := func(priority int64) func(kv.Tx) error { // a push that saw an older last item
		return func(tx kv.Tx) error {
			key, err := priorityItems.Pack(tuple.Tuple{priority, -1, make([]byte, 20)})
			tx.Set(key, []byte("new"))
			return err
		}
	}
	popsAt := map[string]map[string]int{ // attempts of the pop, by what overtakes it
		"PopMin":             {"push 0": 2, "push 1": 1, "push 9": 1, "ahead 1": 2, "PopMin": 2, "PopMax": 1, "PopMax FirstPushed": 1},
		"PopMax":             {"push 9": 2, "push 10": 2, "push 5": 1, "ahead 9": 1, "PopMin": 1, "PopMax": 2, "PopMax FirstPushed": 1},
		"PopMax FirstPushed": {"push 9": 1, "push 10": 2, "push 5": 1, "ahead 9": 2, "PopMin": 1, "PopMax": 1, "PopMax FirstPushed": 2},
		"Max FirstPushed":    {"push 9": 2, "push 10": 2, "push 5": 1, "ahead 9": 2, "PopMin": 1, "PopMax": 2, "PopMax FirstPushed": 2},
		"push":               {"push 9": 1, "push 10": 1, "push 0": 1, "PopMin": 1, "PopMax": 1, "PopMax FirstPushed": 1},
	}
	actions := map[string]func(kv.Tx) error{
		"PopMin": does(last.PopMin), "PopMax": does(last.PopMax), "PopMax FirstPushed": does(firstPushed.PopMax),
		"Max FirstPushed": does(peekAndClear(firstPushed.Max)), "push": at(9),
		"push 0": at(0), "push 1": at(1), "push 5": at(5), "push 9": at(9), "push 10": at(10),
		"ahead 1": ahead(1), "ahead 9": ahead(9),
	}
	for pop, overtakers := range popsAt {
		for overtaker, want := range overtakers {
			t.Run(pop+", "+overtaker, func(t *testing.T) {
				db := open(t)
				for _, priority := range []int64{1, 5, 5, 9, 9} {
					transact(t, db, push(last, "old", priority))
				}
				if n := together(t, db, actions[pop], actions[overtaker]); n != want {
					t.Errorf("%d attempts, want %d", n, want)
				}
			})
		}
	}
}

// An empty queue was empty when the transaction committed.
func TestEmptyPriorityQueueConflicts(t *testing.T) {
	for _, ties := range []recipe.Ties{recipe.LastPushed, recipe.FirstPushed} {
		p := recipe.NewPriorityQueue(priorityItems, nil, ties)
		for name, pop := range map[string]taker[kv.Tx]{"PopMin": p.PopMin, "PopMax": p.PopMax} {
			db := open(t)
			note := func(tx kv.Tx) error {
				item, ok, err := pop(tx)
				if ok {
					tx.Set([]byte("popped"), item.Value)
				} else {
					tx.Set([]byte("was empty"), nil)
				}
				return err
			}
			if n := together(t, db, note, push(p, "x", 3)); n != 2 {
				t.Errorf("%s: %d attempts, want 2", name, n)
			}
			wantValues(t, db, kv.Range{}, "x")
		}
	}
}
