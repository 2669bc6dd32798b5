package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
)

// A lazy transaction reads the cache, and then what is not known there, while others
// commit between the two.
func TestLazy(t *testing.T) {
	set := func(key string) func(kv.Tx) { return func(tx kv.Tx) { tx.Set([]byte(key), []byte("new")) } }
	for name, c := range map[string]struct {
		between  func(kv.Tx)
		snapshot bool
		attempts int
		hot      string
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
				testkit.Check(t, err)
				if !ok || string(pair.Key) == "n5" {
					return "-"
				}
				return string(pair.Value)
			}
			mustTransact(t, db, func(tx kv.Tx) { read(tx) }) // so that it is in the cache
			attempts := 0
			var hot, far string
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				attempts++
				hot = read(tx)
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
			if attempts != c.attempts || hot != c.hot || far != c.far {
				t.Errorf("%d attempts, %q, %q; want %d, %q, %q", attempts, hot, far, c.attempts, c.hot, c.far)
			}
		})
	}
}

// A lazy read transaction runs once: if what it has read changes, it is told, and may read
// again; else it goes on with what is there by then.
func TestLazyRead(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	put := func(key, value string) {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(key), []byte(value)) })
	}
	put("n1", "old")
	put("f1", "old")
	look := func(r kv.Reader) error {
		_, _, err := first(r, kv.PrefixRange([]byte("n")), false)
		return err
	}
	if err := db.ReadTransact(t.Context(), look); err != nil { // so that it is in the cache
		t.Fatal(err)
	}
	for _, c := range []struct {
		change string
		want   error
	}{{"f1", nil}, {"n1", kv.ErrConflict}} {
		runs := 0
		if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			kv.Lazily(r)
			runs++
			if err := look(r); err != nil {
				return err
			}
			put(c.change, "new")
			value, err := r.Get([]byte("f1"))
			if err == nil && string(value) != "new" {
				t.Errorf("after a change of %s: f1 is %q, want new", c.change, value)
			}
			return err
		}); !errors.Is(err, c.want) || runs != 1 {
			t.Errorf("after a change of %s: %v after %d runs, want %v after 1", c.change, err, runs, c.want)
		}
	}
}

// A lazy transaction depends on the range that it has read, and not on what is in the cache beside that.
func TestLazyReadsNoMore(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		for _, known := range []bool{false, true} {
			db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
			put := func(key string) {
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(key), nil) })
			}
			put("n5")
			put("f1")
			span, change := kv.Range{Begin: []byte("n6"), End: []byte("n8")}, "n9" // behind all that is in the cache
			if reverse {
				span, change = kv.Range{Begin: []byte("n2"), End: []byte("n4")}, "n1"
			}
			read := func(r kv.Reader) error {
				if !known {
					_, _, err := first(r, span, reverse)
					return err
				}
				_, found, err := kvext.Known(r, span, kv.RangeOptions{Limit: 1, Reverse: reverse}, nil)
				if !found {
					t.Error("it is not in the cache: the test tests nothing")
				}
				return err
			}
			if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				_, _, err := first(r, kv.PrefixRange([]byte("n")), false)
				return err
			}); err != nil { // so that all of it is in the cache
				t.Fatal(err)
			}
			if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				kv.Lazily(r)
				if err := read(r); err != nil {
					return err
				}
				put(change)
				_, err := r.Get([]byte("f1"))
				return err
			}); err != nil {
				t.Errorf("reverse: %v, known: %v; after a change of %s, which it has not read: %v", reverse, known, change, err)
			}
		}
	}
}

// A change of any of the keys that a lazy transaction has read is found, in whatever order it has
// read them.
func TestLazyReadsInAnyOrder(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	const keys = 5
	key := func(i int) []byte { return fmt.Appendf(nil, "n%d", i) }
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range keys {
			tx.Set(key(i), nil)
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		order := random.Perm(keys)
		for changed := range keys {
			far := []byte("f")
			mustTransact(t, db, func(tx kv.Tx) { // so that the cache has them, and nothing else
				forget(db)
				if _, _, err := first(tx, kv.PrefixRange([]byte("n")), false); err != nil {
					t.Error(err)
				}
			})
			err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				kv.Lazily(r)
				for _, i := range order {
					if _, err := r.Get(key(i)); err != nil {
						return err
					}
				}
				mustTransact(t, db, func(tx kv.Tx) { tx.Set(key(changed), nil) })
				_, err := r.Get(far)
				return err
			})
			if !errors.Is(err, kv.ErrConflict) {
				t.Errorf("read in the order %d, and %d was changed: %v, want a conflict", order, changed, err)
			}
		}
	}
}

