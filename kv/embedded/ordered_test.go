package embedded

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTree compares a tree with a sorted list. Its keys differ in their first bytes, or behind
// many that they have in common, or in nothing but how many zeros they end with.
func TestTree(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) string {
		begin := rapid.SampledFrom([]string{"", "", "a", "queue of a tenant ", "queue of another tenant "}).Draw(t, "begin")
		return begin + rapid.StringOfN(rapid.SampledFrom([]rune{0, 'a', 'b'}), 0, 20, -1).Draw(t, "end")
	})
	shortened := 0
	rapid.Check(t, func(t *rapid.T) {
		x, all := newTree[*gap](), map[string]*gap{}
		common := func() int { return len(x.same) }
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			if len(all) > 0 && rapid.Bool().Draw(t, "one that is there") {
				key = rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "key of one")
			}
			before, many := common(), x.Len() > 1
			switch rapid.SampledFrom([]string{"set", "set", "set", "delete", "clear"}).Draw(t, "step") {
			case "set":
				all[key] = &gap{begin: []byte(key)}
				x.Set(all[key])
			case "delete":
				x.Delete(&gap{begin: []byte(key)})
				delete(all, key)
			default:
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					x.Clear()
					clear(all)
				}
			}
			if many && common() < before {
				shortened++
			}
			checkTree(t, x, all, keys.Draw(t, "pivot"))
			checkTree(t, x, all, key)
		}
	})
	if shortened == 0 {
		t.Error("what all keys have in common never got less: the test tests too little")
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
