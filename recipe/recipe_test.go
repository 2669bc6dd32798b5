package recipe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
	"pgregory.net/rapid"
)

// set writes a key of the given tuple behind a prefix.
func set(key []byte, err error) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		tx.Set(key, []byte("set"))
		return err
	}
}

func TestEmpty(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	for name, next := range map[string]taker[kv.Tx]{
		"Dequeue": q.Dequeue, "PopMin": p.PopMin, "PopMax": p.PopMax,
		"First": peekAndClear(q.First), "Min": peekAndClear(p.Min), "Max": peekAndClear(p.Max),
	} {
		transact(t, db, func(tx kv.Tx) error {
			item, ok, err := next(tx)
			if ok || err != nil || item.Key != nil || item.Value != nil {
				t.Errorf("%s = %v, %v, %v", name, item, ok, err)
			}
			return nil
		})
	}
}

// zeros is a random source. It repeats itself, so that keys can be compared.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// NextKeys returns the keys that items get which are added one by one.
func TestNextKeys(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, zeros{})
	p := recipe.NewPriorityQueue(priorityItems, zeros{}, recipe.LastPushed)
	for round, priorities := range [][]int64{{6, 0, -300, 6, 5, 0}, {5}, {math.MaxInt64, -300, 5, 7, 5, math.MinInt64}, nil} {
		transact(t, db, func(tx kv.Tx) error {
			indexes, err := q.NextKeys(tx, len(priorities), nil)
			if err != nil {
				return err
			}
			counts, err := p.NextKeys(tx, priorities, nil)
			if err != nil {
				return err
			}
			for i, priority := range priorities {
				index, err := q.NextKey(tx)
				if err != nil || !bytes.Equal(index, indexes[i]) {
					t.Errorf("round %d: key %d is %x, want %x, %v", round, i, indexes[i], index, err)
				}
				count, err := p.NextKey(tx, priority)
				if err != nil || !bytes.Equal(count, counts[i]) {
					t.Errorf("round %d: key %d, of priority %d, is %x, want %x, %v", round, i, priority, counts[i], count, err)
				}
				tx.Set(index, nil)
				tx.Set(count, nil)
			}
			return nil
		})
	}
}

// What is in use elsewhere is as if it were in the queue, for its own priority.
func TestNextKeysInUse(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, zeros{})
	p := recipe.NewPriorityQueue(priorityItems, zeros{}, recipe.LastPushed)
	transact(t, db, enqueue(q, "1", "2", "3"))
	transact(t, db, push(p, "0", 7))
	upTo := func(last int64) recipe.InUse {
		return func(_ kv.Tx, group []byte) (int64, bool, error) {
			return last, len(group) == 0 || bytes.Equal(group, tuple.AppendInt(nil, 7)), nil
		}
	}
	for last, want := range map[int64]string{2: "4 5, 3 0 4", 3: "4 5, 4 0 5", 9: "10 11, 10 0 11"} {
		transact(t, db, func(tx kv.Tx) error {
			indexes, err := q.NextKeys(tx, 2, upTo(last))
			if err != nil {
				return err
			}
			counts, err := p.NextKeys(tx, []int64{7, 8, 7}, upTo(last))
			if err != nil {
				return err
			}
			if got := integers(t, queueItems, 0, indexes) + ", " + integers(t, priorityItems, 1, counts); got != want {
				t.Errorf("up to %d: %s, want %s", last, got, want)
			}
			return nil
		})
	}
	failed := errors.New("failed")
	fails := func(kv.Tx, []byte) (int64, bool, error) { return 0, true, failed }
	for _, c := range []struct {
		inUse recipe.InUse
		want  error
	}{{upTo(math.MaxInt64), recipe.ErrNoIndex}, {fails, failed}} {
		transact(t, db, func(tx kv.Tx) error {
			_, err1 := q.NextKeys(tx, 1, c.inUse)
			_, err2 := p.NextKeys(tx, []int64{7}, c.inUse)
			if !errors.Is(err1, c.want) || !errors.Is(err2, c.want) {
				t.Errorf("%v, %v, want %v", err1, err2, c.want)
			}
			return nil
		})
	}
}

