//go:build foundationdb && cgo

package foundationdb

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// clusterFile returns the cluster to test on, or skips the test. To run them all, on a
// cluster that others may use meanwhile:
//
//	FDB_CLUSTER_FILE=/etc/foundationdb/fdb.cluster go test -tags foundationdb -timeout 1h ./kv/foundationdb
func clusterFile(t *testing.T) string {
	t.Helper()
	file := os.Getenv("FDB_CLUSTER_FILE")
	if file == "" {
		t.Skip("no cluster to test on: FDB_CLUSTER_FILE is not set")
	}
	return file
}

// onCluster is a world of stores in one real cluster, each under a random prefix
// of its own, which is cleared at the end.
func onCluster(t *testing.T) world {
	file := clusterFile(t)
	// Where each commit has to wait for a slow disk, some cases take minutes.
	return world{patience: 10 * time.Minute, store: func(t *testing.T) func() *DB {
		prefix := []byte("conq-test/" + rand.Text() + "/")
		open := func() *DB {
			db, err := Open(t.Context(), file, Options{Prefix: prefix})
			testkit.NoError(t, err)
			return db
		}
		t.Cleanup(func() { // after all processes are closed
			db := open()
			defer db.Close()
			clearAll(t, db)
		})
		return func() *DB { return opened(t, open()) }
	}}
}

// clearAll removes all keys of a store.
func clearAll(t *testing.T, db kv.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t's has ended
	defer cancel()
	known(t, func() (struct{}, error) {
		return struct{}{}, db.Transact(ctx, func(tx kv.Tx) error { tx.ClearRange(kv.Range{}); return nil })
	})
}

func TestClusterContract(t *testing.T) { testContract(t, onCluster(t)) }

func TestClusterQueues(t *testing.T) { testQueues(t, onCluster(t)) }

// The cluster keeps versions for 5 s: kvtest can't move its clock, so this waits.
func TestClusterTooOld(t *testing.T) {
	db := onCluster(t).store(t)()
	// On a cluster without load, versions advance when a proxy commits nothing, every 2 s
	// (MAX_COMMIT_BATCH_INTERVAL), and old ones are forgotten when a storage server writes what
	// it has to its disk, every 0.5 s and what that takes.
	wait := func() { <-time.After(2 * age) }
	known(t, func() (struct{}, error) {
		return struct{}{}, db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "k", "v"); return nil })
	})
	testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		if _, err := r.Get([]byte("k")); err != nil {
			return err
		}
		wait()
		if value, err := r.Get([]byte("l")); !errors.Is(err, kv.ErrTooOld) {
			t.Errorf("a read in an old ReadTransact returned %q, %v; want ErrTooOld", value, err)
		}
		return nil
	}))
	runs := 0
	known(t, func() (struct{}, error) {
		runs = 0
		return struct{}{}, db.Transact(t.Context(), func(tx kv.Tx) error {
			_, err := tx.Get([]byte("k"))
			if runs++; runs == 1 {
				wait()
			}
			set(tx, "k", "later")
			return err
		})
	})
	if runs != 2 {
		t.Errorf("a transaction that was too old at first ran %d times, want 2", runs)
	}
}

// The URL of the cluster opens it, with options.
func TestClusterURL(t *testing.T) {
	file := clusterFile(t)
	prefix := []byte("conq-test/" + rand.Text() + "/")
	db, err := conq.Open(t.Context(), "foundationdb:"+file+"?timeout=1m&retries=100&prefix="+string(prefix))
	testkit.NoError(t, err)
	defer db.Close()
	defer clearAll(t, db)
	q := openQueue(t, db, conq.Options{})
	testkit.NoError(t, q.Enqueue(t.Context(), "a"))
	got, err := q.Dequeue(t.Context())
	if err != nil || got != "a" {
		t.Errorf("dequeued %q, %v", got, err)
	}
}

// python is the store that Python's recipes share with a test.
type python struct {
	t            *testing.T
	file, prefix string
}

func newPython(t *testing.T, file string, prefix []byte) python {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import fdb; fdb.api_version(730)").CombinedOutput(); err != nil {
		t.Skipf("python3 can't use fdb with API version 730: %v\n%s", err, out)
	}
	return python{t, file, hex.EncodeToString(prefix)}
}

// start runs a role of testdata/recipes.py. wait ends its input, if it reads any,
// and returns the lines that it has printed once it has ended.
func (p python) start(role string, args ...string) (wait func() []string) {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), "python3", append([]string{"testdata/recipes.py", p.file, p.prefix, role}, args...)...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	testkit.NoError(p.t, err)
	output, err := command.StdoutPipe()
	testkit.NoError(p.t, err)
	testkit.NoError(p.t, command.Start())
	lines := make(chan []string, 1)
	go func() {
		var all []string
		for s := bufio.NewScanner(output); s.Scan(); {
			all = append(all, s.Text())
		}
		lines <- all
	}()
	return func() []string {
		p.t.Helper()
		if err := input.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			p.t.Error(err)
		}
		all := <-lines
		if err := command.Wait(); err != nil {
			p.t.Errorf("recipes.py %s: %v", role, err)
		}
		return all
	}
}

// shared is a queue that is used in two languages.
type shared struct {
	put, take  string // the roles of Python
	reverse    bool
	putOne     func(i int) error
	takeOne    func() ([]byte, error)
	byPriority bool
}

