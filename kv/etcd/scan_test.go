package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// Who once knew the end of a range finds it with few requests when very much was added
// since, whatever the keys are like.
func TestEndOfRangeFarBehindHint(t *testing.T) {
	const n = 10_000
	for name, key := range map[string]func(i int) string{
		"even":                      func(i int) string { return fmt.Sprintf("q%08d", i) },
		"far apart":                 func(i int) string { return fmt.Sprintf("q%08d", 1000*i) },
		"further and further apart": func(i int) string { return fmt.Sprintf("q%012d", i*i*i) },
		"far apart, then close":     func(i int) string { return fmt.Sprintf("q%08d", 1_000_000*min(i, 20)+i) },
		"in other bytes":            func(i int) string { return fmt.Sprintf("q%c%c", 1+i/100, 1+i%100) },
	} {
		for _, limit := range []int{1, 20} {
			f := newFakeCluster()
			reader, writer := f.open(t), f.open(t)
			var keys []string
			for i := range n {
				keys = append(keys, key(i))
			}
			slices.Sort(keys)
			check := func(want []string, most int) {
				t.Helper()
				var got []string
				before := f.requests
				testkit.NoError(t, reader.ReadTransact(t.Context(), func(r kv.Reader) error {
					for pair, err := range r.Range(kv.PrefixRange([]byte("q")), kv.RangeOptions{Limit: limit, Reverse: true}) {
						if err != nil {
							return err
						}
						got = append(got, string(pair.Key))
					}
					return nil
				}))
				slices.Reverse(got)
				if want = want[max(0, len(want)-limit):]; !slices.Equal(got, want) {
					t.Fatalf("%s, the last %d keys are %q, want %q", name, limit, got, want)
				}
				if requests := f.requests - before; requests > most {
					t.Errorf("%s, the last %d keys took %d requests, want %d at most", name, limit, requests, most)
				}
			}
			set(t, writer, keys[:100]...)
			check(keys[:100], 2)
			set(t, writer, keys[100:]...)
			check(keys, 70)
			check(keys, 1)
		}
	}
}

// An enqueue costs little after another process has added very many items.
func TestEnqueueAfterManyByOthers(t *testing.T) {
	f := newFakeCluster()
	var queues [2]*conq.Queue[string]
	for i := range queues {
		var err error
		queues[i], err = conq.OpenQueue(t.Context(), f.open(t), "q", conq.String())
		testkit.NoError(t, err)
		testkit.NoError(t, queues[i].Enqueue(t.Context(), "first"))
		testkit.NoError(t, queues[i].Enqueue(t.Context(), "second"))
	}
	for range 100 {
		testkit.NoError(t, queues[1].EnqueueAll(t.Context(), slices.Repeat([]string{"x"}, 100)))
	}
	before := f.requests
	testkit.NoError(t, queues[0].Enqueue(t.Context(), "last"))
	if requests := f.requests - before; requests > 40 {
		t.Errorf("an enqueue behind 10,000 items of others took %d requests, want 40 at most", requests)
	}
}

// A transaction sees all that was committed before it, and its reads are of one revision, also where
// the member that it asks has not reached that.
func TestLaggingMember(t *testing.T) {
	f := newFakeCluster()
	db, writer := f.open(t), f.open(t)
	set(t, writer, "a")
	db.conn.kv = &laggingMember{f, f.revision}
	set(t, writer, "b")
	for _, c := range []struct {
		first string
		want  []string
	}{{"a", []string{"a", "b"}}, {"b", []string{"a", "b", "ca"}}} {
		first := c.first
		testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
			if value, err := r.Get([]byte(first)); err != nil || string(value) != first {
				t.Errorf("%s is %q, %v", first, value, err)
			}
			set(t, writer, "c"+first)
			var keys []string
			for pair, err := range r.Range(kv.Range{Begin: []byte("a"), End: []byte("c" + first)}, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				keys = append(keys, string(pair.Key))
			}
			if !slices.Equal(keys, c.want) {
				t.Errorf("after a read of %s there are %q, want %q", first, keys, c.want)
			}
			if value, err := r.Get([]byte("c" + first)); value != nil || err != nil {
				t.Errorf("what came later is %q, %v", value, err)
			}
			return nil
		}))
	}
}

// refusing is a cluster that refuses one read, counted from 1.
type refusing struct {
	*fakeCluster
	at, reads int
}

func (c *refusing) Range(ctx context.Context, r *pb.RangeRequest, options ...grpc.CallOption) (*pb.RangeResponse, error) {
	if c.reads++; c.reads == c.at {
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	return c.fakeCluster.Range(ctx, r, options...)
}

// Whichever of the requests of a loop is refused, the loop tells.
func TestReadsRefused(t *testing.T) {
	f := newFakeCluster()
	writer := f.open(t)
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("q%012d", i*i*i))
	}
	set(t, writer, keys...)
	for _, o := range []kv.RangeOptions{{}, {Reverse: true}, {Reverse: true, Limit: 1}, {Reverse: true, Limit: 20}} {
		for at := 1; ; at++ {
			db, c := f.open(t), &refusing{fakeCluster: f, at: at}
			db.conn.kv = c
			n := 0
			err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
				for _, err := range r.Range(kv.PrefixRange([]byte("q")), o) {
					if err != nil {
						return err
					}
					n++
				}
				return nil
			})
			if c.reads < at {
				if want := o.Limit; n != want && (want > 0 || n != len(keys)) {
					t.Errorf("%+v: %d pairs", o, n)
				}
				break
			}
			if !errors.Is(err, errRefused) {
				t.Errorf("%+v, request %d refused: %v after %d pairs", o, at, err, n)
			}
		}
	}
}

// Who takes one pair at a time has no more keys looked at, and makes no more requests, at any depth, however far apart keys are, and also
// where that changes.
func TestTakesOfOneAtAnyDepth(t *testing.T) {
	const n, taken = 2000, 200
	for name, key := range map[string]func(i int) string{
		"even":                      func(i int) string { return fmt.Sprintf("q%08d", i) },
		"far apart":                 func(i int) string { return fmt.Sprintf("q%08d", 1000*i) },
		"further and further apart": func(i int) string { return fmt.Sprintf("q%012d", i*i*i) },
		"far apart, then close":     func(i int) string { return fmt.Sprintf("q%09d", 1_000_000*min(i, 100)+i) },
		"close, then far apart":     func(i int) string { return fmt.Sprintf("q%010d", i+1_000_000*max(0, i-100)) },
	} {
		f := newFakeCluster()
		var keys []string
		for i := range n {
			keys = append(keys, key(i))
		}
		for some := range slices.Chunk(keys, 100) {
			set(t, f.open(t), some...)
		}
		db := f.open(t)
		requests, looked := f.requests, f.looked
		for _, want := range keys[:taken] {
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				for pair, err := range tx.Range(kv.PrefixRange([]byte("q")), kv.RangeOptions{Limit: 1}) {
					if err != nil {
						return err
					}
					if string(pair.Key) != want {
						t.Fatalf("%s: got %s, want %s", name, pair.Key, want)
					}
					tx.Clear(pair.Key)
				}
				return nil
			}))
		}
		requests, looked = f.requests-requests, f.looked-looked
		if requests > taken*5/2 || looked > 200*taken {
			t.Errorf("%s: %d takes made %d requests, in which %d keys were looked at", name, taken, requests, looked)
		}
	}
}