// integers returns the nth integer of each key.
func integers(t *testing.T, items subspace.Subspace, nth int, keys [][]byte) string {
	t.Helper()
	var all []string
	for _, key := range keys {
		elems, err := items.Unpack(key)
		testkit.NoError(t, err)
		all = append(all, fmt.Sprint(elems[nth]))
	}
	return strings.Join(all, " ")
}

// A caller may add any integer to a key, 0 too, which is one byte.
func TestIntegerBehindKey(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	var want []string
	for _, i := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		want = append(want, fmt.Sprint(i))
		transact(t, db, func(tx kv.Tx) error {
			key, err := q.NextKey(tx)
			if err == nil {
				tx.Set(tuple.AppendInt(key, i), []byte(fmt.Sprint(i)))
			}
			return err
		})
	}
	if got := take(t, db, q.Dequeue); !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
}

func TestIndexOverflow(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	transact(t, db, set(queueItems.Pack(tuple.Tuple{int64(math.MaxInt64 - 1), []byte("r")})))
	transact(t, db, set(priorityItems.Pack(tuple.Tuple{3, int64(math.MaxInt64 - 1), []byte("r")})))
	transact(t, db, enqueue(q, "last"))
	transact(t, db, push(p, "last", 3))
	for name, f := range map[string]func(kv.Tx) error{"Enqueue": enqueue(q, "more"), "Push": push(p, "more", 3)} {
		if err := db.Transact(t.Context(), f); !errors.Is(err, recipe.ErrNoIndex) {
			t.Errorf("%s: %v, want ErrNoIndex", name, err)
		}
	}
	transact(t, db, push(p, "other", 4))
	wantValues(t, db, q.Range(), "set", "last")
	if got := take(t, db, p.PopMin); !slices.Equal(got, []string{"set", "last", "other"}) {
		t.Errorf("popped %q", got)
	}
	take(t, db, q.Dequeue)
	transact(t, db, enqueue(q, "anew"))
	wantValues(t, db, q.Range(), "anew")
}

// The zero value of a queue changes nothing of the store.
func TestZeroQueue(t *testing.T) {
	db := open(t)
	transact(t, db, enqueue(recipe.NewQueue(queueItems, nil), "item"))
	var q recipe.Queue
	var p recipe.PriorityQueue
	for name, f := range map[string]func(kv.Tx) error{
		"Enqueue":    enqueue(q, "more"),
		"Dequeue":    does(q.Dequeue),
		"Clear":      func(tx kv.Tx) error { q.Clear(tx); return nil },
		"Push":       push(p, "more", 1),
		"PopMin":     does(p.PopMin),
		"PopMax":     does(p.PopMax),
		"Clear, too": func(tx kv.Tx) error { p.Clear(tx); return nil },
		"NextKeys":   func(tx kv.Tx) error { _, err := p.NextKeys(tx, []int64{1}, nil); return err },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "must be made by") {
					t.Errorf("%s of the zero value: %s", name, text)
				}
			}()
			t.Errorf("%s of the zero value returned %v", name, db.Transact(t.Context(), f))
		}()
	}
	wantValues(t, db, kv.Range{}, "item")
}

func TestRandomSourceFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		source io.Reader
		want   error
	}{
		"fails": {iotest.ErrReader(broken), broken},
		"ends":  {strings.NewReader("too short"), io.ErrUnexpectedEOF},
		"empty": {strings.NewReader(""), io.EOF},
	} {
		db := open(t)
		q := recipe.NewQueue(queueItems, c.source)
		p := recipe.NewPriorityQueue(priorityItems, c.source, recipe.LastPushed)
		if err := db.Transact(t.Context(), enqueue(q, "x")); !errors.Is(err, c.want) {
			t.Errorf("%s: Enqueue: %v, want %v", name, err, c.want)
		}
		if err := db.Transact(t.Context(), push(p, "x", 1)); err == nil {
			t.Errorf("%s: Push: no error", name)
		}
		wantValues(t, db, kv.Range{})
	}
	db := open(t)
	slow := iotest.OneByteReader(sequence(make([]byte, 20)))
	transact(t, db, enqueue(recipe.NewQueue(queueItems, slow), "x"))
	wantValues(t, db, kv.Range{}, "x")
}