// A lazy transaction does not go on past a change of what it conflicts with, or watches, without a
// read.
func TestLazyWithoutReads(t *testing.T) {
	n1 := []byte("n1")
	for name, depend := range map[string]func(tx kv.Tx){
		"a read conflict": func(tx kv.Tx) { tx.AddReadConflict(kv.KeyRange(n1)) },
		"a watch":         func(tx kv.Tx) { tx.Watch(n1) },
	} {
		for changed, want := range map[string]int{"n1": 2, "n2": 1} {
			db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
			attempts := 0
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				depend(tx)
				if attempts++; attempts == 1 {
					mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(changed), nil) })
				}
				if _, err := tx.Get([]byte("f1")); err != nil && attempts > 1 {
					t.Error(err)
				}
				tx.Set([]byte("seen"), nil)
			})
			if attempts != want {
				t.Errorf("%s of n1, and %s changed: %d attempts, want %d", name, changed, attempts, want)
			}
		}
	}
}

// A lazy transaction that has become too old between a look at the clock and a read does not go on
// with what is there by then: the conflict log no longer tells whether what it has read has changed.
func TestLazyExpired(t *testing.T) {
	n, f, l := kv.PrefixRange([]byte("n")), kv.PrefixRange([]byte("f")), kv.PrefixRange([]byte("l"))
	range1 := func(r kv.Reader, span kv.Range) error { _, _, err := first(r, span, false); return err }
	for name, read := range map[string]func(r kv.Reader) error{
		"a key":         func(r kv.Reader) error { _, err := r.Get([]byte("f1")); return err },
		"a range":       func(r kv.Reader) error { return range1(r, f) },
		"a last key":    func(r kv.Reader) error { _, err := kvext.LastKey(r, f, f); return err },
		"a large value": func(r kv.Reader) error { return range1(r, l) }, // of which the cache has the key
	} {
		var clock time.Time
		var others func()
		db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory, Age: time.Second, Now: func() time.Time {
			now := clock
			if do := others; do != nil {
				others = nil
				do()
			}
			return now
		}})
		put := func(value string) {
			mustTransact(t, db, func(tx kv.Tx) {
				tx.Set([]byte("n1"), []byte(value))
				tx.Set([]byte("f1"), []byte(value))
			})
		}
		put("old")
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("l1"), make([]byte, 2*cache.Usual.Value)) })
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error { return errors.Join(range1(r, n), range1(r, l)) })
		if err != nil { // so that they are in the cache
			t.Fatal(err)
		}
		if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			kv.Lazily(r)
			if err := range1(r, n); err != nil {
				return err
			}
			others = func() {
				clock = clock.Add(2 * time.Second)
				put("new")
			}
			err := read(r)
			if !errors.Is(err, kv.ErrTooOld) {
				t.Errorf("%s: %v, want ErrTooOld", name, err)
			}
			return err
		}); !errors.Is(err, kv.ErrTooOld) {
			t.Errorf("with %s: %v, want ErrTooOld", name, err)
		}
	}
}

// A lazy transaction that only asks for last keys, as a push to several priorities does, never
// conflicts, whatever others write where it has looked: in what the cache has, or has not, or has no
// key at all.
func TestLazyLastKeys(t *testing.T) {
	var others func()
	now := func() time.Time { // which a transaction asks for before each read
		if do := others; do != nil {
			others = nil
			do()
			others = do
		}
		return time.Time{}
	}
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory, Now: now})
	put := func(key string) { mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(key), nil) }) }
	put("n1")
	put("x1")
	of := func(begin, end string) kv.Range { return kv.Range{Begin: []byte(begin), End: []byte(end)} }
	for _, hot := range []kv.Range{of("n", "o"), of("f", "g"), of("e", "f")} {
		mustTransact(t, db, func(tx kv.Tx) {
			if _, _, err := first(tx, hot, false); err != nil {
				t.Error(err)
			}
		})
	}
	ask := func(r kv.Reader, spans []kv.Range) error {
		for _, span := range spans {
			if _, err := kvext.LastKey(r, span, kv.Range{Begin: span.Begin}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, spans := range [][]kv.Range{
		{of("e5", "g")}, // of which the cache has two ranges, so that it is looked for, with what is behind
		{of("n", "o"), of("n", "o")},
		{of("n", "o"), of("x", "y")},
		{of("n", "o"), of("d", "g")},
	} {
		attempts := 0
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			attempts++
			others = func() {
				mustTransact(t, db, func(tx kv.Tx) {
					tx.Clear([]byte("e1"))
					tx.Clear([]byte("f1"))
					tx.Set([]byte("n2"), nil)
				})
			}
			defer func() { others = nil }()
			if err := ask(tx.Snapshot(), spans); err != nil && attempts > 1 {
				t.Error(err)
			}
			tx.Set([]byte("seen"), nil)
		})
		if attempts != 1 {
			t.Errorf("%d attempts for the last keys of %q, want 1", attempts, spans)
		}
	}
}
