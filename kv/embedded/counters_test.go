package embedded

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// What is added up is what a plain map says, whatever else is done to the keys, and however few are known in memory.
func TestCounters(t *testing.T) {
	db := mustOpen(t, t.TempDir(), Options{Durability: Memory})
	rapid.Check(t, func(rt *rapid.T) {
		mustTransact(t, db, func(tx kv.Tx) { tx.ClearRange(kv.Range{}) })
		want := make(map[string]int64)
		key := func() string { return fmt.Sprint("n", rapid.IntRange(0, 3).Draw(rt, "key")) }
		for range rapid.IntRange(1, 30).Draw(rt, "transactions") {
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				for range rapid.IntRange(1, 4).Draw(rt, "writes") {
					switch k := key(); rapid.IntRange(0, 5).Draw(rt, "what") {
					case 0:
						tx.Clear([]byte(k))
						delete(want, k)
					case 1:
						tx.Set([]byte(k), binary.LittleEndian.AppendUint64(nil, 100))
						want[k] = 100
					case 2:
						tx.ClearRange(kv.Range{Begin: []byte("n1"), End: []byte("n3")})
						delete(want, "n1")
						delete(want, "n2")
					default:
						tx.Add([]byte(k), 1)
						want[k]++
					}
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 5).Draw(rt, "forget") == 0 {
				db.mu.Lock()
				clear(db.counters)
				db.mu.Unlock()
			}
		}
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				if got := int64(binary.LittleEndian.Uint64(pair.Value)); got != want[string(pair.Key)] {
					rt.Errorf("%s is %d, want %d", pair.Key, got, want[string(pair.Key)])
				}
				delete(want, string(pair.Key))
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		if len(want) > 0 {
			rt.Errorf("missing: %v", want)
		}
	})
}