// An integer more in a key changes nothing.
func TestKeyWithOneMoreInteger(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	for i, value := range []string{"a", "b", "c"} {
		transact(t, db, func(tx kv.Tx) error {
			key, err := q.NextKey(tx)
			tx.Set(tuple.AppendInt(key, int64(i)), []byte(value))
			return err
		})
		transact(t, db, func(tx kv.Tx) error {
			key, err := p.NextKey(tx, -4)
			key = tuple.AppendInt(key, math.MaxInt64)
			tx.Set(key, []byte(value))
			if got, err := p.Priority(key); err != nil || got != -4 {
				t.Errorf("priority is %d, %v", got, err)
			}
			return err
		})
		transact(t, db, enqueue(q, value+"+"))
		transact(t, db, push(p, value+"+", -4))
	}
	want := []string{"a", "a+", "b", "b+", "c", "c+"}
	for name, next := range map[string]taker[kv.Tx]{"Dequeue": q.Dequeue, "PopMax": p.PopMax} {
		if got := take(t, db, next); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Several keys from one transaction differ, and keep their order.
func TestOneTransaction(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	transact(t, db, enqueue(q, "old"))
	transact(t, db, func(tx kv.Tx) error {
		if err := enqueue(q, "a", "b", "c")(tx); err != nil {
			return err
		}
		for _, want := range []string{"old", "a"} {
			if item, ok, err := q.Dequeue(tx); err != nil || !ok || string(item.Value) != want {
				t.Errorf("dequeued %s, %v, %v; want %s", item.Value, ok, err, want)
			}
		}
		return nil
	})
	wantValues(t, db, q.Range(), "b", "c")
	failed := errors.New("failed")
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		q.Clear(tx)
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	wantValues(t, db, q.Range(), "b", "c")
	transact(t, db, func(tx kv.Tx) error { q.Clear(tx); return enqueue(q, "d")(tx) })
	wantValues(t, db, q.Range(), "d")
}

func TestClear(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	transact(t, db, enqueue(q, "a", "b"))
	transact(t, db, push(p, "c", math.MinInt64))
	transact(t, db, push(p, "d", math.MaxInt64))
	transact(t, db, func(tx kv.Tx) error { q.Clear(tx); return nil })
	wantValues(t, db, kv.Range{}, "c", "d")
	transact(t, db, func(tx kv.Tx) error { p.Clear(tx); return nil })
	wantValues(t, db, kv.Range{})
}

// A read that fails is an error of every method, and never an empty queue.
func TestReadFails(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	firstPushed := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	transact(t, db, enqueue(q, "a"))
	transact(t, db, push(p, "b", 1))
	failed := errors.New("failed")
	for name, next := range map[string]taker[kv.Tx]{
		"Dequeue": q.Dequeue, "First": peekAndClear(q.First), "NextKey": nextKey(q.NextKey), "Items": itemsOf(q.Items),
		"PopMin": p.PopMin, "PopMax": p.PopMax, "PopMax FirstPushed": firstPushed.PopMax,
		"Min": peekAndClear(p.Min), "Max": peekAndClear(p.Max), "priority Items": itemsOf(p.Items),
		"priority NextKey": nextKey(func(tx kv.Tx) ([]byte, error) { return p.NextKey(tx, 1) }),
	} {
		transact(t, db, func(tx kv.Tx) error {
			item, ok, err := next(failing{tx, failed})
			if ok || item.Key != nil || !errors.Is(err, failed) {
				t.Errorf("%s = %v, %v, %v", name, item, ok, err)
			}
			return nil
		})
	}
	wantValues(t, db, kv.Range{}, "b", "a")
}

// failing is a transaction whose range reads fail.
type failing struct {
	kv.Tx
	err error
}

func (f failing) Snapshot() kv.Reader { return f }

func (f failing) Range(kv.Range, kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) { yield(kv.KeyValue{}, f.err) }
}

// Keys that are returned share no memory with anything.
func TestKeysAreTheCallers(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, sequence(make([]byte, 40)))
	transact(t, db, func(tx kv.Tx) error {
		first, err := q.NextKey(tx)
		if err != nil {
			return err
		}
		want := bytes.Clone(first)
		clear(first)
		second, err := q.NextKey(tx)
		if !bytes.Equal(second, want) {
			t.Errorf("second key is %x, want %x", second, want)
		}
		return err
	})
}

