package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
)

func request(key, content string) Request {
	sum := sha256.Sum256([]byte(content))
	return Request{Caller: "me", Key: key, Content: sum[:], Bytes: 1}
}

func carryOut(ctx context.Context, a *Store, r Request, f func(kv.Tx) ([]byte, error)) ([]byte, error) {
	r.Do = f
	return a.Do(ctx, r)
}

// counting returns what counts in a key how often it was carried out, and answers with a text.
func counting(counter, answer string) func(kv.Tx) ([]byte, error) {
	return func(tx kv.Tx) ([]byte, error) {
		tx.Add([]byte(counter), 1)
		return []byte(answer), nil
	}
}

func count(t *testing.T, db kv.DB, counter string) (n uint64) {
	t.Helper()
	testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		b, err := r.Get([]byte(counter))
		if b != nil {
			n = binary.LittleEndian.Uint64(b)
		}
		return err
	}))
	return n
}

// A retry gets the first answer, other requests are carried out, and a key is for one request.
func TestDo(t *testing.T) {
	db, clock := memory.New(memory.Options{}), testkit.NewClock()
	clock.Pass(20000*24*time.Hour + time.Minute)
	a, ctx := New(db, clock.Now), t.Context()
	do := func(r Request, answer, want string) {
		t.Helper()
		got, err := carryOut(ctx, a, r, counting("n", answer))
		testkit.NoError(t, err)
		testkit.Equal(t, "answer", string(got), want)
	}
	do(request("k", "a"), "first", "first")
	do(request("k", "a"), "second", "first")
	testkit.Equal(t, "times", count(t, db, "n"), 1)
	testkit.WantError(t, testkit.Drop(carryOut(ctx, a, request("k", "b"), counting("n", ""))), ErrOther)
	do(request("l", "a"), "", "")
	do(request("l", "a").alone(), "by itself", "")
	do(Request{Caller: "you", Key: "k", Content: request("", "c").Content}, "yours", "yours")
	do(Request{Caller: "mek", Key: "", Content: nil}.keyed("x"), "z", "z")
	testkit.Equal(t, "times", count(t, db, "n"), 4)

	failing := errors.New("failed")
	testkit.WantError(t, testkit.Drop(carryOut(ctx, a, request("m", "a"), func(kv.Tx) ([]byte, error) { return nil, failing })), failing)
	do(request("m", "a"), "again", "again")
}

func (r Request) alone() Request {
	r.Bytes = 0
	return r
}

func (r Request) keyed(key string) Request {
	r.Key = key
	return r
}

// Requests that come at the same time share a transaction, and none spoils it for others.
func TestShare(t *testing.T) { synctest.Test(t, testShare) }

