//go:build unix

package docs

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// upTo returns the bytes 0 to n-1, so many times.
func upTo(n, times int) *bytes.Reader {
	var b []byte
	for i := range n * times {
		b = append(b, byte(i%n))
	}
	return bytes.NewReader(b)
}

// working is the subspace of the working keys of queue Q.
func working(kind string) subspace.Subspace {
	s, err := subspace.New([]byte("conq"), kind, "Q")
	check(err)
	return s
}

// front is queue Q, as far as these tests take from it.
type front struct{}

func (front) Read(staging.Side, int) kv.Read { return kv.Read{} }

func (front) Items(r kv.Reader, _ staging.Side, _ int) iter.Seq2[kv.KeyValue, error] {
	return r.Snapshot().Range(subspace.Named("Q").Range(), kv.RangeOptions{})
}

func (front) Place(key []byte) (group, place []byte) {
	fields := key[len(subspace.Named("Q").Bytes()):]
	_, rest, err := tuple.Next(fields)
	check(err)
	return nil, fields[:len(fields)-len(rest)]
}

func (front) Keys([]byte) int { return 1 }

// oneTransaction is a store that a client reaches for one transaction only.
type oneTransaction struct {
	kv.DB
	done bool
}

func (o *oneTransaction) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if o.done {
		return errors.New("the client is dead")
	}
	o.done = true
	return o.DB.Transact(ctx, f)
}

// roleOf is the key of the process that serves requests of the queue Q, if there is one.
var roleOf = tuple.AppendInt(working("stage").Bytes(), 0)

// setRole has a process that does nothing serve requests.
func setRole(db kv.DB) {
	value := tuple.AppendBytes(nil, make([]byte, 16))
	check(db.Transact(ctx, func(tx kv.Tx) error {
		tx.Set(roleOf, value)
		return nil
	}))
}

func clearRole(db kv.DB) {
	check(db.Transact(ctx, func(tx kv.Tx) error {
		tx.Clear(roleOf)
		return nil
	}))
}

// The staged request that docs/reference/format.md shows is what a client leaves that dies
// after having written it, and the result what the next one makes of that.
func TestFormatStaging(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q := recipe.NewQueue(subspace.Named("Q"), upTo(20, 2))
	for _, v := range []string{"a", "b"} {
		check(db.Transact(ctx, func(tx kv.Tx) error { return q.Enqueue(tx, []byte(v)) }))
	}
	options := staging.Options{
		Source: front{}, Space: working("stage"), Outcomes: working("outcome"), Takeover: time.Millisecond,
		Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
	}
	take := func(db kv.DB, o staging.Options) (string, error) {
		return staging.Take(ctx, staging.New(db, o), staging.Front, 1, func(_ kv.Tx, items []kv.KeyValue) (string, error) {
			return string(items[0].Value), nil
		})
	}
	dies := options
	dies.Random = upTo(16, 2) // the op, and a lane
	setRole(db)
	if _, err := take(&oneTransaction{DB: db}, dies); err == nil {
		t.Fatal("the client should have died")
	}
	clearRole(db)
	equal(t, pairsOf(db), pairsOfDoc(t, 1))
	got, err := take(db, options)
	check(err)
	equal(t, got, "b")
	clearRole(db)
	equal(t, pairsOf(db), pairsOfDoc(t, 2))
}

func TestFormatOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where it is 2000-01-01
		store := memory.New(memory.Options{})
		defer store.Close()
		db := faulty.New(store, 0, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
		want := pairsOfDoc(t, 3)
		for key := range want {
			b, err := hex.DecodeString(key)
			check(err)
			once := kv.NewOnce(db, b, strings.NewReader(strings.Repeat("\xaa", 16)))
			_, err = kv.TransactOnce(ctx, once, func(tx kv.Tx) (int, error) {
				tx.Set([]byte("k"), nil)
				tx.Clear([]byte("k"))
				return 0, nil
			})
			check(err)
		}
		equal(t, pairsOf(db), want)
	})
}

// workingKeys returns the forms of all keys of a store that are neither items nor
// in the catalogue, with how often each is there.
func workingKeys(db kv.DB) map[string]int {
	forms := map[string]int{}
	for key, value := range pairsOf(db) {
		k, err := hex.DecodeString(key)
		check(err)
		t, err := tuple.Unpack(k)
		check(err)
		if conq, ok := t[0].([]byte); !ok || string(conq) != "conq" || t[1] == "format" || t[1] == "queue" {
			continue
		}
		var form []string
		for _, elem := range t[1:] {
			switch e := elem.(type) {
			case string:
				form = append(form, e)
			case int64:
				form = append(form, "integer")
			case []byte:
				form = append(form, strings.Repeat("x", len(e)))
			}
		}
		if t[len(t)-1] == int64(0) { // its value may have bytes that are escaped
			forms[strings.Join(form[:len(form)-1], " ")+" role"]++
			continue
		}
		forms[strings.Join(form, " ")+" = "+strings.Repeat("x", len(value)/2)]++
	}
	return forms
}

// A queue keeps its working keys where docs/reference/format.md has them: all of them on a
// shared store where commits may be unknown, and none on one that a process has for
// itself.
func TestFormatWorkingKeys(t *testing.T) { synctest.Test(t, formatWorkingKeys) }

func formatWorkingKeys(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		limits    kv.Limits
		requested map[string]int // once a request is written
		after     map[string]int
	}{
		{kv.Limits{}, nil, map[string]int{}},
		{kv.Limits{Shared: true}, nil, map[string]int{"signal Q = " + x(8): 1}},
		{
			kv.Limits{Shared: true, UnknownCommits: true},
			map[string]int{
				"signal Q = " + x(8): 1, "outcome Q " + x(16) + " = " + x(29): 2, // of the enqueue, and of the request
				"stage Q integer integer integer " + x(16) + " = " + x(2+9): 1, "stage Q role": 1,
			},
			map[string]int{"signal Q = " + x(8): 1, "outcome Q " + x(16) + " = " + x(29): 2, "stage Q role": 1},
		},
	} {
		store := memory.New(memory.Options{})
		db := faulty.New(store, 0, faulty.Options{Limits: c.limits})
		o := conq.Options{Observe: func(e conq.Event) {
			if e.Kind == conq.Requested {
				equal(t, workingKeys(db), c.requested)
			}
		}}
		if c.requested != nil {
			o.Staging = conq.StagingAlways
			setRole(store) // or no request would be written
		}
		q, err := conq.OpenQueue(t.Context(), db, "Q", conq.Bytes(), o)
		check(err)
		check(q.Enqueue(ctx, []byte("a")))
		_, err = q.Dequeue(ctx)
		check(err)
		after := workingKeys(db)
		if outcome := "outcome Q " + x(16) + " = " + x(29); after[outcome] == 3 {
			after[outcome] = 2 // the one that serves has a lane of its own if the request's was still in use
		}
		equal(t, after, c.after)
		check(db.Close())
		<-time.After(time.Second) // until nobody serves requests any more
	}
}
