package etcd_test

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// What others remove from a range that was read is a conflict, and what they remove
// beside it is none, however many keys there are.
func testRemoved(t *testing.T, c *cluster) {
	o := c.options()
	db, other := open(t, o), open(t, o)
	names := func(queue string, n int) (keys []string) {
		for i := range n {
			keys = append(keys, fmt.Sprintf("%s%04d", queue, i))
		}
		return keys
	}
	remove := func(keys ...string) func() {
		return func() {
			testkit.NoError(t, other.Transact(t.Context(), func(tx kv.Tx) error {
				for _, key := range keys {
					tx.Clear([]byte(key))
				}
				return nil
			}))
		}
	}
	const queue, beside, end = "\x02q\x00", "\x02r\x00", "\x03"
	for _, x := range []struct {
		name     string
		n        int    // keys that are read
		end      string // of the range
		between  func() // read and commit
		attempts int
	}{
		{"nothing happens", 100, queue + "0100", func() {}, 1},
		{"one of them goes", 100, queue + "0100", remove(queue + "0050"), 2},
		{"the first goes", 3, queue + "0003", remove(queue + "0000"), 2},
		{"the last goes", 3, queue + "0003", remove(queue + "0002"), 2},
		{"one of few goes", 2, queue + "0002", remove(queue + "0001"), 2},
		{"one goes and comes again", 100, queue + "0100", func() { remove(queue + "0050")(); set(t, other, queue+"0050") }, 2},
		{"one comes", 100, queue + "0100", func() { set(t, other, queue+"0050x") }, 2},
		{"all go, in a range", 100, queue + "0100", func() {
			testkit.NoError(t, other.Transact(t.Context(), func(tx kv.Tx) error { tx.ClearRange(kv.PrefixRange([]byte(queue))); return nil }))
		}, 2},
		{"one behind them goes", 100, queue + "0100", remove(queue + "0200"), 1},
		{"one behind very many goes", 200, queue + "0200", remove(queue + "0250"), 2}, // they can't be told
		{"nothing happens to very many", 250, queue + "0250", func() {}, 1},
		{"one of another queue goes", 100, queue + "0100", remove(beside + "0001"), 1},
		{"one of them goes, in a range over queues", 20, end, remove(queue + "0007"), 2},
		{"one of another queue goes, in a range over both", 20, end, remove(beside + "0001"), 2},
		{"nothing happens, in a range over queues", 20, end, func() {}, 1},
	} {
		keep := 300 // more than are read
		if x.end == end {
			keep = x.n
		}
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { tx.ClearRange(kv.Range{Begin: []byte("\x02"), End: []byte(end)}); return nil }))
		for _, all := range [][]string{names(queue, keep), names(beside, 3)} {
			for len(all) > 0 {
				n := min(100, len(all))
				set(t, db, all[:n]...)
				all = all[n:]
			}
		}
		attempts, seen := 0, 0
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			attempts++
			seen = 0
			for _, err := range tx.Range(kv.Range{Begin: []byte(queue), End: []byte(x.end)}, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				seen++
			}
			if attempts == 1 {
				x.between()
			}
			tx.Set([]byte("sum"), fmt.Append(nil, seen))
			return nil
		}))
		if attempts != x.attempts {
			t.Errorf("%s: %d attempts, want %d", x.name, attempts, x.attempts)
		}
		n := len(testkit.In(t, db, kv.Range{Begin: []byte(queue), End: []byte(x.end)}))
		testkit.Equal(t, x.name+": keys that are there, and that it has seen", n, seen)
	}
}
