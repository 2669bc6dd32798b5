package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

// set sets keys to themselves. To do so twice does no harm.
func set(t testing.TB, db kv.DB, keys ...string) {
	t.Helper()
	err := kv.ErrCommitUnknown
	for errors.Is(err, kv.ErrCommitUnknown) {
		err = db.Transact(t.Context(), func(tx kv.Tx) error {
			for _, key := range keys {
				tx.Set([]byte(key), []byte(key))
			}
			return nil
		})
	}
	testkit.NoError(t, err)
}

func get(t testing.TB, db kv.DB, key string) string {
	t.Helper()
	return string(testkit.Value(t, db, []byte(key)))
}

// compact forgets the history of the cluster.
func (c *cluster) compact(t testing.TB) {
	t.Helper()
	r, err := c.direct.Put(t.Context(), "compact", "")
	testkit.NoError(t, err)
	_, err = c.direct.Compact(t.Context(), r.Header.Revision)
	testkit.NoError(t, err)
}

// TestEngine checks what the contract leaves open, or kvtest can't see.
func TestEngine(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"compacted", testCompacted},
		{"compacted for a reader", testCompactedReader},
		{"largest transactions", testLargest},
		{"keys that were read make a request too large", testReadTooMuch},
		{"keys that others remove", testRemoved},
		{"long ranges from either end", testLongRanges},
		{"range writes leave little behind", testRangeLog},
		{"range writes by others", testRangeWritesByOthers},
		{"stores apart", testStoresApart},
		{"newer format", testNewerFormat},
		{"context ends while nothing answers", testCancel},
		{"commit without an answer", testCommitWithoutAnswer},
		{"nothing leaks", testLeaks},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func testCompacted(t *testing.T, c *cluster) {
	db := open(t, c.options())
	set(t, db, "a", "b")
	n := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		if _, err := tx.Snapshot().Get([]byte("a")); err != nil {
			return err
		}
		if n == 1 {
			set(t, db, "b")
			c.compact(t)
		}
		_, err := tx.Get([]byte("b"))
		if n == 1 && !errors.Is(err, kv.ErrTooOld) {
			t.Errorf("a read at a compacted revision returned %v, want ErrTooOld", err)
		}
		tx.Set([]byte("c"), nil)
		return err
	}))
	if n != 2 {
		t.Errorf("it took %d attempts, want 2", n)
	}
	n = 0
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		if _, err := tx.Get([]byte("a")); err != nil {
			return err
		}
		set(t, db, "b")
		c.compact(t)
		_, err := tx.Get([]byte("b"))
		return err
	})
	if !errors.Is(err, kv.ErrTooOld) || n != kv.MaxTooOld+1 {
		t.Errorf("compacted in every attempt: error %v after %d, want ErrTooOld after %d", err, n, kv.MaxTooOld+1)
	}
	n = 0 // what has been read is enough to commit
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		_, err := tx.Get([]byte("a"))
		set(t, db, "b")
		c.compact(t)
		tx.Set([]byte("d"), nil)
		return err
	}))
	if n != 1 {
		t.Errorf("a commit after a compaction took %d attempts, want 1", n)
	}
}

func testCompactedReader(t *testing.T, c *cluster) {
	db := open(t, c.options())
	set(t, db, "a", "b")
	err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
		_, err := r.Get([]byte("a"))
		set(t, db, "b")
		c.compact(t)
		testkit.NoError(t, err)
		for _, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			return err
		}
		return nil
	})
	if !errors.Is(err, kv.ErrTooOld) {
		t.Errorf("a loop at a compacted revision returned %v, want ErrTooOld", err)
	}
}

// Whatever makes up the operations of a transaction, the cluster takes it: it
// counts comparisons, which reads and Adds need, and splits ranges around keys. What is
// read or added to lies beside the ranges: in them it would count nothing.
func testLargest(t *testing.T, c *cluster) {
	db := open(t, c.options())
	most := db.Limits().Operations
	key := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
	for _, shape := range []struct{ reads, ranges, sets, clears, adds int }{
		{sets: most - 1, ranges: 1}, {reads: most - 1, sets: 1}, {reads: most / 2, sets: most/2 - 1, ranges: 1},
		{adds: most / 2}, {adds: most/2 - 1, ranges: 1, sets: 1}, {reads: most / 2, adds: most / 4},
		{reads: 20, adds: 20, sets: 47, ranges: 1, clears: 20}, {clears: most}, {clears: most / 2, sets: most / 2},
		{reads: 1, sets: most - 2, ranges: 1}, {ranges: most}, {reads: 60, ranges: 68}, {adds: 1, ranges: 1, sets: most - 3},
		{reads: 2, adds: 1, ranges: 1, sets: most - 5},
	} {
		run := func(extra int) error {
			return db.Transact(t.Context(), func(tx kv.Tx) error {
				for i := range shape.reads {
					if _, err := tx.Get(append([]byte("r"), key(i)...)); err != nil {
						return err
					}
				}
				for i := range shape.ranges {
					tx.ClearRange(kv.Range{Begin: key(0), End: append(key(9999-i), 'x')})
				}
				for i := range shape.sets + extra {
					tx.Set(append(key(i), 's'), []byte("set"))
				}
				for i := range shape.clears {
					tx.Clear(append([]byte("c"), key(i)...))
				}
				for i := range shape.adds {
					tx.Add(append([]byte("a"), key(i)...), 1)
				}
				return nil
			})
		}
		if err := run(0); err != nil {
			t.Errorf("%+v: %v", shape, err)
		}
		n := 0
		for _, pair := range testkit.Everything(t, db) {
			if bytes.HasSuffix(pair.Key, []byte("s")) {
				n++
			}
		}
		if n < shape.sets {
			t.Errorf("%+v: %d keys are there that were set", shape, n)
		}
		var tooLarge *kv.TooLargeError
		if err := run(1); !errors.As(err, &tooLarge) || tooLarge.Unit != "operations" || tooLarge.Size != most+1 {
			t.Errorf("%+v and one more: error %v, want one of %d operations", shape, err, most+1)
		}
	}
}

