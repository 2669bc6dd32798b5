package handle

import (
	"errors"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// openTest opens the queue "q". Its payloads are its values.
func openTest(t testing.TB, db kv.DB, kind types.Kind, opts ...Options) *Handle {
	t.Helper()
	o := Options{}
	if len(opts) > 0 {
		o = opts[0]
	}
	h, err := Open(t.Context(), db, "q", kind, nil, o)
	testkit.NoError(t, err)
	return h
}

// add adds an item for each payload.
func add(t testing.TB, h *Handle, payloads ...string) {
	t.Helper()
	testkit.NoError(t, h.Add(t.Context(), itemsOf(payloads...)...))
}

func itemsOf(payloads ...string) (items []Item) {
	for _, p := range payloads {
		items = append(items, Item{Payload: []byte(p)})
	}
	return items
}

// texts returns the payloads of items.
func texts(items []Item) string {
	var all []string
	for _, item := range items {
		all = append(all, string(item.Payload))
	}
	return strings.Join(all, " ")
}

// A caller that is told that there is nothing, beside others that get something, must be right when that
// is committed; one that gets all that it wanted need not care what else is there. Where other processes
// share the store, the take counts as done where it has read, and only others that take its items matter.
func TestTakeBesideOthers(t *testing.T) {
	adds := func(h *Handle) error { return h.Add(t.Context(), itemsOf("b")...) }
	takes := func(h *Handle) error { return testkit.Drop(h.Take(t.Context(), types.Min, 1)) }
	ahead := func(h *Handle) error { // as one that has seen an older last item
		key, err := tuple.Tuple{0, make([]byte, 20)}.Append(h.space.Prefix())
		testkit.Write(t, h.db, kv.KeyValue{Key: key, Value: []byte("0")})
		return err
	}
	for _, c := range []struct {
		there    string
		beside   func(*Handle) error // in the first attempt
		wants    []int
		on       conflicts
		shared   bool
		attempts int
		got      string
	}{
		{"a", adds, []int{1, 1}, ofEmpty, false, 2, "a b"},
		{"a", adds, []int{2}, ofEmpty, false, 1, "a"},
		{"a b", adds, []int{3}, ofEmpty, false, 1, "a b"},
		{"", adds, []int{3}, ofEmpty, false, 2, "b"},
		{"a b", takes, []int{3}, ofEmpty, false, 2, "b"},
		{"a", adds, []int{2}, ofAll, false, 2, "a b"},
		{"a", adds, []int{1}, ofAll, false, 1, "a"},
		{"a", adds, []int{1, 1}, ofTaken, false, 1, "a"},
		{"a", adds, []int{1, 1}, ofEmpty, true, 1, "a"},
		{"a", adds, []int{3}, ofEmpty, true, 1, "a"},
		{"", adds, []int{3}, ofEmpty, true, 1, ""},
		{"a b", takes, []int{3}, ofEmpty, true, 2, "b"},
		{"a b", takes, []int{1}, ofEmpty, true, 2, "b"},
		{"a", ahead, []int{1}, ofEmpty, true, 1, "a"},
		{"a", ahead, []int{1}, ofEmpty, false, 2, "0"},
		{"a", ahead, []int{1}, ofAll, true, 2, "0"},
		{"a", adds, []int{2}, ofAll, true, 2, "a b"},
		{"a b", takes, []int{2}, ofTaken, true, 2, "b"},
	} {
		db := testkit.NewMemory(t, kv.Limits{Shared: c.shared})
		h := openTest(t, db, types.KindQueue)
		add(t, h, strings.Fields(c.there)...)
		attempts := 0
		var got []Item
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			attempts++
			results, _, err := h.ends[types.Min].takeIn(tx, c.wants, sum(c.wants), c.on)
			if err != nil {
				return err
			}
			tx.Set([]byte("so that it may conflict"), nil)
			got = nil
			for _, r := range results {
				got = append(got, r.items...)
			}
			if attempts == 1 {
				return c.beside(h)
			}
			return nil
		}))
		testkit.Equal(t, "attempts", attempts, c.attempts)
		testkit.Equal(t, "items", texts(got), c.got)
	}
}

// A call whose items end before one that does not decode keeps them; those behind it get the error.
func TestResultsBeforeBroken(t *testing.T) {
	for _, engine := range []kv.DB{testkit.NewMemory(t, kv.Limits{}), testkit.NewMemory(t, kv.Limits{Value: 100})} {
		h := openTest(t, engine, types.KindQueue)
		add(t, h, "first", strings.Repeat("second", 50))
		broken, err := tuple.Tuple{9, "x"}.Append(h.space.Prefix())
		testkit.NoError(t, err)
		testkit.Write(t, engine, kv.KeyValue{Key: broken})
		undone := errors.New("undone")
		testkit.WantError(t, engine.Transact(t.Context(), func(tx kv.Tx) error {
			results, _, err := h.ends[types.Min].takeIn(tx, []int{3, 1}, 4, ofEmpty)
			testkit.NoError(t, err)
			testkit.Equal(t, "items of the first call", len(results[0].items), 2)
			for _, other := range results[1:] {
				testkit.WantError(t, other.err, types.ErrDecode)
			}
			return undone
		}), undone)
	}
}

// Without decode a handle keeps payloads as they are; with one that fails, the item stays.
func TestDecode(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	h := openTest(t, db, types.KindPriorityQueue)
	testkit.NoError(t, h.Add(t.Context(), Item{Payload: []byte("low"), Priority: -1}, Item{Payload: []byte("high"), Priority: 7}))
	refused := errors.New("refused")
	picky, err := Open(t.Context(), db, "q", types.KindPriorityQueue, func(b []byte) (any, error) {
		if string(b) == "low" {
			return nil, refused
		}
		return len(b), nil
	}, Options{})
	testkit.NoError(t, err)
	_, err = picky.Take(t.Context(), types.Min, 2)
	testkit.WantError(t, err, types.ErrDecode)
	testkit.WantError(t, err, refused)
	items, err := picky.Take(t.Context(), types.Max, 2)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", len(items), 1)
	testkit.Equal(t, "value", items[0].Value, any(4))
	items, err = h.Take(t.Context(), types.Max, 2)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", texts(items), "low")
	testkit.Equal(t, "priority", items[0].Priority, -1)
}

// A Queue has one end.
func TestEnds(t *testing.T) {
	h := openTest(t, testkit.NewMemory(t, kv.Limits{}), types.KindQueue)
	for _, e := range []types.End{-1, types.Max, 2} {
		_, err := h.Take(t.Context(), e, 1)
		if err == nil || !strings.Contains(err.Error(), "no items are taken at end") {
			t.Errorf("end %d: %v", e, err)
		}
	}
}
