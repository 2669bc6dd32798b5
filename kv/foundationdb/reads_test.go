package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// drain reads everything, up to a limit.
func drain(r kv.Reader, limit int) error {
	for _, err := range r.Range(kv.Range{}, kv.RangeOptions{Limit: limit}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reads of ReadTransact are repeated, at the version that the earlier ones had.
func TestReadsAreRepeated(t *testing.T) {
	for _, code := range []int{1009, 1037, 1213} {
		inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
			fill(t, db, 20)
			runs := 0
			var seen [][]string
			if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				runs++
				c.failWith(fails("version", 2, code))
				if _, err := r.Get([]byte("k05")); err != nil {
					return err
				}
				c.failWith(nil)
				if err := db.Transact(t.Context(), func(tx kv.Tx) error { tx.ClearRange(kv.Range{}); return nil }); err != nil {
					return err
				}
				n := 0
				c.failWith(func(op string) int {
					if n++; (op == "get" || op == "range") && n%3 != 0 {
						return code
					}
					return 0
				})
				for outer, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
					if err != nil {
						return err
					}
					var keys []string
					for inner, err := range r.Range(kv.Range{End: outer.Key}, kv.RangeOptions{Reverse: true}) {
						if err != nil {
							return err
						}
						keys = append(keys, string(inner.Key))
					}
					seen = append(seen, keys)
				}
				return nil
			}); err != nil || runs != 1 || len(seen) != 20 {
				t.Fatalf("%v after %d runs, with %d pairs; want 20 after 1", err, runs, len(seen))
			}
			for i, keys := range seen {
				if len(keys) != i {
					t.Errorf("in front of key %d are %q", i, keys)
				}
			}
		})
	}
}

func fill(t *testing.T, db *DB, n int) {
	t.Helper()
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		for i := range n {
			set(tx, fmt.Sprintf("k%02d", i), fmt.Sprint(i))
		}
		return nil
	}))
}

// LastKeys asks for all before it waits, however many there are, and again for what has failed.
func TestLastKeysAreAskedForAtOnce(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		fill(t, db, 20)
		var spans []kv.Range
		for i := range mostAsked + 5 {
			spans = append(spans, kv.Range{End: fmt.Appendf(nil, "k%02d", i%20)})
		}
		asked := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.ranges)
		}
		ctx, cancel := context.WithCancel(t.Context())
		before := asked()
		c.stuck.Store(true)
		go func() {
			synctest.Wait()
			if n := asked() - before; n != mostAsked {
				t.Errorf("%d reads under way at once, want %d", n, mostAsked)
			}
			cancel()
		}()
		if err := db.ReadTransact(ctx, func(r kv.Reader) error {
			_, err := kvext.LastKeys(r, spans, kv.Range{}, nil)
			return err
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cluster that does not answer, until the context ends: %v", err)
		}
		c.stuck.Store(false)

		n := 0
		c.failWith(func(op string) int {
			if n++; op == "range" && n%3 == 0 {
				return 1037
			}
			return 0
		})
		if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			keys, err := kvext.LastKeys(r, spans, kv.Range{}, nil)
			for i, key := range keys {
				want := fmt.Sprintf("k%02d", i%20-1)
				if i%20 == 0 {
					want = ""
				}
				if string(key) != want {
					t.Errorf("the last key before %q is %q, want %q", spans[i].End, key, want)
				}
			}
			return err
		}); err != nil || n < len(spans)*3/2-1 {
			t.Errorf("%v after %d reads", err, n)
		}
		c.failWith(nil)
	})
}

