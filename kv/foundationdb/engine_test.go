package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url, file string
		want      Options
	}{
		{"foundationdb:", "", Options{}},
		{"foundationdb:/etc/fdb.cluster", "/etc/fdb.cluster", Options{}},
		{"foundationdb:fdb.cluster?prefix=a%00%ff/", "fdb.cluster", Options{Prefix: []byte("a\x00\xff/")}},
		{"foundationdb:?timeout=5s&retries=20", "", Options{Timeout: 5 * time.Second, Retries: 20}},
	} {
		file, got, err := parseURL(c.url)
		if err != nil || file != c.file || !bytes.Equal(got.Prefix, c.want.Prefix) || got.Timeout != c.want.Timeout || got.Retries != c.want.Retries {
			t.Errorf("%s means %q, %+v, %v; want %q, %+v", c.url, file, got, err, c.file, c.want)
		}
	}
	for url, what := range map[string]string{
		"foundationdb:?color=red":                           "there are prefix, timeout and retries",
		"foundationdb:?timeout=5":                           "timeout",
		"foundationdb:?timeout=-5s":                         "timeout",
		"foundationdb:?retries=many":                        "retries",
		"foundationdb:?retries=0":                           "retries",
		"foundationdb:?prefix=%ff":                          "reserved",
		"foundationdb:?prefix=" + strings.Repeat("p", 1001): "at most 1000",
		"foundationdb:?prefix=%zz":                          "%zz",
		"foundationdb:/x?prefix=a&prefix=b":                 "twice",
	} {
		if _, _, err := parseURL(url); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%.60s: error %v, want ErrInvalid with %q", url, err, what)
		}
	}
}

// Programs without the binding say how to get it, and those with it what is wrong
// with a cluster file.
func TestOpen(t *testing.T) {
	if _, err := Open(t.Context(), "", Options{Retries: -1}); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("bad options: error %v, want ErrInvalid", err)
	}
	missing := filepath.Join(t.TempDir(), "fdb.cluster")
	db, err := kv.Open(t.Context(), "foundationdb:"+missing)
	switch {
	case db != nil || err == nil:
		t.Errorf("a cluster file that is not there: %v, %v", db, err)
	case available && !errors.Is(err, os.ErrNotExist):
		t.Errorf("error %v, want that the file does not exist", err)
	case !available && (!errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "-tags foundationdb")):
		t.Errorf("error %v, want how to build", err)
	}
}

// inStore runs f with a store on a new cluster in memory, and finds out whether
// anything is left behind.
func inStore(t *testing.T, o Options, f func(t *testing.T, db *DB, c *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFake()
		db := newDB(c, o)
		f(t, db, c)
		testkit.Check(t, db.Close())
		synctest.Wait()
		if n := c.waiting.Load(); n != 0 {
			t.Errorf("%d futures are still waited for", n)
		}
	})
}

func set(tx kv.Tx, key, value string) { tx.Set([]byte(key), []byte(value)) }

func get(t *testing.T, db *DB, key string) string {
	t.Helper()
	return string(testkit.Value(t, db, []byte(key)))
}

// A store keeps nothing of calls that are over.
func TestNothingIsKept(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		by := 0
		db.life = testkit.CountedContext{Context: db.life, By: &by}
		for range 3 {
			fill(t, db, 1)
			get(t, db, "k00")
		}
		if by != 0 {
			t.Errorf("the end of the store is waited for by %d", by)
		}
	})
}

// A cluster that does not answer: the end of the context ends every wait at once,
// and that of a commit soon.
func TestContextEndsAWait(t *testing.T) {
	cause := errors.New("cause")
	none := func(kv.Tx) error { return nil }
	for name, c := range map[string]struct {
		before, during func(kv.Tx) error // the cluster gets stuck in between
		patience       time.Duration
		unknown        bool
	}{
		"get":      {none, func(tx kv.Tx) error { _, err := tx.Get([]byte("a")); return err }, 0, false},
		"range":    {none, func(tx kv.Tx) error { return drain(tx, 0) }, 0, false},
		"watch":    {none, func(tx kv.Tx) error { tx.Watch([]byte("a")); return nil }, 0, false},
		"conflict": {none, func(tx kv.Tx) error { tx.AddReadConflict(kv.Range{}); return nil }, 0, false},
		"pause":    {none, func(kv.Tx) error { return kv.ErrConflict }, 0, false},
		"commit": {
			func(tx kv.Tx) error { set(tx, "a", "b"); return drain(tx, 0) }, none, commitPatience, true,
		},
	} {
		for _, end := range []string{"cancel", "close", "timeout"} {
			t.Run(name+" "+end, func(t *testing.T) {
				const timeout = time.Minute
				want, patience := cause, c.patience
				o := Options{}
				switch end {
				case "timeout":
					o.Timeout, want, patience = timeout, context.DeadlineExceeded, patience+timeout
				case "close":
					want = kv.ErrClosed
					if c.unknown {
						patience = closePatience
					}
				}
				inStore(t, o, func(t *testing.T, db *DB, f *fake) {
					testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "k", "v"); return nil }))
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					began := time.Now()
					failed := make(chan error)
					go func() {
						failed <- db.Transact(ctx, func(tx kv.Tx) error {
							if err := c.before(tx); err != nil {
								return err
							}
							f.stuck.Store(true)
							return c.during(tx)
						})
					}()
					synctest.Wait()
					switch end {
					case "cancel":
						cancel(cause)
					case "close":
						go db.Close()
					}
					err := <-failed
					if took := time.Since(began); !errors.Is(err, want) || errors.Is(err, kv.ErrCommitUnknown) != c.unknown || took != patience {
						t.Errorf("after %v: %v; want %v after %v, and ErrCommitUnknown %v", took, err, want, patience, c.unknown)
					}
					f.stuck.Store(false)
				})
			})
		}
	}
}

