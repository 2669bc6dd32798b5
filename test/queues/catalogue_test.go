package queues

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

func TestCatalogue(t *testing.T) {
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db := open(kv.Limits{})
			infos, err := conq.Queues(t.Context(), db)
			testkit.NoError(t, err)
			testkit.Equal(t, "queues in a new store", len(infos), 0)
			testkit.Equal(t, "pairs in a new store", len(testkit.Everything(t, db)), 0)
			newFixture(t, db, nil)
			newFixture(t, db, nil) // opens them again
			infos, err = conq.Queues(t.Context(), db)
			testkit.NoError(t, err)
			testkit.EqualSlices(t, "queues", infos, []conq.Info{{Name: "p", Kind: conq.KindPriorityQueue, Format: 1}, {Name: "q", Kind: conq.KindQueue, Format: 1}})
			info, found, err := conq.Lookup(t.Context(), db, "p")
			testkit.NoError(t, err)
			testkit.Equal(t, "found", found, true)
			testkit.Equal(t, "entry", info, infos[0])
			before := testkit.Everything(t, db)
			_, found, err = conq.Lookup(t.Context(), db, "new")
			testkit.NoError(t, err)
			testkit.Equal(t, "found", found, false)
			testkit.EqualPairs(t, testkit.Everything(t, db), before)
		})
	}
}

func TestKinds(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	newFixture(t, db, nil)
	testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "p", conq.String())), conq.ErrKind, `"p" is a priority queue, not a queue`)
	testkit.WantError(t, drop(conq.OpenPriorityQueue(t.Context(), db, "q", conq.String())), conq.ErrKind, `"q" is a queue, not a priority queue`)
}

// Many who open a new queue at the same time all get it, as one kind.
func TestOpenTogether(t *testing.T) {
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db := open(kv.Limits{})
			var group sync.WaitGroup
			errs := make([]error, 16)
			for i := range errs {
				group.Go(func() {
					if i%2 == 0 {
						errs[i] = drop(conq.OpenQueue(t.Context(), db, "same", conq.String()))
					} else {
						errs[i] = drop(conq.OpenPriorityQueue(t.Context(), db, "same", conq.String()))
					}
				})
			}
			group.Wait()
			info, found, err := conq.Lookup(t.Context(), db, "same")
			testkit.NoError(t, err)
			testkit.Equal(t, "found", found, true)
			for i, err := range errs {
				if (i%2 == 0) == (info.Kind == conq.KindQueue) {
					testkit.NoError(t, err)
				} else {
					testkit.WantError(t, err, conq.ErrKind)
				}
			}
		})
	}
}

// A store or a queue of a newer format is refused by its number, and not touched.
func TestNewerFormats(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	newFixture(t, db, nil)
	testkit.Write(t, db, kv.KeyValue{Key: layout.EntryKey("q"), Value: testkit.Pack(t, "queue", 2, "more")})
	before := testkit.Everything(t, db)
	testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())), conq.ErrFormat, `queue "q" has format 2`, "up to 1")
	infos, err := conq.Queues(t.Context(), db)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "queues", infos, []conq.Info{{Name: "p", Kind: conq.KindPriorityQueue, Format: 1}, {Name: "q", Kind: conq.KindQueue, Format: 2}})

	testkit.Write(t, db, kv.KeyValue{Key: layout.EntryKey("q"), Value: testkit.Pack(t, "ring", 3)})
	testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())), conq.ErrKind, "is a ring, not a queue")
	testkit.Write(t, db, kv.KeyValue{Key: layout.EntryKey("q"), Value: testkit.Pack(t, "queue", 2, "more")})
	testkit.EqualPairs(t, testkit.Everything(t, db), before)

	testkit.Write(t, db, kv.KeyValue{Key: layout.FormatKey(), Value: testkit.Pack(t, 7, "more")})
	before = testkit.Everything(t, db)
	testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "p", conq.String())), conq.ErrFormat, "store has format 7", "up to 1")
	testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "new", conq.String())), conq.ErrFormat, "store has format 7")
	testkit.WantError(t, drop(conq.Queues(t.Context(), db)), conq.ErrFormat, "store has format 7")
	_, _, err = conq.Lookup(t.Context(), db, "p")
	testkit.WantError(t, err, conq.ErrFormat)
	testkit.EqualPairs(t, testkit.Everything(t, db), before)
}

