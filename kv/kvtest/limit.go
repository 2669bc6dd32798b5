package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/conq-go/conq/kv"
)

var limitCases = []testCase{
	{name: "limits are stated", check: checkLimitsStated,
		rule: "Limits says how large keys, values and transactions may be, and always the same"},
	{name: "key", check: checkKeyLimit,
		rule: "a key may be as long as Limits.Key, exactly, in every method"},
	{name: "range bound", check: checkBoundLimit,
		rule: "the range of the longest key is usable, though its end is longer"},
	{name: "value", check: checkValueLimit,
		rule: "a value may be as long as Limits.Value, exactly; what is too large is not tried again"},
	{name: "transaction", check: checkTransactionLimit, long: true,
		rule: "a transaction may write Limits.Transaction bytes, exactly: of keys and values, of keys and bounds that it clears, and an Add 8 with its key"},
	{name: "operations", check: checkOperationLimit,
		rule: "a transaction may have as many operations as Limits.Operations, exactly"},
	{name: "keys read and written", check: checkKeysReadAndWritten,
		rule: "a key that is read and written, or written again, counts one operation"},
}

// limit is l, or what stands for no limit.
func (t *tester) limit(l int) int {
	if l <= 0 {
		t.Fatalf("Limits() %+v: sizes have to be positive", t.db.Limits())
	}
	return l
}

// wantTooLarge commits f, which has to fail with exactly want, at its first attempt.
func (t *tester) wantTooLarge(f func(kv.Tx), want kv.TooLargeError) {
	t.Helper()
	n := 0
	err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
		n++
		tx.OnCommit(func() { t.Errorf("OnCommit ran for a transaction that was too large") })
		f(tx)
		return nil
	})
	t.wantTooLargeError(err, want)
	t.wantFailed("a transaction that is too large", err, kv.ErrTooLarge, n, 1)
}

func (t *tester) wantTooLargeError(err error, want kv.TooLargeError) {
	t.Helper()
	var got *kv.TooLargeError
	if !errors.As(err, &got) || !errors.Is(err, kv.ErrTooLarge) || *got != want {
		t.Errorf("%s of %d %s, over the limit of %d: error %v, want %v", want.What, want.Size, want.Unit, want.Limit, err, &want)
	}
}

func checkLimitsStated(t *tester) {
	limits := t.db.Limits()
	t.limit(limits.Key)
	t.limit(limits.Value)
	t.limit(limits.Transaction)
	if limits.Operations < 0 || limits.Age < 0 {
		t.Errorf("Limits() %+v: want no negative ones", limits)
	}
	t.reset("a")
	if again := t.db.Limits(); again != limits {
		t.Errorf("Limits() changed from %+v to %+v", limits, again)
	}
}

func checkKeyLimit(t *tester) {
	longest := t.limit(t.db.Limits().Key)
	key, over := bytes.Repeat([]byte("k"), longest), bytes.Repeat([]byte("k"), longest+1)
	want := kv.TooLargeError{What: "key", Size: longest + 1, Limit: longest, Unit: "bytes"}
	t.transact(func(tx kv.Tx) error {
		tx.Set(key, []byte("value"))
		t.wantGet("the longest key", tx, string(key), "value")
		_, err := tx.Get(over)
		t.wantTooLargeError(err, want)
		_, err = tx.Snapshot().Get(over)
		t.wantTooLargeError(err, want)
		return nil
	})
	t.want("after a write of the longest key", string(key), "value")
	for _, write := range []func(kv.Tx){
		func(tx kv.Tx) { tx.Set(over, nil) },
		func(tx kv.Tx) { tx.Clear(over) },
		func(tx kv.Tx) { tx.Add(over, 1) },
	} {
		t.wantTooLarge(func(tx kv.Tx) { tx.Set([]byte("a"), nil); write(tx); tx.Set([]byte("b"), nil) }, want)
	}
	t.want("after writes of a key that is too long", string(key), "value")
	t.write(func(tx kv.Tx) { tx.Add(key, 1); tx.Clear(key) })
	t.want("after clearing the longest key")
}

func checkBoundLimit(t *tester) {
	key := bytes.Repeat([]byte("k"), t.limit(t.db.Limits().Key))
	alone := kv.KeyRange(key)
	t.put(string(key), "")
	t.transact(func(tx kv.Tx) error {
		err := t.wantKeys("the range of the longest key", tx.Range(alone, kv.RangeOptions{}), string(key)+" ")
		tx.AddReadConflict(alone)
		tx.AddWriteConflict(alone)
		tx.ClearRange(alone)
		return err
	})
	t.want("after ClearRange of the longest key")
}