// Prefetch asks for all at once, with the read behind it; what has failed is asked for again.
func TestPrefetchAsksAtOnce(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		fill(t, db, 20)
		first := kv.Read{Range: kv.Range{}, Options: kv.RangeOptions{Limit: 1}}
		last := kv.Read{Range: kv.Range{Begin: []byte("k05"), End: []byte("l")}, Options: kv.RangeOptions{Limit: 2, Reverse: true}}
		run := func(ctx context.Context) (got []string, err error) {
			err = db.Transact(ctx, func(tx kv.Tx) error {
				got = nil
				kv.Prefetch(tx.Snapshot(), kv.Read{Key: []byte("k07")}, first, last, kv.Read{Key: bytes.Repeat([]byte("k"), 20_000)})
				for _, read := range []kv.Read{last, first} {
					for pair, err := range tx.Range(read.Range, read.Options) {
						if err != nil {
							return err
						}
						got = append(got, string(pair.Key))
					}
				}
				value, err := tx.Get([]byte("k07"))
				got = append(got, string(value))
				tx.Set([]byte("written"), nil)
				return err
			})
			return got, err
		}
		asked := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.ranges)
		}
		ctx, cancel := context.WithCancel(t.Context())
		before := asked()
		c.stuck.Store(true)
		go func() {
			synctest.Wait()
			if n := asked() - before; n != 2 {
				t.Errorf("%d range reads under way, want 2", n)
			}
			cancel()
		}()
		if _, err := run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a cluster that does not answer, until the context ends: %v", err)
		}
		c.stuck.Store(false)
		for _, op := range []string{"get", "range", "version"} {
			c.failWith(fails(op, 1, codeCommitProxyMemory))
			got, err := run(t.Context())
			if want := "k19 k18 k00 7"; strings.Join(got, " ") != want || err != nil {
				t.Errorf("after a %s that has failed: %q, %v, want %s", op, got, err, want)
			}
		}
	})
}

// The first read of ReadTransact, with which nothing can be mixed, is repeated at a later version if its
// own is too old, but not for ever.
func TestFirstReadTooOld(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		fill(t, db, 1)
		for times := range kv.MaxTooOld + 2 {
			c.failWith(fails("version", times, codeTransactionTooOld))
			err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				if value, err := r.Get([]byte("k00")); string(value) != "0" {
					return err
				}
				return nil
			})
			if want := times > kv.MaxTooOld; errors.Is(err, kv.ErrTooOld) != want || err != nil && !want {
				t.Errorf("too old %d times: %v", times, err)
			}
		}
	})
}

// When the cluster's version changes, the library starts the transaction anew and has forgotten its
// version: what was read before has become too old. A first read is repeated.
func TestReadsAfterAnUpgrade(t *testing.T) {
	for _, op := range []string{"get", "range"} {
		inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
			fill(t, db, 5)
			err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				c.failWith(fails(op, 1, codeClusterVersion))
				if op == "get" {
					value, err := r.Get([]byte("k03"))
					if string(value) != "3" || err != nil {
						t.Errorf("a first read returned %q, %v", value, err)
					}
				} else if err := drain(r, 0); err != nil {
					t.Errorf("a first loop: %v", err)
				}
				c.failWith(fails(op, 1, codeClusterVersion))
				if op == "range" {
					return drain(r, 0)
				}
				_, err := r.Get([]byte("k04"))
				return err
			})
			if !errors.Is(err, kv.ErrTooOld) || errors.Is(err, kv.ErrConflict) {
				t.Errorf("%s: error %v, want ErrTooOld alone", op, err)
			}
		})
	}
}

// A range read asks for what the limit says, once.
func TestOneRequestForALimit(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		fill(t, db, 20)
		for _, limit := range []int{0, 1, 7, 20, 30, math.MaxInt, math.MaxInt - math.MaxInt32} {
			c.ranges = nil
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return drain(tx, limit) }))
			if want := []fakeRange{{min(limit, math.MaxInt32), false}}; !slices.Equal(c.ranges, want) {
				t.Errorf("limit %d: asked for %v, want %v", limit, c.ranges, want)
			}
		}
	})
}

// A loop that is left early leaves no request behind, which inStore looks for.
func TestLoopsLeft(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, _ *fake) {
		fill(t, db, 20)
		leave := func(r kv.Reader) error {
			n := 0
			for _, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
				if n++; err != nil || n == 6 { // when the third batch has been asked for
					return err
				}
			}
			return nil
		}
		testkit.Check(t, db.ReadTransact(t.Context(), leave))
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error { return leave(tx) }))
		own := errors.New("own")
		if err := db.Transact(t.Context(), func(tx kv.Tx) error { return errors.Join(leave(tx), own) }); !errors.Is(err, own) {
			t.Error(err)
		}
	})
}
