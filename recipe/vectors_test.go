package recipe_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// vector is an item as FoundationDB's recipes store it, all in hexadecimal.
type vector struct {
	Index, Priority, Count int64
	Random, Key            string
	Value                  string `json:"value_bytes"`
	PythonValue            string `json:"python_value"`
	JavaValue              string `json:"java_value"`
}

type vectors struct {
	Queue struct {
		Range [2]string
		Items []vector
	}
	Priority struct {
		Range  [2]string
		Items  []vector
		PopMin []string `json:"pop_min_order"`
		PopMax []string `json:"pop_max_order"`
	} `json:"priority_queue"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("testdata/recipes.json")
	testkit.NoError(t, err)
	testkit.NoError(t, json.Unmarshal(data, &v))
	if len(v.Queue.Items) < 5 || len(v.Priority.Items) < 8 {
		t.Fatal("items are missing")
	}
	return v
}

func randoms(t *testing.T, items []vector) *bytes.Reader {
	t.Helper()
	var parts [][]byte
	for _, v := range items {
		parts = append(parts, fromHex(t, v.Random))
	}
	return sequence(parts...)
}

func wantRange(t *testing.T, r kv.Range, want [2]string) {
	t.Helper()
	if !bytes.Equal(r.Begin, fromHex(t, want[0])) || !bytes.Equal(r.End, fromHex(t, want[1])) {
		t.Errorf("range %x..%x, want %s", r.Begin, r.End, want)
	}
}

// wantStored compares the store with the vectors' keys and values.
func wantStored(t *testing.T, db kv.DB, items []vector, value func(vector) string) {
	t.Helper()
	err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
		for _, v := range items {
			got, err := r.Get(fromHex(t, v.Key))
			if err != nil {
				return err
			}
			if want := fromHex(t, value(v)); got == nil || !bytes.Equal(got, want) {
				t.Errorf("key %s has %x, want %x", v.Key, got, want)
			}
		}
		return nil
	})
	testkit.NoError(t, err)
	if got := values(t, db, kv.Range{}); len(got) != len(items) {
		t.Errorf("%d keys, want %d", len(got), len(items))
	}
}

// forms are how a value is stored by programs in either language.
var forms = map[string]struct {
	encode func([]byte) ([]byte, error)
	want   func(vector) string
}{
	"python": {
		func(b []byte) ([]byte, error) { return b, nil },
		func(v vector) string { return v.PythonValue },
	},
	"java": {
		func(b []byte) ([]byte, error) { return tuple.Tuple{b}.Pack() },
		func(v vector) string { return v.JavaValue },
	},
}

func TestQueueVectors(t *testing.T) {
	v := readVectors(t).Queue
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			q := recipe.NewQueue(queueItems, randoms(t, v.Items))
			wantRange(t, q.Range(), v.Range)
			var want []string
			for _, item := range v.Items {
				value, err := form.encode(fromHex(t, item.Value))
				testkit.NoError(t, err)
				want = append(want, string(value))
				transact(t, db, enqueue(q, string(value)))
			}
			wantStored(t, db, v.Items, form.want)
			if got := take(t, db, q.Dequeue); !slices.Equal(got, want) {
				t.Errorf("dequeued %q, want %q", got, want)
			}
		})
	}
}

func TestPriorityQueueVectors(t *testing.T) {
	v := readVectors(t).Priority
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			p := recipe.NewPriorityQueue(priorityItems, randoms(t, v.Items), recipe.LastPushed)
			wantRange(t, p.Range(), v.Range)
			for _, item := range v.Items {
				value, err := form.encode(fromHex(t, item.Value))
				testkit.NoError(t, err)
				transact(t, db, push(p, string(value), item.Priority))
				if got, err := p.Priority(fromHex(t, item.Key)); err != nil || got != item.Priority {
					t.Errorf("priority of %s is %d, %v", item.Key, got, err)
				}
			}
			wantStored(t, db, v.Items, form.want)
		})
	}
}

func TestPopOrders(t *testing.T) {
	v := readVectors(t).Priority
	lastPushed := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	firstPushed := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	for name, c := range map[string]struct {
		pop  taker[kv.Tx]
		want []string
	}{
		"PopMin":             {lastPushed.PopMin, v.PopMin},
		"PopMin FirstPushed": {firstPushed.PopMin, v.PopMin},
		"PopMax":             {lastPushed.PopMax, v.PopMax},
		"PopMax FirstPushed": {firstPushed.PopMax, []string{"66", "61", "63", "68", "64", "62", "65", "67"}},
		"Max, then clear":    {peekAndClear(lastPushed.Max), v.PopMax},
		"Max FirstPushed":    {peekAndClear(firstPushed.Max), []string{"66", "61", "63", "68", "64", "62", "65", "67"}},
		"Min, then clear":    {peekAndClear(firstPushed.Min), v.PopMin},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			for _, item := range v.Items {
				transact(t, db, push(lastPushed, item.Value, item.Priority))
			}
			if got := take(t, db, c.pop); !slices.Equal(got, c.want) {
				t.Errorf("popped %q, want %q", got, c.want)
			}
			wantValues(t, db, kv.Range{})
		})
	}
}

// peekAndClear makes a taker of a method that shows an item.
func peekAndClear(peek taker[kv.Reader]) taker[kv.Tx] {
	return func(tx kv.Tx) (kv.KeyValue, bool, error) {
		item, ok, err := peek(tx)
		if ok {
			tx.Clear(item.Key)
		}
		return item, ok, err
	}
}