func testReadTooMuch(t *testing.T, c *cluster) {
	db := open(t, c.options())
	limits := db.Limits()
	read := func(n int) error {
		return db.Transact(t.Context(), func(tx kv.Tx) error {
			for i := range n {
				if _, err := tx.Get(bytes.Repeat([]byte{byte(i + 1)}, limits.Key)); err != nil {
					return err
				}
			}
			for i, left := 0, limits.Transaction-100; left > 0; i++ {
				n := min(left, limits.Value)
				tx.Set(fmt.Append(nil, i), make([]byte, n))
				left -= n
			}
			return nil
		})
	}
	testkit.NoError(t, read(20))
	var tooLarge *kv.TooLargeError
	if err := read(125); !errors.As(err, &tooLarge) || !strings.Contains(tooLarge.What, "request") {
		t.Errorf("the largest transaction that also read 125 of the longest keys: error %v, want what was too large", err)
	}
}

// Reads at either end of long ranges, with and without hints, right ones and
// wrong ones, return what is there.
func testLongRanges(t *testing.T, c *cluster) {
	o := c.options()
	writer := open(t, o)
	const n = 3000
	alive := make([]bool, n)
	key := func(i int) string { return fmt.Sprintf("queue/%08d", i) }
	change := func(from, to int, there bool) {
		for ; from < to; from += 100 {
			testkit.NoError(t, writer.Transact(t.Context(), func(tx kv.Tx) error {
				for i := from; i < min(from+100, to); i++ {
					if alive[i] = there; there {
						tx.Set([]byte(key(i)), []byte(key(i)))
					} else {
						tx.Clear([]byte(key(i)))
					}
				}
				return nil
			}))
		}
	}
	all := kv.PrefixRange([]byte("queue/"))
	check := func(db kv.DB, limit int, reverse bool) {
		t.Helper()
		var want, got []string
		for i := range n {
			if reverse {
				i = n - 1 - i
			}
			if alive[i] && len(want) < limit {
				want = append(want, key(i))
			}
		}
		testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
			for pair, err := range r.Range(all, kv.RangeOptions{Limit: limit, Reverse: reverse}) {
				if err != nil {
					return err
				}
				got = append(got, string(pair.Key))
			}
			return nil
		}))
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("limit %d, reverse %v: %d keys from %.40q, want %d from %.40q", limit, reverse, len(got), got, len(want), want)
		}
	}
	set(t, writer, "a", "z") // around the queue
	random := rand.New(rand.NewPCG(1, 2))
	reader := open(t, o)
	change(0, 2000, true)
	for round := range 12 {
		for _, limit := range []int{1, 2, 16, 300, n} {
			for _, reverse := range []bool{false, true} {
				check(reader, limit, reverse)
				if round%4 == 0 {
					check(open(t, o), limit, reverse)
				}
			}
		}
		from := random.IntN(n)
		change(from, min(n, from+random.IntN(1000)), round%3 == 0)
	}
	change(0, n, false)
	check(reader, 5, false)
	check(reader, 5, true)
}

// countKeys returns how many keys of the cluster begin with prefix.
func (c *cluster) countKeys(t testing.TB, prefix string) int {
	t.Helper()
	r, err := c.direct.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	testkit.NoError(t, err)
	return int(r.Count)
}

func testRangeLog(t *testing.T, c *cluster) {
	o := c.options()
	db := open(t, o)
	n := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		if _, err := tx.Get([]byte("a")); err != nil {
			return err
		}
		for range 1500 {
			if n == 1 {
				testkit.Remove(t, db, kv.Range{Begin: []byte("x"), End: []byte("y")})
			}
		}
		tx.Set([]byte("b"), nil)
		return nil
	}))
	if n != 2 {
		t.Errorf("a transaction older than the log of range writes took %d attempts, want 2", n)
	}
	// 512 may stay, and some more until somebody looks.
	if got := c.countKeys(t, o.Prefix+"\x00"); got > 1000 {
		t.Errorf("1,500 range writes have left %d keys", got)
	}
}

