package kvtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

var ownWriteCases = []testCase{
	{name: "any operations", check: checkAnyOperations,
		rule: "reads of a transaction see what it has written so far, and its commit stores exactly that"},
	{name: "each write through each read", check: checkOwnWritesOneByOne,
		rule: "Get and Range, plain or Snapshot, in both directions, with and without a limit, see each kind of own write"},
	{name: "snapshot sees later writes", check: checkSnapshotSeesLaterWrites,
		rule: "a Reader from Snapshot sees writes that were made after it was obtained"},
	{name: "long transaction", check: checkManyOwnWrites,
		rule: "own writes are seen also when there are very many"},
}

// checkAnyOperations compares random transactions with a map.
func checkAnyOperations(t *tester) {
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.SliceOfN(rapid.Custom(drawOp), 0, 12).Draw(rt, "before")
		ops := rapid.SliceOfN(rapid.Custom(drawOp), 1, 25).Draw(rt, "ops")
		want := make(state)
		if err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			tx.ClearRange(kv.Range{})
			_, err := runAll(tx, before)
			return err
		}); err != nil {
			rt.Fatalf("Transact: %v", err)
		}
		for _, o := range before {
			want.do(o)
		}
		var seen []string
		if err := t.db.Transact(t.ctx, func(tx kv.Tx) (err error) {
			seen, err = runAll(tx, ops)
			return err
		}); err != nil {
			rt.Fatalf("Transact: %v", err)
		}
		for i, o := range ops {
			if want := want.do(o); seen[i] != want {
				rt.Fatalf("%v saw %s, want %s", o, seen[i], want)
			}
		}
		compareStore(t, rt, want)
	})
}

// compareStore checks all that is stored.
func compareStore(t *tester, rt *rapid.T, want state) {
	all := op{kind: "range"}
	if err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
		got, err := all.run(tx)
		if err == nil && got != want.do(all) {
			rt.Errorf("after the commit the store holds %s, want %s", got, want.do(all))
		}
		return err
	}); err != nil {
		rt.Fatalf("Transact: %v", err)
	}
}

func checkOwnWritesOneByOne(t *tester) {
	stored := state{"b": "b", "d": "d", "n": little(5)}
	for _, write := range []op{
		{kind: "set", key: "b", value: "own"}, {kind: "set", key: "c", value: "own"}, {kind: "set", key: "c"},
		{kind: "clear", key: "b"}, {kind: "clear", key: "c"},
		{kind: "clear range"}, {kind: "clear range", key: "b", end: "d"}, {kind: "clear range", key: "d"},
		{kind: "add", key: "n", delta: 2}, {kind: "add", key: "c", delta: -1},
	} {
		want := maps.Clone(stored)
		want.do(write)
		for _, read := range everyRead() {
			t.reset()
			t.put("b", "b", "d", "d", "n", little(5))
			t.transact(func(tx kv.Tx) error {
				seen, err := runAll(tx, []op{write, read})
				if err == nil && seen[1] != want.do(read) {
					t.Errorf("after %v, %v saw %s, want %s", write, read, seen[1], want.do(read))
				}
				return err
			})
		}
	}
}

// everyRead returns reads of all kinds of the keys from b to n.
func everyRead() []op {
	var reads []op
	for _, snapshot := range []bool{false, true} {
		for _, key := range []string{"b", "c", "d", "n"} {
			reads = append(reads, op{kind: "get", key: key, snapshot: snapshot})
		}
		for _, reverse := range []bool{false, true} {
			for _, limit := range []int{0, 1, 2, 10} {
				reads = append(reads, op{kind: "range", limit: limit, reverse: reverse, snapshot: snapshot})
			}
		}
		for _, kind := range []string{"last of range", "last of each range"} {
			reads = append(reads, op{kind: kind, snapshot: snapshot}, op{kind: kind, end: "n", snapshot: snapshot})
		}
	}
	return reads
}

func checkSnapshotSeesLaterWrites(t *tester) {
	t.reset("b")
	t.write(func(tx kv.Tx) {
		snapshot := tx.Snapshot()
		t.wantGet("before the write", snapshot, "b", "b")
		tx.Set([]byte("b"), []byte("own"))
		t.wantGet("after the write", snapshot, "b", "own")
		t.wantGet("after the write, a snapshot of the snapshot", snapshot.Snapshot(), "b", "own")
	})
}

func checkManyOwnWrites(t *tester) {
	n := t.operations(3000, 2)
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%06d ", i))
	}
	t.transact(func(tx kv.Tx) error {
		for i := range n {
			tx.Set(fmt.Appendf(nil, "%06d", (i*7919)%n), nil)
		}
		got, err := keysOf(tx.Range(kv.Range{}, kv.RangeOptions{}))
		if err == nil && got != strings.Join(slices.Compact(want), "") {
			t.Errorf("%d own writes, read back forwards, are not what was written", n)
		}
		slices.Reverse(want)
		if got, err = keysOf(tx.Range(kv.Range{}, kv.RangeOptions{Reverse: true})); err == nil && got != strings.Join(want, "") {
			t.Errorf("%d own writes, read back in reverse, are not what was written", n)
		}
		return err
	})
}