func testShare(t *testing.T) {
	inner := memory.New(memory.Options{})
	db, attempts := testkit.Counted(inner)
	a, failing := New(db, time.Now), errors.New("failed")
	fails := func(kv.Tx) ([]byte, error) { return nil, failing }
	free := make(chan struct{})
	var group sync.WaitGroup
	ask := func(ctx context.Context, key, content string, f func(kv.Tx) ([]byte, error), want string, wantErr error) {
		r := request(key, content)
		r.Do = f
		group.Go(func() {
			answer, err := a.Do(ctx, r)
			if string(answer) != want || !errors.Is(err, wantErr) {
				t.Errorf("%s for %s: %q, %v, want %q, %v", key, content, answer, err, want, wantErr)
			}
		})
		synctest.Wait()
	}
	share := func(transactions int64) {
		t.Helper()
		before := attempts.Load()
		free <- struct{}{}
		group.Wait()
		if got := attempts.Load() - before; got != transactions {
			t.Errorf("%d transactions, want %d", got, transactions)
		}
	}
	holdUp := func(key string) {
		ask(t.Context(), key, "", func(kv.Tx) ([]byte, error) { <-free; return nil, nil }, "", nil)
	}
	holdUp("first")
	gone, goAway := context.WithCancel(t.Context())
	for i := range 5 {
		key := fmt.Sprint(i)
		ask(t.Context(), key, "", counting("n", key), key, nil)
	}
	ask(gone, "gone", "", counting("n", ""), "", context.Canceled)
	goAway()
	share(1)
	testkit.Equal(t, "times", count(t, inner, "n"), 5)

	holdUp("second")
	ask(t.Context(), "twice", "a", counting("n", "a"), "a", nil)
	ask(t.Context(), "twice", "a", counting("n", "b"), "a", nil)
	ask(t.Context(), "twice", "b", counting("n", "b"), "", ErrOther)
	ask(t.Context(), "0", "", counting("n", "b"), "0", nil)
	share(3) // what has a key of others, one after the other
	testkit.Equal(t, "times", count(t, inner, "n"), 6)

	holdUp("third")
	ask(t.Context(), "fails", "", fails, "", failing)
	ask(t.Context(), "beside it", "", counting("n", "c"), "c", nil)
	ask(t.Context(), "and it", "", counting("n", "d"), "d", nil)
	ask(t.Context(), "also", "", counting("n", "e"), "e", nil)
	share(5) // all, and each alone
	testkit.Equal(t, "times", count(t, inner, "n"), 9)
	ask(t.Context(), "fails", "", counting("n", "f"), "f", nil)
	group.Wait()

	holdUp("fourth")
	panics := func(kv.Tx) ([]byte, error) { panic("oh") }
	group.Go(func() {
		defer func() { testkit.Equal(t, "panic", recover(), any("oh")) }()
		carryOut(t.Context(), a, request("panics", ""), panics)
	})
	synctest.Wait()
	ask(t.Context(), "with it", "", counting("n", ""), "", kv.ErrCommitUnknown)
	share(1)
}

// An answer is kept for a day at least, and not for ever, also where clocks differ.
func TestForget(t *testing.T) {
	db, clock := memory.New(memory.Options{}), testkit.NewClock()
	clock.Pass(20000*24*time.Hour + 23*time.Hour + 59*time.Minute)
	slow := testkit.NewClock()
	slow.Pass(20000*24*time.Hour + 23*time.Hour + 58*time.Minute)
	a, b, ctx := New(db, clock.Now), New(db, slow.Now), t.Context()
	do := func(a *Store, want uint64) {
		t.Helper()
		testkit.Drop(carryOut(ctx, a, request("k", ""), counting("n", "")))
		testkit.Equal(t, "times", count(t, db, "n"), want)
	}
	do(a, 1)
	clock.Pass(24 * time.Hour)
	do(a, 1)
	clock.Pass(24 * time.Hour)
	do(a, 2) // of the third day
	_, err := carryOut(ctx, a, request("other", ""), counting("m", ""))
	testkit.NoError(t, err)
	clock.Pass(72 * time.Hour)
	_, err = carryOut(ctx, a, request("late", ""), counting("m", ""))
	testkit.NoError(t, err)
	testkit.Equal(t, "keys", len(testkit.Everything(t, db)), 3) // n, m and the last answer

	_, err = carryOut(ctx, b, request("k", ""), counting("n", ""))
	testkit.NoError(t, err)
	fast := New(db, func() time.Time { return slow.Now().Add(5 * time.Minute) }) // its day is another
	do(fast, 3)
	_, err = carryOut(ctx, fast, request("ahead", ""), counting("n", ""))
	testkit.NoError(t, err)
	do(b, 4)
	_, err = carryOut(ctx, b, request("ahead", ""), counting("n", ""))
	testkit.NoError(t, err)
	testkit.Equal(t, "times", count(t, db, "n"), 4)
}