// What one store does to ranges, another one notices, exactly.
func testRangeWritesByOthers(t *testing.T, c *cluster) {
	o := c.options()
	db, other := open(t, o), open(t, o)
	set(t, db, "b", "d")
	for _, test := range []struct {
		begin, end string
		want       int
	}{{"c", "e", 2}, {"d", "e", 2}, {"d\x00", "e", 1}, {"a", "c", 1}, {"c", "d", 1}} {
		n := 0
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			if _, err := tx.Get([]byte("d")); err != nil {
				return err
			}
			if n++; n == 1 {
				for range 3 { // between a commit and the next look, too
					testkit.NoError(t, other.Transact(t.Context(), func(tx kv.Tx) error {
						tx.AddWriteConflict(kv.Range{Begin: []byte(test.begin), End: []byte(test.end)})
						return nil
					}))
				}
			}
			tx.Set([]byte("own"), nil)
			return nil
		}))
		if n != test.want {
			t.Errorf("a write conflict from %q to %q: a transaction that read d took %d attempts, want %d", test.begin, test.end, n, test.want)
		}
	}
}

func testStoresApart(t *testing.T, c *cluster) {
	short, long := c.options(), c.options()
	long.Prefix = short.Prefix + "/d"
	a, b := open(t, short), open(t, long)
	set(t, a, "k")
	set(t, b, "l")
	testkit.NoError(t, a.Transact(t.Context(), func(tx kv.Tx) error { tx.ClearRange(kv.Range{}); return nil }))
	if get(t, a, "k") != "" || get(t, b, "l") != "l" {
		t.Error("a store whose prefix begins another's prefix has cleared what is the other's")
	}
}

func testNewerFormat(t *testing.T, c *cluster) {
	o := c.options()
	_, err := c.direct.Put(t.Context(), o.Prefix+"\x00f", "3")
	testkit.NoError(t, err)
	if _, err := etcd.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), `format "3"`) {
		t.Errorf("a store of format 3 was opened: %v", err)
	}
}

// swallow has all proxies swallow until the test ends or the function is called.
func (c *cluster) swallow(t testing.TB) (end func()) {
	for _, p := range c.proxies {
		p.swallow(true)
	}
	end = sync.OnceFunc(func() {
		for _, p := range c.proxies {
			p.swallow(false)
		}
	})
	t.Cleanup(end)
	return end
}

var errCause = errors.New("cause")

func testCancel(t *testing.T, c *cluster) {
	db := open(t, c.options())
	set(t, db, "a")
	heal := c.swallow(t)
	for name, f := range map[string]func(kv.Tx) error{
		"a read":   func(tx kv.Tx) error { _, err := tx.Get([]byte("a")); return err },
		"a commit": func(tx kv.Tx) error { tx.Set([]byte("a"), nil); return nil },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errCause) })
		began := time.Now()
		err := db.Transact(ctx, f)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s went on for %v after its context had ended", name, took)
		}
		if !errors.Is(err, errCause) || errors.Is(err, kv.ErrCommitUnknown) != (name == "a commit") {
			t.Errorf("%s: error %v, want the cause, and that it is unknown only of a commit", name, err)
		}
	}
	heal()
	set(t, db, "b")
}

// A commit whose answer gets lost is of unknown outcome; in a lane it is found
// out.
func testCommitWithoutAnswer(t *testing.T, c *cluster) {
	o := c.options()
	o.Timeout = 300 * time.Millisecond
	db := open(t, o)
	set(t, db, "a")
	cut := func(tx kv.Tx) error {
		value, err := tx.Get([]byte("a"))
		tx.Set([]byte("a"), append(value, '+'))
		heal := c.swallow(t)
		time.AfterFunc(500*time.Millisecond, heal)
		return err
	}
	if err := db.Transact(t.Context(), cut); !errors.Is(err, kv.ErrCommitUnknown) {
		t.Errorf("a commit without an answer: error %v, want ErrCommitUnknown", err)
	}
	set(t, db, "a")
	n := 0
	lane := kv.NewOnce(db, []byte("outcome"), nil)
	for range 3 {
		_, err := kv.TransactOnce(t.Context(), lane, func(tx kv.Tx) (struct{}, error) {
			if n++; n%2 == 1 {
				return struct{}{}, cut(tx)
			}
			value, err := tx.Get([]byte("a"))
			tx.Set([]byte("a"), append(value, '+'))
			return struct{}{}, err
		})
		testkit.NoError(t, err)
	}
	if got := get(t, db, "a"); got != "a+++" {
		t.Errorf("three transactions that each add a + have made %q", got)
	}
}

func testLeaks(t *testing.T, c *cluster) {
	before := goleak.IgnoreCurrent()
	db, err := etcd.Open(t.Context(), c.options())
	testkit.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var told []<-chan error
	for i := range 20 {
		testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error {
			told = append(told, tx.Watch(fmt.Append(nil, "key ", i)))
			return nil
		}))
	}
	set(t, db, "key 3")
	<-told[3]
	c.proxies[0].cut()
	set(t, db, "key 4")
	<-told[4]
	testkit.NoError(t, db.Close())
	for _, told := range told {
		for range told {
		}
	}
	cancel()
	testkit.Check(t, goleak.Find(before))
}
