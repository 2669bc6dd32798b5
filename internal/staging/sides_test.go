package staging

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// prioritySource is a priority queue of the recipe with all its sides.
type prioritySource struct {
	recipe.PriorityQueue
	space  subspace.Subspace
	orders [sides]recipe.Order
}

func newPrioritySource() prioritySource {
	space := subspace.Named("p")
	last, first := recipe.NewPriorityQueue(space, nil, recipe.LastPushed), recipe.NewPriorityQueue(space, nil, recipe.FirstPushed)
	return prioritySource{last, space, [sides]recipe.Order{Front: last.MinOrder(), Back: last.MaxOrder(), BackFIFO: first.MaxOrder()}}
}

func (s prioritySource) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return s.orders[side].Items(r, limit)
}

func (s prioritySource) Keys([]byte) int { return 1 }

func (s prioritySource) Place(key []byte) (group, place []byte) {
	fields := key[len(s.space.Bytes()):]
	_, one, err := tuple.Next(fields)
	if err != nil {
		return nil, nil
	}
	_, two, err := tuple.Next(one)
	if err != nil {
		return nil, nil
	}
	return fields[:len(fields)-len(one)], fields[:len(fields)-len(two)]
}

// priorityStage is the staging of a priority queue that holds values, each with
// the priority that its digit says.
func priorityStage(t *testing.T, values string) (func() *Stage, kv.DB) {
	t.Helper()
	db, source := testkit.NewMemory(t, kv.Limits{}), newPrioritySource()
	for _, v := range strings.Fields(values) {
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			return source.Push(tx, []byte(v), int64(v[1]-'0'))
		}))
	}
	return func() *Stage {
		return New(db, Options{Source: source, Space: subspace.Named("stage"), Outcomes: subspace.Named("outcomes")})
	}, db
}

// TestSides checks which item each side takes.
func TestSides(t *testing.T) {
	const items = "a1 b2 c2 d3 e3 f3"
	for _, c := range []struct {
		name  string
		sides []Side
		n     int
		want  string // what they get, in the order of their requests
	}{
		{"front", []Side{Front, Front}, 2, "a1 b2, c2 d3"},
		{"back", []Side{Back, Back}, 2, "f3 e3, d3 c2"},
		{"back, first in first out", []Side{BackFIFO, BackFIFO}, 2, "d3 e3, f3 b2"},
		{"all", []Side{BackFIFO, Back, Front, BackFIFO}, 1, "d3, f3, a1, e3"},
		{"all meet", []Side{Back, BackFIFO, Front}, 3, "f3 e3 d3, b2 c2 a1, "},
		{"to the end", []Side{BackFIFO, Front}, 4, "d3 e3 f3 b2, a1 c2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			newStage, db := priorityStage(t, items)
			var all []*taking[[]string]
			for _, side := range c.sides {
				all = append(all, register(t, newStage(), side, c.n))
			}
			var got []string
			inTheRole(t, newStage())
			for _, client := range all {
				look, err := client.step(t.Context())
				testkit.Check(t, err)
				got = append(got, strings.Join(look.value, " "))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", strings.Join(got, ", "), c.want)
			}
			nothingLeft(t, db)
		})
	}
}

// TestSidesTogether has clients of all sides drain a priority queue: what each gets
// is in the order of its side, and nothing is lost.
func TestSidesTogether(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var items []string
		for i := range 240 {
			items = append(items, fmt.Sprintf("%c%d_%03d", 'a', i%4, i))
		}
		newStage, db := priorityStage(t, strings.Join(items, " "))
		var mu sync.Mutex
		var wg sync.WaitGroup
		var all []string
		for c := range 12 {
			side := Side(c % int(sides))
			wg.Go(func() {
				got, err := takeAll(context.Background(), newStage(), side, 1+c%3)
				testkit.Check(t, err)
				if !slices.IsSortedFunc(got, bySide(side)) {
					t.Errorf("side %d got %q", side, got)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, got...)
			})
		}
		wg.Wait()
		slices.Sort(all)
		slices.Sort(items)
		if !slices.Equal(all, items) {
			t.Errorf("%d items came out, want %d, each once", len(all), len(items))
		}
		nothingLeft(t, db)
	})
}

