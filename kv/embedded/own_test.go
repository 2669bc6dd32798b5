package embedded

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// What has stayed near for long keeps nothing of what was written with it, and reads as it did.
func TestNearOwn(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.near.most.stay = 2048
	contents(t, db) // so all that comes is near
	const transactions, items = 50, 40
	value := func(i int) []byte {
		return fmt.Appendf(nil, "%0*d", []int{100, overlay.MaxShared, overlay.MaxShared + 1}[i%3], i)
	}
	for i := range transactions {
		mustTransact(t, db, func(tx kv.Tx) {
			for j := range items {
				tx.Set(fmt.Appendf(nil, "%02d/%02d", j, i), value(i))
			}
		})
	}
	var values []weak.Pointer[byte] // of those that go
	stay := func(f func(p pair)) (n int) {
		db.near.stretches.Ascend(&stretch{}, func(s *stretch) bool {
			for _, p := range s.pairs {
				f(p)
			}
			n += len(s.pairs)
			return true
		})
		return n
	}
	stay(func(p pair) {
		if string(p.key()) < fmt.Sprintf("%02d/", items-1) {
			values = append(values, weak.Make(&p.value[0]))
		}
	})
	for j := range items - 1 { // of each transaction the last one stays
		mustTransact(t, db, func(tx kv.Tx) { tx.ClearRange(kv.PrefixRange(fmt.Appendf(nil, "%02d/", j))) })
	}
	var shared []weak.Pointer[byte]
	if n := stay(func(p pair) { shared = append(shared, weak.Make(&p.after[0])) }); n != transactions {
		t.Fatalf("%d pairs are near, want %d", n, transactions)
	}
	for i := range int(db.near.most.stay) * 2 {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("other"), fmt.Append(nil, i)) })
	}
	db.catchUp() // the backlog has some, too
	runtime.GC()
	for i, w := range shared {
		if w.Value() != nil {
			t.Errorf("pair %d keeps the memory of its transaction", i)
		}
	}
	kept := 0
	for _, w := range values {
		if w.Value() != nil {
			kept++
		}
	}
	if kept > 0 || len(values) != transactions*(items-1) {
		t.Errorf("the memory of %d values of %d that have gone is kept", kept, len(values))
	}
	stay(func(p pair) {
		if p.number > 0 && string(p.key()) != "other" {
			t.Errorf("%q has memory that others have", p.key())
		}
	})
	got := contents(t, db)
	for i := range transactions {
		if want := fmt.Sprintf("%02d/%02d=%s", items-1, i, value(i)); got[i] != want {
			t.Errorf("pair %d is %q, want %q", i, got[i], want)
		}
	}
}