// A clock that was ahead for a while does not keep old answers from being cleared afterwards.
func TestForgetAfterClockSetBack(t *testing.T) {
	const day = 24 * time.Hour
	var ahead time.Duration
	db, clock := memory.New(memory.Options{}), testkit.NewClock()
	clock.Pass(20000 * day)
	a := New(db, func() time.Time { return clock.Now().Add(ahead) })
	for _, ahead = range []time.Duration{0, 30 * day, 0} {
		clock.Pass(4 * day)
		_, err := carryOut(t.Context(), a, request(fmt.Sprint(ahead), ""), counting("n", ""))
		testkit.NoError(t, err)
	}
	clock.Pass(4 * day)
	_, err := carryOut(t.Context(), a, request("last", ""), counting("n", ""))
	testkit.NoError(t, err)
	testkit.Equal(t, "keys", len(testkit.Everything(t, db)), 3) // n, the last answer, and that of the time ahead
}

// Whatever a cluster does to commits, a request that comes again and again from several servers is carried out once.
func TestUnknownCommits(t *testing.T) {
	for seed := range uint64(20) {
		c := testkit.NewCluster(t, seed, faulty.Options{Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1})
		servers := []*Store{New(c.Process(), time.Now), New(c.Process(), time.Now)}
		const keys = 10
		answers := make([][]string, keys)
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 4 * keys {
			group.Go(func() {
				key := fmt.Sprint(i % keys)
				mine := fmt.Sprint("of ", i)
				got, err := carryOut(t.Context(), servers[i/keys%2], request(key, ""), counting("n"+key, mine))
				mu.Lock()
				defer mu.Unlock()
				testkit.Check(t, err)
				answers[i%keys] = append(answers[i%keys], string(got))
			})
		}
		group.Wait()
		for i, all := range answers {
			testkit.Equal(t, "times", count(t, c.Inner, fmt.Sprint("n", i)), 1)
			for _, answer := range all {
				testkit.Equal(t, "answer", answer, all[0])
			}
		}
		c.Close()
	}
}

// A request whose caller has gone is carried out, or not, and its retry knows which.
func TestCancelled(t *testing.T) {
	c := testkit.NewCluster(t, 1, faulty.Options{Applied: 0.3, Late: 0.3, Cancel: 0.02})
	a := New(c.Process(), time.Now)
	defer c.Close()
	failed := 0
	for i := range 200 {
		key := fmt.Sprint(i)
		var err error
		for range 100 {
			if _, err = carryOut(context.Background(), a, request(key, ""), counting("n"+key, "")); err == nil {
				break
			}
			failed++
		}
		testkit.NoError(t, err)
		testkit.Equal(t, "times", count(t, c.Inner, "n"+key), 1)
	}
	if failed == 0 {
		t.Error("no attempt failed")
	}
}

// FuzzRecord: whatever is stored under a key, it is this request's answer, another's, or an error that names where it is.
func FuzzRecord(f *testing.F) {
	r := request("k", "content")
	f.Add(tuple.AppendBytes(tuple.AppendBytes(nil, r.Content), []byte("answer")))
	f.Add(tuple.AppendBytes(tuple.AppendBytes(nil, []byte("other")), nil))
	f.Add(tuple.AppendInt(tuple.AppendBytes(nil, r.Content), 7))
	f.Add([]byte{})
	db := memory.New(memory.Options{})
	f.Cleanup(func() { db.Close() })
	const today = 20000
	key := keyOf(today, r.hash())
	f.Fuzz(func(t *testing.T, record []byte) {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set(key, record); return nil }))
		ran := false
		a := New(db, func() time.Time { return time.Unix(today*24*60*60, 0) })
		answer, err := carryOut(t.Context(), a, r, func(kv.Tx) ([]byte, error) { ran = true; return nil, nil })
		switch {
		case ran:
			t.Fatalf("%x is taken for nothing, and the request was carried out again", record)
		case err == nil && !bytes.HasPrefix(record, tuple.AppendBytes(tuple.AppendBytes(nil, r.Content), answer)):
			t.Fatalf("%x is the answer %x", record, answer)
		case err != nil && !errors.Is(err, ErrOther) && !strings.Contains(err.Error(), fmt.Sprintf("%x", key)):
			t.Fatal(err)
		}
	})
}
