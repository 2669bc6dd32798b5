package embedded

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTree compares a tree with a sorted list. Its keys differ in their first bytes, or behind
// many that they have in common, or in nothing but how many zeros they end with; and there are
// so many of them that leaves become two, and one again.
func TestTree(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) string {
		begin := rapid.SampledFrom([]string{"", "", "a", "queue of a tenant ", "queue of another tenant "}).Draw(t, "begin")
		return begin + rapid.StringOfN(rapid.SampledFrom([]rune{0, 'a', 'b'}), 0, 20, -1).Draw(t, "end")
	})
	shortened, most := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x, all := new(tree[*gap]), map[string]*gap{}
		common := func() int { return len(x.same) }
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			if len(all) > 0 && rapid.Bool().Draw(t, "one that is there") {
				key = rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "key of one")
			}
			before, many := common(), x.Len() > 1
			switch rapid.SampledFrom([]string{"set", "set", "set", "delete", "clear", "set many", "delete many"}).Draw(t, "step") {
			case "set":
				all[key] = &gap{begin: []byte(key)}
				x.Set(all[key])
			case "delete":
				x.Delete(&gap{begin: []byte(key)})
				delete(all, key)
			case "set many":
				for _, i := range inSomeOrder(t, 100) {
					g := &gap{begin: fmt.Appendf(nil, "%s%03d", key, i)}
					all[string(g.begin)] = g
					x.Set(g)
				}
			case "delete many":
				there := slices.Sorted(maps.Keys(all))
				for _, i := range inSomeOrder(t, len(there)*9/10) {
					x.Delete(&gap{begin: []byte(there[i])})
					delete(all, there[i])
				}
			default:
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					x.Clear()
					clear(all)
				}
			}
			if many && common() < before {
				shortened++
			}
			most = max(most, len(x.leaves))
			checkLeaves(t, x)
			checkTree(t, x, all, keys.Draw(t, "pivot"))
			checkTree(t, x, all, key)
		}
	})
	if !testing.Short() && shortened == 0 {
		t.Error("what all keys have in common never got less: the test tests too little")
	}
	if !testing.Short() && most < 3 {
		t.Errorf("there were %d leaves at most: the test tests too little", most)
	}
}

// TestLeaves sets what comes in order, which is to fill leaves, and deletes nearly all of one, and
// then of the next.
func TestLeaves(t *testing.T) {
	x := new(tree[*gap])
	nth := func(i int) *gap { return &gap{begin: fmt.Appendf(nil, "%04d", i)} }
	for i := range 3 * leafSize {
		x.Set(nth(i))
	}
	if len(x.leaves) != 3 {
		t.Errorf("%d in order make %d leaves, want 3", x.Len(), len(x.leaves))
	}
	for i := range 2 * leafSize {
		if i%leafSize >= leafSize/8 {
			x.Delete(nth(i))
			checkLeaves(t, x)
		}
	}
}

// inSomeOrder returns up to n numbers below n, which ascend, descend, or are mixed.
func inSomeOrder(t *rapid.T, n int) []int {
	numbers := rand.New(rand.NewPCG(0, rapid.Uint64().Draw(t, "seed"))).Perm(n)
	switch rapid.SampledFrom([]string{"ascending", "descending", "mixed"}).Draw(t, "order") {
	case "ascending":
		slices.Sort(numbers)
	case "descending":
		slices.Sort(numbers)
		slices.Reverse(numbers)
	}
	return numbers[:rapid.IntRange(0, n).Draw(t, "numbers")]
}

// checkLeaves checks that no neighbours have so few that they should be one, that branches tell
// with what leaves begin, and that these keep nothing which is there no more.
func checkLeaves(t rapid.TB, x *tree[*gap]) {
	for l, b := range x.leaves {
		if b.n == 0 || b.first != b.all[0].first || b.second != b.seconds[0] {
			t.Fatalf("leaf %d of %d has %d, and begins with %x %x, not %x %x", l, len(x.leaves), b.n, b.all[0].first, b.seconds[0], b.first, b.second)
		}
		if l > 0 && x.leaves[l-1].n+b.n <= leafSize/2 {
			t.Fatalf("leaves %d and %d of %d have %d and %d", l-1, l, len(x.leaves), x.leaves[l-1].n, b.n)
		}
		for i, e := range b.all {
			if (e.it != nil) != (i < b.n) {
				t.Fatalf("leaf %d has %d, and at %d is %v", l, b.n, i, e.it)
			}
		}
	}
}

// checkTree checks that a tree has all, and what it finds from a key on.
func checkTree(t *rapid.T, x *tree[*gap], all map[string]*gap, key string) {
	pivot := &gap{begin: []byte(key)}
	if found, ok := x.Get(pivot); found != all[key] || ok != (all[key] != nil) {
		t.Fatalf("at %q is %v", key, found)
	}
	var behind, before []*gap // in the order in which they are come to
	var last, earlier *gap
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if k >= key {
			behind = append(behind, all[k])
		}
		if k <= key {
			before, last = append(before, all[k]), all[k]
		}
		if k < key {
			earlier = all[k]
		}
	}
	slices.Reverse(before)
	for name, c := range map[string]struct {
		walk func(*gap, func(*gap) bool)
		want []*gap
	}{"ascending": {x.Ascend, behind}, "descending": {x.Descend, before}} {
		var got []*gap
		c.walk(pivot, func(g *gap) bool {
			got = append(got, g)
			return true
		})
		if !slices.Equal(got, c.want) {
			t.Fatalf("%s from %q: %q, want %q", name, key, begins(got), begins(c.want))
		}
	}
	if x.Len() != len(all) || x.last(pivot, false) != last || x.last(pivot, true) != earlier {
		t.Fatalf("%d, want %d; the last at %q is %v, before it %v", x.Len(), len(all), key, x.last(pivot, false), x.last(pivot, true))
	}
	for k := range all {
		if k != "" && !bytes.HasPrefix([]byte(k), x.same) {
			t.Fatalf("%q does not begin with %q", k, x.same)
		}
	}
}

func begins(all []*gap) (keys []string) {
	for _, g := range all {
		keys = append(keys, string(g.begin))
	}
	return keys
}