// bySide compares values such as "a3_017", of priority 3 and pushed as number 17.
func bySide(side Side) func(a, b string) int {
	return func(a, b string) int {
		byPriority, byAge := strings.Compare(a[1:2], b[1:2]), strings.Compare(a[2:], b[2:])
		switch {
		case side == Front && byPriority != 0:
			return byPriority
		case byPriority != 0:
			return -byPriority
		case side == Back:
			return -byAge
		}
		return byAge
	}
}

// fetches is a source that notes how many items are asked for.
type fetches struct {
	source
	limits map[Side]int
}

func (f fetches) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	f.limits[side] = limit
	return f.source.Items(r, side, limit)
}

// TestFetches checks that no more items are asked for than requests want, and no more than one
// transaction serves, and none at an end where nobody wants any.
func TestFetches(t *testing.T) {
	for _, c := range []struct {
		name  string
		wants []int
		items int // Options.Items
		want  int
	}{
		{"one", []int{1}, 0, 1}, {"several", []int{1, 5, 3}, 0, 9}, {"more than one transaction serves", []int{4, math.MaxInt, math.MaxInt}, 7, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			fill(t, db, 20)
			s := stage(db, Options{Items: c.items})
			limits := map[Side]int{}
			s.o.Source = fetches{testQueue, limits}
			var first *taking[[]string]
			dead := stage(db, Options{Lease: -time.Hour})
			for i, n := range c.wants {
				if client := register(t, s, Front, n); i == 0 {
					first = client
				}
			}
			register(t, dead, Back, 1) // which counts for nothing
			inTheRole(t, s)
			look, err := first.step(t.Context())
			testkit.Check(t, err)
			if len(look.value) != c.wants[0] || len(limits) != 1 || limits[Front] != c.want {
				t.Errorf("got %q, and asked for %v; want %d items, of the front alone", look.value, limits, c.want)
			}
		})
	}
}

// TestLast has clients die with items of several priorities, and checks that who adds one is told
// of the last place that is staged in its own.
func TestLast(t *testing.T) {
	source := newPrioritySource()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var values []string
		for range 1 + r.IntN(15) {
			values = append(values, fmt.Sprintf("x%d", r.IntN(3)))
		}
		newStage, db := priorityStage(t, strings.Join(values, " "))
		staged := map[string]bool{} // keys
		list := func(there bool) {
			testkit.Check(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
				for item, err := range source.Items(r, Front, 100) {
					testkit.Check(t, err)
					if staged[string(item.Key)] = true; !there {
						delete(staged, string(item.Key))
					}
				}
				return nil
			}))
		}
		list(true)
		s := newStage()
		for range 1 + r.IntN(4) {
			register(t, s, Side(r.IntN(int(sides))), 1+r.IntN(5)) // and dies
		}
		register(t, s, Back, 1).leave(t.Context(), errStop)
		s.o.Takeover = time.Nanosecond
		if _, err := Take(t.Context(), s, Front, 1, func(_ kv.Tx, items []kv.KeyValue) (none bool, _ error) {
			for _, item := range items {
				delete(staged, string(item.Key))
			}
			return none, nil
		}); err != nil && !errors.Is(err, ErrEmpty) {
			t.Fatal(err)
		}
		list(false)
		testkit.Check(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
			for priority := range int64(3) {
				var want int64
				n := 0
				for key := range staged {
					elems, err := source.space.Unpack([]byte(key))
					testkit.Check(t, err)
					if elems[0] == priority {
						want, n = max(want, elems[1].(int64)), n+1
					}
				}
				last, found, err := s.Last(r, tuple.AppendInt(nil, priority))
				testkit.Check(t, err)
				if found != (n > 0) || last != want {
					t.Errorf("seed %d: %d items of priority %d are staged, up to number %d; Last says %d, %t", seed, n, priority, want, last, found)
				}
			}
			any, err := s.AnyPlace(r)
			testkit.Check(t, err)
			if any != (len(staged) > 0) {
				t.Errorf("seed %d: %d items are staged; AnyPlace says %t", seed, len(staged), any)
			}
			return nil
		}))
	}
}