func checkValueLimit(t *tester) {
	largest := t.limit(t.db.Limits().Value)
	value, over := bytes.Repeat([]byte("v"), largest), bytes.Repeat([]byte("v"), largest+1)
	t.write(func(tx kv.Tx) {
		tx.Set([]byte("k"), value)
		t.wantGet("the largest value, in its transaction", tx, "k", string(value))
	})
	t.read(func(r kv.Reader) error {
		t.wantGet("the largest value", r, "k", string(value))
		return nil
	})
	t.wantTooLarge(func(tx kv.Tx) { tx.Set([]byte("a"), nil); tx.Set([]byte("k"), over); tx.Set([]byte("b"), nil) },
		kv.TooLargeError{What: "value", Size: largest + 1, Limit: largest, Unit: "bytes"})
	t.want("after a write of a value that is too large", "k", string(value))
}

// bulk writes pairs of size bytes of keys and values in all.
func (t *tester) bulk(tx kv.Tx, size int) (operations int) {
	value := make([]byte, t.db.Limits().Value)
	for ; size > 0; operations++ {
		key := fmt.Appendf(nil, "%08d", operations)
		key = key[max(0, len(key)-size):] // shorter than the others, if there is no room
		n := min(len(value), size-len(key))
		tx.Set(key, value[:n])
		size -= len(key) + n
	}
	return operations
}

func checkTransactionLimit(t *tester) {
	limits := t.db.Limits()
	largest := t.limit(limits.Transaction)
	operations := 0
	over := kv.TooLargeError{What: "transaction", Size: largest + 1, Limit: largest, Unit: "bytes"}
	t.wantTooLarge(func(tx kv.Tx) { operations = t.bulk(tx, largest+1) }, over)
	if limits.Operations > 0 && operations > limits.Operations {
		t.Fatalf("Limits() %+v: that many operations can't reach the size of a transaction", limits)
	}
	t.wantTooLarge(func(tx kv.Tx) { t.bulk(tx, largest-8); tx.Add([]byte("a"), 1) }, over)
	t.wantTooLarge(func(tx kv.Tx) { t.bulk(tx, largest); tx.Clear([]byte("b")) }, over)
	t.wantTooLarge(func(tx kv.Tx) { t.bulk(tx, largest-1); tx.ClearRange(span("c", "d")) }, over)
	t.want("after transactions that are too large")
	const cleared = 3 // bytes
	t.write(func(tx kv.Tx) {
		t.bulk(tx, largest-cleared-9)
		tx.Add([]byte("a"), 1)
		tx.Clear([]byte("b"))
		tx.ClearRange(span("c", "d"))
	})
	size := 0
	t.read(func(r kv.Reader) error {
		pairs, err := collect(r.Range(kv.Range{}, kv.RangeOptions{}))
		for _, pair := range pairs {
			size += len(pair.Key) + len(pair.Value)
		}
		return err
	})
	if size != largest-cleared {
		t.Errorf("a transaction of %d bytes, which is the limit, %d of them cleared, left %d bytes", largest, cleared, size)
	}
}

func checkOperationLimit(t *tester) {
	most := t.db.Limits().Operations
	if most == 0 {
		most = math.MaxInt16 // no limit: this many have to work
	}
	fill := func(n int) func(kv.Tx) {
		return func(tx kv.Tx) {
			for i := range n {
				tx.Set(fmt.Appendf(nil, "%06d", i), nil)
			}
		}
	}
	if t.db.Limits().Operations > 0 {
		t.wantTooLarge(fill(most+1), kv.TooLargeError{What: "transaction", Size: most + 1, Limit: most, Unit: "operations"})
		t.want("after a transaction of too many operations")
	}
	t.write(fill(most))
	t.read(func(r kv.Reader) error {
		pairs, err := collect(r.Range(kv.Range{}, kv.RangeOptions{}))
		if len(pairs) != most {
			t.Errorf("a transaction of %d operations stored %d pairs", most, len(pairs))
		}
		return err
	})
}

func checkKeysReadAndWritten(t *tester) {
	most := t.db.Limits().Operations
	if most == 0 {
		return
	}
	t.write(func(tx kv.Tx) {
		for i := range most - 2 {
			key := fmt.Appendf(nil, "%06d", i)
			if i%2 == 0 {
				tx.AddReadConflict(kv.KeyRange(key))
			} else if _, err := tx.Get(key); err != nil {
				t.Errorf("Get: %v", err)
			}
			tx.Set(key, nil)
			switch i % 3 {
			case 0:
				tx.Add(key, 1)
			case 1:
				tx.Clear(key)
				tx.Set(key, nil)
			}
		}
	})
}
