package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

var argumentCases = []testCase{
	{name: "caller may change arguments", check: checkArgumentsCopied,
		rule: "arguments are copied before a method returns"},
	{name: "caller may change results", check: checkResultsOwned,
		rule: "what is returned belongs to the caller"},
	{name: "invalid writes", check: checkInvalidWrites,
		rule: "an empty key, one that begins with 0xff, and a range that ends before it begins make the commit fail with ErrInvalid, with nothing written"},
	{name: "invalid reads", check: checkInvalidReads,
		rule: "reads return ErrInvalid at once for such keys and ranges, and for a negative limit"},
	{name: "nil", check: checkNil,
		rule: "with a nil context or a nil function a transaction fails with ErrInvalid, and does not run its function"},
	{name: "first bad write", check: checkFirstBadWrite,
		rule: "of several bad writes the first gives the error of the commit"},
}

// scribble overwrites all of its slices.
func scribble(slices ...[]byte) {
	for _, s := range slices {
		for i := range s[:cap(s)] {
			s[:cap(s)][i] = '#'
		}
	}
}

func checkArgumentsCopied(t *tester) {
	t.reset(stored...)
	arg := func(s string) []byte { return append(make([]byte, 0, 16), s...) }
	t.transact(func(tx kv.Tx) error {
		key, value := arg("b"), arg("value")
		tx.Set(key, value)
		scribble(key, value)
		key = arg("d")
		tx.Clear(key)
		scribble(key)
		key = arg("n")
		tx.Add(key, 1)
		scribble(key)
		begin, end := arg("f"), arg("g")
		tx.ClearRange(kv.Range{Begin: begin, End: end})
		scribble(begin, end)
		begin, end = arg("a"), arg("z")
		all := tx.Range(kv.Range{Begin: begin, End: end}, kv.RangeOptions{})
		scribble(begin, end)
		if err := t.wantKeys("the bounds were changed after the call", all, "b h n "); err != nil {
			return err
		}
		key = arg("h")
		_, err := tx.Get(key)
		scribble(key)
		return err
	})
	t.want("all arguments were changed after the calls", "b", "value", "h", "h", "n", little(1))
	t.checkConflictArgumentsCopied(arg)
}

func (t *tester) checkConflictArgumentsCopied(arg func(string) []byte) {
	reads := access{name: "a transaction that changed all arguments after the calls", do: func(tx kv.Tx) error {
		key, begin, end := arg("b"), arg("d"), arg("e")
		_, err := tx.Get(key)
		if err != nil {
			return err
		}
		tx.AddReadConflict(kv.Range{Begin: begin, End: end})
		last := []kv.Range{{Begin: arg("p"), End: arg("r")}, {Begin: arg("t"), End: arg("v")}}
		_, err = kvext.LastKeys(tx, last, kv.Range{}, nil)
		scribble(key, begin, end, last[0].Begin, last[0].End, last[1].Begin, last[1].End)
		clear(last)
		return err
	}}
	writes := func(tx kv.Tx) {
		begin, end := arg("d"), arg("e")
		tx.AddWriteConflict(kv.Range{Begin: begin, End: end})
		scribble(begin, end)
	}
	t.wantConflict(reads, "Set(b)", set("b"), true)
	t.wantConflict(reads, "AddWriteConflict d to e", writes, true)
	t.wantConflict(reads, "Set(q)", set("q"), true)
	t.wantConflict(reads, "Set(u)", set("u"), true)
	t.wantConflict(reads, "Set(#)", set("#", "####"), false)
}

func checkResultsOwned(t *tester) {
	t.reset("a", "b", "c")
	scribbleAll := func(r kv.Reader) error {
		value, err := r.Get([]byte("b"))
		if err != nil {
			return err
		}
		scribble(value)
		for _, reverse := range []bool{false, true} {
			for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{Reverse: reverse}) {
				if err != nil {
					return err
				}
				kept := bytes.Clone(pair.Value)
				if scribble(pair.Key); !bytes.Equal(pair.Value, kept) {
					t.Errorf("appending to the key that a range returned changed its value from %q to %q", kept, pair.Value)
				}
				scribble(pair.Value)
			}
		}
		known, _, err := kvext.Known(r.Snapshot(), kv.Range{}, kv.RangeOptions{Limit: 3}, nil)
		if err != nil {
			return err
		}
		for _, pair := range known { // of which the keys are not the caller's
			scribble(pair.Value)
		}
		t.wantGet("after changing all results of earlier reads", r, "b", "b")
		return t.wantKeys("after changing all results of earlier reads", r.Range(kv.Range{}, kv.RangeOptions{}), "a b c ")
	}
	t.inBoth(scribbleAll)
	t.transact(func(tx kv.Tx) error {
		set("a", "b")(tx)
		tx.Set([]byte("b"), []byte("b"))
		return scribbleAll(tx)
	})
	t.want("after changing all results", "a", "other", "b", "b", "c", "c")
}

