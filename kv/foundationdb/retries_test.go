package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// fails makes an operation fail a number of times, with each of codes in turn.
func fails(op string, times int, codes ...int) func(string) int {
	n := 0
	return func(what string) int {
		if what != op || n == times*len(codes) {
			return 0
		}
		n++
		return codes[(n-1)%len(codes)]
	}
}

// After errors that pass, the function runs again, as often as it takes; after
// others it does not.
func TestRetries(t *testing.T) {
	for _, op := range []string{"version", "get", "range", "commit"} {
		for _, code := range []int{1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223} {
			t.Run(fmt.Sprint(op, code), func(t *testing.T) {
				inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
					times := 12
					if code == codeTransactionTooOld {
						times = kv.MaxTooOld
					}
					c.failWith(fails(op, times, code))
					runs := 0
					err := db.Transact(t.Context(), func(tx kv.Tx) error {
						runs++
						if _, err := tx.Get([]byte("a")); err != nil {
							return fmt.Errorf("wrapped: %w", err)
						}
						for _, err := range tx.Range(kv.Range{}, kv.RangeOptions{}) {
							if err != nil {
								return err
							}
						}
						set(tx, "a", "b")
						return nil
					})
					want := times + 1
					if op == "version" { // that comes up before the function runs
						want = 1
					}
					if err != nil || runs != want || c.pauses.Load() != int64(times) {
						t.Errorf("%d runs with %d pauses: %v; want %d and %d", runs, c.pauses.Load(), err, want, times)
					}
					if got := get(t, db, "a"); got != "b" {
						t.Errorf("the value is %q", got)
					}
				})
			})
		}
	}
}

func TestNoRetries(t *testing.T) {
	for code, want := range map[int]error{2004: kv.ErrInvalid, 2005: kv.ErrInvalid, 2023: kv.ErrReadOnly, 1515: nil, 2000: nil} {
		for _, op := range []string{"get", "range", "commit", "begin", "version"} {
			inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
				c.failWith(fails(op, 1, code))
				runs := 0
				err := db.Transact(t.Context(), func(tx kv.Tx) error {
					runs++
					_, err := tx.Get([]byte("a"))
					for _, failed := range tx.Range(kv.Range{}, kv.RangeOptions{}) {
						err = errors.Join(err, failed)
					}
					set(tx, "a", "b")
					return err
				})
				var e *Error
				if runs > 1 || !errors.As(err, &e) || e.Code != code || want != nil && !errors.Is(err, want) || !errors.Is(err, fakeError(code)) {
					t.Errorf("%s failed with %d: %v after %d runs; want that error, which is %v", op, code, err, runs, want)
				}
			})
		}
	}
}

func TestRetryLimit(t *testing.T) {
	for _, retries := range []int{1, 5} {
		inStore(t, Options{Retries: retries}, func(t *testing.T, db *DB, c *fake) {
			c.failWith(fails("commit", 100, codeNotCommitted))
			runs := 0
			err := db.Transact(t.Context(), func(tx kv.Tx) error { runs++; set(tx, "a", "b"); return nil })
			if !errors.Is(err, kv.ErrConflict) || runs != retries+1 || !strings.Contains(err.Error(), fmt.Sprint(retries, " retries")) {
				t.Errorf("%v after %d runs, want ErrConflict after %d, with the limit", err, runs, retries+1)
			}
		})
	}
}

// An outcome that is unknown is told, and not tried again, whether the commit has
// happened or not. One of a transaction that has written nothing can't be.
func TestUnknownOutcome(t *testing.T) {
	for _, code := range []int{1021, 1022, 1025, 1030, 1031, 1039, 1100, 1101, 2017, 4000, 4100} {
		for _, late := range []bool{false, true} {
			inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
				get(t, db, "a")
				c.late = func() bool { return late }
				c.failWith(fails("commit", 1, code))
				runs := 0
				var told <-chan error
				err := db.Transact(t.Context(), func(tx kv.Tx) error {
					runs++
					set(tx, "a", "b")
					told = tx.Watch([]byte("a"))
					tx.OnCommit(func() { t.Error("OnCommit ran") })
					return nil
				})
				if !errors.Is(err, kv.ErrCommitUnknown) || runs != 1 {
					t.Errorf("error %d at the commit: %v after %d runs, want ErrCommitUnknown after 1", code, err, runs)
				}
				if err := <-told; !errors.Is(err, kv.ErrCommitUnknown) {
					t.Errorf("the watch told %v", err)
				}
				if got := get(t, db, "a"); (got == "b") != late {
					t.Errorf("the value is %q", got)
				}
			})
		}
	}
}

// When the context ends, the error tells why the transaction had not committed.
func TestReasonOfRetries(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		get(t, db, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		runs := 0
		err := db.Transact(ctx, func(tx kv.Tx) error {
			if runs++; runs == 5 {
				c.stuck.Store(true)
			}
			c.failWith(fails("commit", 1, codeCommitProxyMemory))
			set(tx, "a", "b")
			_, err := tx.Get([]byte("a b"))
			return err
		})
		var e *Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kv.ErrConflict) || !errors.As(err, &e) || e.Code != codeCommitProxyMemory {
			t.Errorf("error %v, want that of the context, with error 1042 of the last attempt", err)
		}
		c.stuck.Store(false)
	})
}