// Python's recipes and ours work on one queue at the same time: both put and take.
// Nothing is lost, nothing comes twice, and each consumer gets what one producer has
// put in order.
func TestClusterPython(t *testing.T) {
	const items = 100
	for _, kind := range []string{"dequeue", "pop-min", "pop-max"} {
		t.Run(kind, func(t *testing.T) {
			s, p := open(t, kind)

			takers := p.start(s.take)
			waitPut := p.start(s.put, strconv.Itoa(items))
			var ours []string
			done := make(chan struct{})
			ended := make(chan error, 1)
			go func() { ended <- s.drain(&ours, done) }()
			for i := range items {
				testkit.NoError(t, s.putOne(i))
			}
			waitPut()
			close(done)
			theirs := takers()
			testkit.NoError(t, <-ended)

			counts := map[string]int{}
			for _, value := range slices.Concat(ours, theirs) {
				counts[value]++
			}
			want := map[string]int{}
			for i := range items {
				want[fmt.Sprint("py", i)], want[fmt.Sprint("go", i)] = 1, 1
			}
			if !maps.Equal(counts, want) {
				t.Errorf("%d items came out of %d, or some twice: ours %q, theirs %q", len(counts), len(want), ours, theirs)
			}
			if len(ours) == 0 || len(theirs) == 0 {
				t.Logf("one consumer got all: ours %d, theirs %d", len(ours), len(theirs))
			}
			if !s.byPriority {
				inOrder(t, "ours", ours)
				inOrder(t, "theirs", theirs)
			}
		})
	}
}

// inOrder checks that the items of each producer are in order.
func inOrder(t *testing.T, who string, values []string) {
	t.Helper()
	last := map[string]int{}
	for _, value := range values {
		producer := value[:2]
		n, err := strconv.Atoi(value[2:])
		testkit.NoError(t, err)
		if before, some := last[producer]; some && before >= n {
			t.Errorf("%s: %s came after %s%d", who, value, producer, before)
		}
		last[producer] = n
	}
}

// What one language has put, the other takes, in the order of the recipe.
func TestClusterPythonOrder(t *testing.T) {
	const items = 30
	for _, kind := range []string{"dequeue", "pop-min", "pop-max"} {
		t.Run(kind, func(t *testing.T) {
			s, p := open(t, kind)
			p.start(s.put, strconv.Itoa(items))()
			var ours []string
			done := make(chan struct{})
			close(done)
			testkit.NoError(t, s.drain(&ours, done))
			if want := s.order("py", items); !slices.Equal(ours, want) {
				t.Errorf("of Python's items we got %q, want %q", ours, want)
			}
			for i := range items {
				testkit.NoError(t, s.putOne(i))
			}
			theirs := p.start(s.take)()
			if want := s.order("go", items); !slices.Equal(theirs, want) {
				t.Errorf("of our items Python got %q, want %q", theirs, want)
			}
		})
	}
}

// open opens a queue in a store of its own, which Python shares.
func open(t *testing.T, kind string) (shared, python) {
	t.Helper()
	file, prefix := clusterFile(t), []byte("conq-test/"+rand.Text()+"/")
	p := newPython(t, file, prefix)
	db, err := Open(t.Context(), file, Options{Prefix: prefix})
	testkit.NoError(t, err)
	t.Cleanup(func() {
		clearAll(t, db)
		testkit.Check(t, db.Close())
	})
	return openShared(t, db, kind), p
}

func openShared(t *testing.T, db *DB, kind string) shared {
	t.Helper()
	ctx := t.Context()
	value := func(i int) []byte { return []byte("go" + strconv.Itoa(i)) }
	if kind == "dequeue" {
		q := known(t, func() (*conq.Queue[[]byte], error) { return conq.OpenQueue(t.Context(), db, "Q", conq.Bytes()) })
		return shared{
			put: "enqueue", take: kind,
			putOne:  func(i int) error { return q.Enqueue(ctx, value(i)) },
			takeOne: func() ([]byte, error) { return q.Dequeue(ctx) },
		}
	}
	p := known(t, func() (*conq.PriorityQueue[[]byte], error) {
		return conq.OpenPriorityQueue(t.Context(), db, "P", conq.Bytes())
	})
	s := shared{
		put: "push", take: kind, byPriority: true, reverse: kind == "pop-max",
		putOne:  func(i int) error { return p.Push(ctx, value(i), int64(i%3-1)) },
		takeOne: func() ([]byte, error) { return p.PopMin(ctx) },
	}
	if s.reverse {
		s.takeOne = func() ([]byte, error) { return p.PopMax(ctx) }
	}
	return s
}

// drain takes items until done is closed and there are none left.
func (s shared) drain(to *[]string, done <-chan struct{}) error {
	for {
		last := false
		select {
		case <-done:
			last = true
		default:
		}
		switch value, err := s.takeOne(); {
		case err == nil:
			*to = append(*to, string(value))
		case !errors.Is(err, conq.ErrEmpty):
			return err
		case last:
			return nil
		}
	}
}

// order is that in which items of one producer are taken.
func (s shared) order(producer string, n int) (want []string) {
	var groups [3][]string
	for i := range n {
		priority := 0
		if s.byPriority {
			priority = i % 3
		}
		groups[priority] = append(groups[priority], producer+strconv.Itoa(i))
	}
	want = slices.Concat(groups[:]...)
	if s.reverse {
		slices.Reverse(want)
	}
	return want
}