func checkInvalidWrites(t *tester) {
	good, bad := []byte("good"), [][]byte{nil, {}, {0xff}, {0xff, 0x00}}
	var writes []func(kv.Tx)
	for _, key := range bad {
		writes = append(writes,
			func(tx kv.Tx) { tx.Set(key, nil) },
			func(tx kv.Tx) { tx.Clear(key) },
			func(tx kv.Tx) { tx.Add(key, 1) })
	}
	inverted := span("d", "c")
	writes = append(writes,
		func(tx kv.Tx) { tx.ClearRange(inverted) },
		func(tx kv.Tx) { tx.AddReadConflict(inverted) },
		func(tx kv.Tx) { tx.AddWriteConflict(inverted) })
	for i, write := range writes {
		n := 0
		err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			n++
			tx.Set(good, nil)
			write(tx)
			tx.Set(good, nil)
			return nil
		})
		t.wantFailed(fmt.Sprint("bad write ", i), err, kv.ErrInvalid, n, 1)
		t.want("after a transaction with a bad write")
	}
}

func checkInvalidReads(t *tester) {
	t.reset("b")
	check := func(r kv.Reader) error {
		for _, key := range [][]byte{nil, {}, {0xff}, {0xff, 0x00}} {
			if value, err := r.Get(key); value != nil || !errors.Is(err, kv.ErrInvalid) {
				t.Errorf("Get(%q) returned %q, %v; want ErrInvalid", key, value, err)
			}
		}
		for _, c := range []struct {
			kv.Range
			kv.RangeOptions
		}{
			{span("d", "c"), kv.RangeOptions{}},
			{span("d", "c"), kv.RangeOptions{Reverse: true}},
			{span("d", "c"), kv.RangeOptions{Limit: 1}},
			{span("a", "z"), kv.RangeOptions{Limit: -1}},
			{span("a", "z"), kv.RangeOptions{Limit: -1, Reverse: true}},
		} {
			n := 0
			for pair, err := range r.Range(c.Range, c.RangeOptions) {
				if n++; n > 1 || pair.Key != nil || pair.Value != nil || !errors.Is(err, kv.ErrInvalid) {
					t.Errorf("Range %q to %q, %+v: result %d is %q, %v; want ErrInvalid alone", c.Begin, c.End, c.RangeOptions, n, pair, err)
				}
			}
			if n == 0 {
				t.Errorf("Range %q to %q, %+v ended without an error, want ErrInvalid", c.Begin, c.End, c.RangeOptions)
			}
		}
		if _, err := kvext.LastKey(r, span("d", "c"), span("a", "c")); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("LastKey from d to c returned %v, want ErrInvalid", err)
		}
		for range 2 { // an engine may know more the second time
			if _, err := kvext.LastKeys(r, []kv.Range{span("a", "c"), span("d", "c")}, span("a", "c"), nil); !errors.Is(err, kv.ErrInvalid) {
				t.Errorf("LastKeys to c, and from d to c, returned %v, want ErrInvalid", err)
			}
		}
		t.wantGet("after bad reads", r, "b", "b")
		return nil
	}
	t.inEach(check)
	t.transact(func(tx kv.Tx) error { tx.Set([]byte("c"), nil); return check(tx) })
	t.want("a transaction that got errors from bad reads commits", "b", "b", "c", "")
}

func checkNil(t *tester) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("a transaction of a nil function panicked: %v; want ErrInvalid", p)
		}
	}()
	var none context.Context
	n := 0
	for what, err := range map[string]error{
		"Transact with a nil context":     t.db.Transact(none, func(kv.Tx) error { n++; return nil }),
		"ReadTransact with a nil context": t.db.ReadTransact(none, func(kv.Reader) error { n++; return nil }),
		"Transact of a nil function":      t.db.Transact(t.ctx, nil),
		"ReadTransact of a nil function":  t.db.ReadTransact(t.ctx, nil),
	} {
		t.wantFailed(what, err, kv.ErrInvalid, n, 0)
	}
	t.write(set("k"))
	t.want("after transactions of nil", "k", "other")
}

func checkFirstBadWrite(t *tester) {
	invalid := func(tx kv.Tx) { tx.Set(nil, nil) }
	tooLarge := func(tx kv.Tx) { tx.Set([]byte("k"), make([]byte, t.limit(t.db.Limits().Value)+1)) }
	err := t.db.Transact(t.ctx, func(tx kv.Tx) error { invalid(tx); tooLarge(tx); return nil })
	if !errors.Is(err, kv.ErrInvalid) || errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("an invalid write, then a too large one: Transact returned %v, want ErrInvalid", err)
	}
	err = t.db.Transact(t.ctx, func(tx kv.Tx) error { tooLarge(tx); invalid(tx); return nil })
	if errors.Is(err, kv.ErrInvalid) || !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("a too large write, then an invalid one: Transact returned %v, want ErrTooLarge", err)
	}
}