// The first call waits for a cluster that is not there, and ends with its context.
func TestConnect(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		c.stuck.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := db.Transact(ctx, func(tx kv.Tx) error { set(tx, "a", "b"); return nil }); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kv.ErrCommitUnknown) {
			t.Errorf("error %v, want that of the context alone", err)
		}
		c.stuck.Store(false)
		c.failWith(fails("version", 3, codeClusterVersion))
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "a", "b"); return nil }))
	})
}

// When the cluster's version has changed to one that no client library fits, the library's transaction
// can't be cancelled: the end of the context ends what waits for it all the same.
func TestNoLibraryForTheCluster(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		fill(t, db, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.failWith(fails("range", 1, codeClusterVersion))
		err := db.Transact(ctx, func(tx kv.Tx) error {
			err := drain(tx, 0)
			c.stuck.Store(true)
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", err)
		}
		c.stuck.Store(false)
	})
}

// What is within the limit of bytes can be too much with what goes with it.
func TestTooManySmallWrites(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		err := db.Transact(t.Context(), func(tx kv.Tx) error {
			for i := range 600_000 {
				set(tx, fmt.Sprintf("%08d", i), "")
			}
			return nil
		})
		var e *kv.TooLargeError
		if !errors.As(err, &e) || e.What != "transaction" || e.Limit != maxSent || e.Size <= maxSent {
			t.Errorf("error %v, want that the transaction is over FoundationDB's limit", err)
		}
	})
}

func TestTooLargeForTheCluster(t *testing.T) {
	for code, want := range map[int]kv.TooLargeError{
		codeKeyTooLarge:   {What: "key", Size: 3, Limit: 10_000, Unit: "bytes"},
		codeValueTooLarge: {What: "value", Size: 5, Limit: 100_000, Unit: "bytes"},
	} {
		inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
			c.failWith(fails("commit", 1, code))
			err := db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "key", "value"); return nil })
			var e *kv.TooLargeError
			if !errors.As(err, &e) || *e != want {
				t.Errorf("error %d became %v, want %v", code, err, &want)
			}
		})
	}
}

// Keys of others, in front of the prefix and behind it, are neither seen nor
// cleared.
func TestPrefixKeepsToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake()
		whole := newDB(c, Options{})
		defer whole.Close()
		for _, key := range []string{"a", "p", "p\xff", "p\xff\xff", "q"} {
			testkit.NoError(t, whole.Transact(t.Context(), func(tx kv.Tx) error { set(tx, key, key); return nil }))
		}
		part := newDB(c, Options{Prefix: []byte("p")})
		defer part.Close()
		if got := part.Limits().Key; got != 9_999 {
			t.Errorf("keys of %d bytes, want a byte less for the prefix", got)
		}
		fill(t, part, 1)
		for _, r := range []kv.Range{{}, {End: []byte("\xff\x05")}, {Begin: []byte("\xff"), End: []byte("\xff\xff")}} {
			var keys []string
			testkit.NoError(t, part.Transact(t.Context(), func(tx kv.Tx) error {
				keys = nil
				for pair, err := range tx.Range(r, kv.RangeOptions{}) {
					if err != nil {
						return err
					}
					keys = append(keys, string(pair.Key))
				}
				tx.ClearRange(r)
				set(tx, "k00", "")
				return nil
			}))
			want := []string{"k00"}
			if len(r.Begin) > 0 {
				want = nil
			}
			if !slices.Equal(keys, want) {
				t.Errorf("%q to %q holds %q, want %q", r.Begin, r.End, keys, want)
			}
		}
		if n := c.data.Len(); n != 6 {
			t.Errorf("%d keys are left, want the 5 of others and 1", n)
		}
	})
}

// A queue of a store that one process has for itself refuses transactions of a cluster; those of
// another connection to the cluster are the store's.
func TestForeign(t *testing.T) {
	local := memory.New(memory.Options{})
	defer local.Close()
	c := newFake()
	db, again := opened(t, newDB(c, Options{})), opened(t, newDB(c, Options{}))
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		if !kvext.Foreign(local, tx) || kvext.Foreign(db, tx) || kvext.Foreign(again, tx) {
			t.Error("a transaction of a cluster is not taken for what it is")
		}
		return nil
	})
	testkit.Check(t, err)
}
