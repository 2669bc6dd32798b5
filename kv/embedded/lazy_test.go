package embedded

import (
	"testing"

	"github.com/conq-go/conq/kv"
)

// A lazy transaction reads near, and then what is not known there, while others
// commit between the two.
func TestLazy(t *testing.T) {
	set := func(key string) func(kv.Tx) { return func(tx kv.Tx) { tx.Set([]byte(key), []byte("new")) } }
	for name, c := range map[string]struct {
		between  func(kv.Tx)
		snapshot bool
		attempts int
		near     string
		far      string
	}{
		"nothing":                   {func(kv.Tx) {}, true, 1, "", ""},
		"another key":               {set("n5"), true, 1, "", ""},
		"what is still to be read":  {set("f1"), true, 1, "", "new"},
		"what was read":             {set("n1"), true, 2, "new", ""},
		"what was read, with both":  {func(tx kv.Tx) { set("n1")(tx); set("f1")(tx) }, true, 2, "new", "new"},
		"a plain read":              {set("n1"), false, 2, "new", ""},
		"cleared":                   {func(tx kv.Tx) { tx.Clear([]byte("n1")) }, true, 2, "-", ""},
		"a range with it cleared":   {func(tx kv.Tx) { tx.ClearRange(kv.PrefixRange([]byte("n"))) }, true, 2, "-", ""},
		"a key before the one read": {set("n0"), true, 2, "new", ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
			mustTransact(t, db, func(tx kv.Tx) {
				tx.Set([]byte("n1"), nil)
				tx.Set([]byte("n5"), nil)
				tx.Set([]byte("f1"), nil)
			})
			read := func(tx kv.Tx) (value string) {
				var r kv.Reader = tx
				if c.snapshot {
					r = tx.Snapshot()
				}
				pair, ok, err := first(r, kv.PrefixRange([]byte("n")), false)
				if err != nil {
					t.Error(err)
				}
				if !ok || string(pair.Key) == "n5" {
					return "-"
				}
				return string(pair.Value)
			}
			mustTransact(t, db, func(tx kv.Tx) { read(tx) }) // so that it is near
			attempts := 0
			var near, far string
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				attempts++
				near = read(tx)
				if attempts == 1 {
					mustTransact(t, db, c.between)
				}
				value, err := tx.Get([]byte("f1"))
				if err != nil && attempts > 1 {
					t.Error(err)
				}
				far = string(value)
				tx.Set([]byte("seen"), nil)
			})
			if attempts != c.attempts || near != c.near || far != c.far {
				t.Errorf("%d attempts, %q, %q; want %d, %q, %q", attempts, near, far, c.attempts, c.near, c.far)
			}
		})
	}
}