func TestItems(t *testing.T) {
	db := open(t)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	transact(t, db, enqueue(q, "a", "b", "c"))
	for i, priority := range []int64{2, math.MinInt64, 2, math.MaxInt64} {
		transact(t, db, push(p, fmt.Sprint(i), priority))
	}
	collect := func(items func(kv.Reader, kv.RangeOptions) func(func(kv.KeyValue, error) bool), opts kv.RangeOptions) (out string) {
		transact(t, db, func(tx kv.Tx) error {
			for item, err := range items(tx, opts) {
				if err != nil {
					return err
				}
				out += string(item.Value)
			}
			return nil
		})
		return out
	}
	queue := func(r kv.Reader, o kv.RangeOptions) func(func(kv.KeyValue, error) bool) { return q.Items(r, o) }
	priority := func(r kv.Reader, o kv.RangeOptions) func(func(kv.KeyValue, error) bool) { return p.Items(r, o) }
	for _, c := range []struct{ got, want string }{
		{collect(queue, kv.RangeOptions{}), "abc"},
		{collect(queue, kv.RangeOptions{Limit: 2}), "ab"},
		{collect(queue, kv.RangeOptions{Limit: 2, Reverse: true}), "cb"},
		{collect(priority, kv.RangeOptions{}), "1023"},
		{collect(priority, kv.RangeOptions{Reverse: true}), "3201"},
	} {
		if c.got != c.want {
			t.Errorf("items %q, want %q", c.got, c.want)
		}
	}
}

// pushed is an item of the model, which is a slice in order of pushing.
type pushed struct {
	value    string
	priority int64
}

// extreme returns the first or last item of the lowest or highest priority.
func extreme(model []pushed, highest, last bool) int {
	best := 0
	for i, item := range model {
		better := item.priority < model[best].priority
		if highest {
			better = item.priority > model[best].priority
		}
		if better || last && item.priority == model[best].priority {
			best = i
		}
	}
	return best
}

// Random operations, several in a transaction, against a plain slice.
func TestPriorityQueueModel(t *testing.T) {
	edges := rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -256, -255, -1, 0, 1, 255, 256, math.MaxInt64 - 1, math.MaxInt64})
	rapid.Check(t, func(rt *rapid.T) {
		db := open(t)
		p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
		first := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
		var model []pushed
		pop := func(tx kv.Tx, next taker[kv.Tx], highest, last bool) {
			item, ok, err := next(tx)
			if err != nil || ok != (len(model) > 0) {
				rt.Fatalf("%v, %v with %d items", ok, err, len(model))
			}
			if !ok {
				return
			}
			i := extreme(model, highest, last)
			priority, err := p.Priority(item.Key)
			if got := (pushed{string(item.Value), priority}); err != nil || got != model[i] {
				rt.Fatalf("popped %v, %v; want %v", got, err, model[i])
			}
			model = slices.Delete(model, i, i+1)
		}
		n := 0
		for range rapid.IntRange(1, 8).Draw(rt, "transactions") {
			transact(t, db, func(tx kv.Tx) error {
				for range rapid.IntRange(1, 8).Draw(rt, "operations") {
					switch rapid.IntRange(0, 12).Draw(rt, "operation") {
					case 0:
						pop(tx, p.PopMin, false, false)
					case 1:
						pop(tx, p.PopMax, true, true)
					case 2:
						pop(tx, first.PopMax, true, false)
					case 3:
						pop(tx, peekAndClear(p.Min), false, false)
					case 4:
						pop(tx, peekAndClear(p.Max), true, true)
					case 5:
						pop(tx, peekAndClear(first.Max), true, false)
					default:
						n++
						item := pushed{fmt.Sprint(n), edges.Draw(rt, "priority")}
						model = append(model, item)
						if err := p.Push(tx, []byte(item.value), item.priority); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	})
}
