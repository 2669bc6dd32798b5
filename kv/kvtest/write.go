package kvtest

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
)

var writeCases = []testCase{
	{name: "clear range", check: checkClearRange,
		rule: "ClearRange removes the keys from begin on, up to and not including end; empty bounds are open"},
	{name: "order of writes", check: checkWriteOrder,
		rule: "writes of a transaction take effect in their order: later ones replace earlier ones, and Add builds on them"},
	{name: "empty value", check: checkEmptyValue,
		rule: "an empty value is stored, is returned as empty and not nil, and differs from an absent one"},
	{name: "add", check: checkAdd,
		rule: "Add sums 64-bit little-endian integers; absent is 0, other lengths are cut off or padded, overflow wraps"},
	{name: "concurrent adds", check: checkConcurrentAdds,
		rule: "Adds of one key do not conflict with each other, and all of them count"},
	{name: "add meanwhile", check: checkAddMeanwhile,
		rule: "Add adds to the value at the commit, not to one that was read before"},
}

func checkClearRange(t *tester) {
	for _, c := range []struct {
		begin, end string
		left       []string
	}{
		{"", "", nil},
		{"a", "z", nil},
		{"b", "h", []string{"h"}},
		{"b\x00", "h\x00", []string{"b"}},
		{"d", "d\x00", []string{"b", "f", "h"}},
		{"d", "d", stored},
		{"c", "cz", stored},
		{"", "d", []string{"d", "f", "h"}},
		{"d", "", []string{"b"}},
		{"", "b", stored},
		{"h\x00", "", stored},
	} {
		t.reset(stored...)
		t.write(func(tx kv.Tx) { tx.ClearRange(span(c.begin, c.end)) })
		var want []string
		for _, key := range c.left {
			want = append(want, key, key)
		}
		t.want("after ClearRange from "+c.begin+" to "+c.end, want...)
	}
}

func checkWriteOrder(t *tester) {
	stored := state{"n": little(100)}
	writes := []op{
		{kind: "set", key: "n", value: "1"}, {kind: "set", key: "n"}, {kind: "clear", key: "n"},
		{kind: "clear range", key: "m", end: "o"}, {kind: "add", key: "n", delta: 2},
	}
	get := op{kind: "get", key: "n"}
	for _, first := range writes {
		for _, second := range writes {
			t.put("n", stored["n"])
			want := maps.Clone(stored)
			t.transact(func(tx kv.Tx) error {
				for _, o := range []op{first, get, second, get} {
					seen, err := o.run(tx)
					if err != nil {
						return err
					}
					if want := want.do(o); seen != want {
						t.Errorf("of %v, then %v: %v saw %q, want %q", first, second, o, seen, want)
					}
				}
				return nil
			})
			t.read(func(r kv.Reader) error {
				t.wantGet(fmt.Sprintf("after the commit of %v, then %v", first, second), r, "n", want.do(get))
				return nil
			})
		}
	}
}

func checkEmptyValue(t *tester) {
	both := func(tx kv.Tx) {
		tx.Set([]byte("empty"), []byte{})
		tx.Set([]byte("nil"), nil)
	}
	t.write(both)
	check := func(r kv.Reader) error {
		for _, key := range []string{"empty", "nil"} {
			if value, err := r.Get([]byte(key)); err != nil || value == nil || len(value) > 0 {
				t.Errorf("Get of an empty value, stored as %s, returned %#v, %v; want an empty value that is not nil", key, value, err)
			}
		}
		if value, err := r.Get([]byte("absent")); err != nil || value != nil {
			t.Errorf("Get of an absent key returned %#v, %v; want nil", value, err)
		}
		return t.wantKeys("keys with an empty value", r.Range(kv.Range{}, kv.RangeOptions{}), "empty nil ")
	}
	t.inBoth(check)
	t.transact(func(tx kv.Tx) error {
		tx.ClearRange(kv.Range{})
		both(tx)
		return check(tx)
	})
}

func checkAdd(t *tester) {
	for _, c := range []struct {
		name, before string
		delta        int64
		want         string
	}{
		{"absent", absent, 5, little(5)},
		{"absent, by nothing", absent, 0, little(0)},
		{"absent, negative", absent, -1, strings.Repeat("\xff", 8)},
		{"a number", little(1000), 234, little(1234)},
		{"a number, negative", little(5), -7, little(-2)},
		{"carry over all bytes", little(255), 1, little(256)},
		{"wrap at the top", little(math.MaxInt64), 1, little(math.MinInt64)},
		{"wrap at the bottom", little(math.MinInt64), -1, little(math.MaxInt64)},
		{"an empty value", "", 3, little(3)},
		{"a short value is padded", "\x01\x02", 1, "\x02\x02\x00\x00\x00\x00\x00\x00"},
		{"a short value has no sign", "\xff", 1, little(256)},
		{"a long value is cut off", little(7) + "more", 1, little(8)},
	} {
		for _, own := range []bool{false, true} {
			t.reset()
			before := func(tx kv.Tx) {
				if c.before != absent {
					tx.Set([]byte("n"), []byte(c.before))
				}
			}
			if !own {
				t.write(before)
			}
			t.write(func(tx kv.Tx) {
				if own {
					before(tx)
				}
				tx.Add([]byte("n"), c.delta)
				t.wantGet("Add: "+c.name+": in the same transaction", tx, "n", c.want)
			})
			t.want("Add: "+c.name+": after the commit", "n", c.want)
		}
	}
}

func checkConcurrentAdds(t *tester) {
	const goroutines, adds = 8, 50
	var group sync.WaitGroup
	var attempts atomic.Int64
	for range goroutines {
		group.Go(func() {
			for range adds {
				if !t.goes(func(tx kv.Tx) error {
					attempts.Add(1)
					tx.Add([]byte("n"), 3)
					runtime.Gosched()
					return nil
				}) {
					return
				}
			}
		})
	}
	group.Wait()
	t.want("after concurrent Adds", "n", little(3*goroutines*adds))
	if got := attempts.Load(); got != goroutines*adds {
		t.Errorf("%d transactions that only Add took %d attempts, want one each", goroutines*adds, got)
	}
}

func checkAddMeanwhile(t *tester) {
	t.put("n", little(100))
	n := 0
	t.transact(func(tx kv.Tx) error {
		if _, err := tx.Snapshot().Get([]byte("n")); err != nil {
			return err
		}
		tx.Add([]byte("n"), 1)
		if _, err := tx.Snapshot().Get([]byte("n")); err != nil {
			return err
		}
		if n++; n == 1 {
			t.write(func(tx kv.Tx) { tx.Add([]byte("n"), 10) })
		}
		return nil
	})
	t.want("two Adds to 100, one committed while the other was open", "n", little(111))
	if n != 1 {
		t.Errorf("an Add, with Snapshot reads of the key, took %d attempts, want 1", n)
	}
}