// What no version writes is an ErrCorrupt that shows it.
func TestCorruptCatalogue(t *testing.T) {
	values := map[string][]byte{
		"empty":            {},
		"not a tuple":      {0xfe},
		"no format":        testkit.Pack(t, "queue"),
		"kind not a text":  testkit.Pack(t, 1, 1),
		"kind empty":       testkit.Pack(t, "", 1),
		"format a text":    testkit.Pack(t, "queue", "1"),
		"format 0":         testkit.Pack(t, "queue", 0),
		"format negative":  testkit.Pack(t, "queue", -1),
		"format too large": testkit.Pack(t, "queue", uint64(1)<<63),
		"more behind":      testkit.Pack(t, "queue", 1, 2),
		"truncated":        testkit.Pack(t, "queue", 1000)[:8],
	}
	for what, value := range values {
		t.Run(what, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			newFixture(t, db, nil)
			testkit.Write(t, db, kv.KeyValue{Key: layout.EntryKey("q"), Value: value})
			before := testkit.Everything(t, db)
			shown := fmt.Sprintf("%x", layout.EntryKey("q"))
			testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())), conq.ErrCorrupt, shown)
			testkit.WantError(t, drop(conq.Queues(t.Context(), db)), conq.ErrCorrupt, shown)
			_, _, err := conq.Lookup(t.Context(), db, "q")
			testkit.WantError(t, err, conq.ErrCorrupt, shown)
			testkit.EqualPairs(t, testkit.Everything(t, db), before)
			testkit.NoError(t, drop(conq.OpenPriorityQueue(t.Context(), db, "p", conq.String())))
		})
	}
	for what, key := range map[string][]byte{
		"name empty":       layout.EntryKey(""),
		"name with a NUL":  layout.EntryKey("a\x00"),
		"name not a text":  append(layout.System("queue"), testkit.Pack(t, 1)...),
		"two names":        append(layout.System("queue"), testkit.Pack(t, "a", "b")...),
		"name not a tuple": append(layout.System("queue"), 0xfe),
	} {
		t.Run(what, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			testkit.Write(t, db, kv.KeyValue{Key: key, Value: testkit.Pack(t, "queue", 1)})
			testkit.WantError(t, drop(conq.Queues(t.Context(), db)), conq.ErrCorrupt)
		})
	}
	for what, value := range map[string][]byte{"empty": {}, "text": testkit.Pack(t, "1"), "0": testkit.Pack(t, 0), "more": testkit.Pack(t, 1, 1)} {
		t.Run("store format "+what, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			testkit.Write(t, db, kv.KeyValue{Key: layout.FormatKey(), Value: value})
			testkit.WantError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())), conq.ErrCorrupt, "store format")
		})
	}
}

func TestOpenURL(t *testing.T) {
	for url, text := range map[string]string{
		"":                     "needs a directory or a URL",
		"redis://localhost":    `no engine for "redis:": there are embedded, memory`,
		"foundationdb:/x":      "must import github.com/conq-go/conq/kv/foundationdb",
		"etcd://a:1,b:2":       "must import github.com/conq-go/conq/kv/etcd",
		"embedded:x?color=red": "color",
	} {
		if _, err := conq.Open(t.Context(), url); err == nil {
			t.Errorf("Open(%q) worked", url)
		} else {
			testkit.WantError(t, err, kv.ErrInvalid, text)
		}
	}
	dir := t.TempDir()
	for _, url := range []string{
		dir + "/plain", dir + "/with:colon", "embedded:" + dir + "/scheme",
		"EMBEDDED:" + dir + "/upper?durability=memory", "memory:", "Memory:",
	} {
		db, err := conq.Open(t.Context(), url)
		testkit.NoError(t, err)
		f := newFixture(t, db, nil)
		testkit.NoError(t, f.q.Enqueue(f.ctx, "a"))
		testkit.NoError(t, db.Close())
	}
	db, err := conq.Open(t.Context(), dir+"/plain")
	testkit.NoError(t, err)
	f := newFixture(t, db, nil)
	testkit.Equal(t, "item that was there", first(t, f), "a")
	testkit.NoError(t, db.Close())
}

// What has a scheme is asked of its engine; anything else is a directory.
func TestSchemes(t *testing.T) {
	t.Chdir(t.TempDir())
	for url, engine := range map[string]string{
		"memory:": "", "MEMORY:": "", "MEMORY:x": "a memory store has no name", "a+b-c.9:": `no engine for "a+b-c.9:"`, "etcd://h:1": `no engine for "etcd:"`, "ab:x": `no engine for "ab:"`,
		"Z0z:": `no engine for "z0z:"`,
	} {
		db, err := conq.Open(t.Context(), url)
		if engine != "" {
			testkit.WantError(t, err, kv.ErrInvalid, engine)
			continue
		}
		testkit.NoError(t, err)
		testkit.NoError(t, db.Close())
	}
	for _, dir := range []string{
		`C:\data`, "c:data", "data", "./a:b", t.TempDir() + "/a:b", "9p:x", ":x", ".x:y", "dät:x",
		"a/b:c", "a@b:c", "a`b:c", "a[b:c", "a{b:c", "a b:c", "@a:c",
	} {
		db, err := conq.Open(t.Context(), dir)
		testkit.NoError(t, err)
		testkit.NoError(t, db.Close())
		_, err = os.Stat(dir)
		testkit.NoError(t, err)
	}
}

// Who opens a queue that is there writes the format of the store if that is missing.
func TestOpenWritesFormat(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	testkit.NoError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())))
	before := testkit.Everything(t, db)
	testkit.Remove(t, db, kv.KeyRange(layout.FormatKey()))
	testkit.NoError(t, drop(conq.OpenQueue(t.Context(), db, "q", conq.String())))
	testkit.Equal(t, "the store", fmt.Sprint(testkit.Everything(t, db)), fmt.Sprint(before))
}

// The catalogue is in the order of names, however they are escaped in keys.
func TestQueuesByName(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	names := []string{"b", "a\x01", "a", "é", "aa", "Z", "\x7f", "ÿ"}
	for _, name := range names {
		testkit.NoError(t, drop(conq.OpenQueue(t.Context(), db, name, conq.Bytes())))
	}
	infos, err := conq.Queues(t.Context(), db)
	testkit.NoError(t, err)
	var got []string
	for _, info := range infos {
		got = append(got, info.Name)
	}
	slices.Sort(names)
	testkit.EqualSlices(t, "names", got, names)
}

// Opening a new queue gets over commits of which nobody knows whether they happened.
func TestOpenAfterUnknownCommit(t *testing.T) {
	for _, o := range []faulty.Options{{Dropped: 0.5}, {Applied: 0.5}, {Late: 0.5}} {
		inner := testkit.NewMemory(t, kv.Limits{})
		db := faulty.New(inner, 1, o)
		const n = 50
		for i := range n {
			_, err := conq.OpenQueue(t.Context(), db, fmt.Sprint("queue ", i), conq.String())
			testkit.NoError(t, err)
		}
		testkit.NoError(t, db.Close())
		if s := db.Stats(); s.Dropped+s.Applied+s.Late == 0 {
			t.Error("no commit was unknown")
		}
	}
}

// Opening a queue ends with its context, on a store whose answers are late.
func TestOpenTimeout(t *testing.T) {
	const most, answer = 30 * time.Second, 29 * time.Second
	for name, limits := range map[string]kv.Limits{"of one process": {}, "shared": {Shared: true, UnknownCommits: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New(memory.Options{Limits: kv.Limits{Age: time.Hour}})
				testkit.NoError(t, drop(conq.OpenQueue(t.Context(), store, "q", conq.String())))
				testkit.NoError(t, drop(conq.OpenPriorityQueue(t.Context(), store, "p", conq.String())))
				db := faulty.New(store, 1, faulty.Options{Limits: limits, Latency: answer})
				known := most // as outcome keys of others are looked at, too
				if !limits.Shared {
					known = answer
				}
				for i, open := range []func(context.Context) error{
					func(ctx context.Context) error { return drop(conq.OpenQueue(ctx, db, "q", conq.String())) },
					func(ctx context.Context) error { return drop(conq.OpenPriorityQueue(ctx, db, "p", conq.String())) },
					func(ctx context.Context) error { return drop(conq.OpenQueue(ctx, db, "new", conq.String())) },
				} {
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), most)
					if err := open(ctx); err != nil {
						testkit.WantError(t, err, context.DeadlineExceeded)
					}
					cancel()
					testkit.Equal(t, "time that it took", time.Since(began), []time.Duration{known, known, most}[i])
				}
				testkit.NoError(t, db.Close())
			})
		})
	}
}
