package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// oldUsers refuses all requests but each third, as users were changed meanwhile.
type oldUsers struct {
	pb.KVClient
	requests *int
}

func (o oldUsers) again() error {
	if *o.requests++; *o.requests%3 != 0 {
		return rpctypes.ErrGRPCAuthOldRevision
	}
	return nil
}

func (o oldUsers) Range(ctx context.Context, r *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	if err := o.again(); err != nil {
		return nil, err
	}
	return o.KVClient.Range(ctx, r, opts...)
}

func (o oldUsers) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := o.again(); err != nil {
		return nil, err
	}
	return o.KVClient.Txn(ctx, r, opts...)
}

// While users are changed requests are refused: they are sent again, also those of a user
// by certificate, of whom nothing is known here.
func TestUsersChangeMeanwhile(t *testing.T) {
	for _, name := range []string{"", "ada"} {
		db := newFakeCluster().open(t)
		db.conn.o.Username = name
		db.conn.kv = oldUsers{db.conn.kv, new(int)}
		err := db.Transact(t.Context(), func(tx kv.Tx) error {
			_, err := tx.Get([]byte("a"))
			tx.Set([]byte("a"), nil)
			return err
		})
		if err != nil {
			t.Errorf("user %q: %v", name, err)
		}
	}
}

// A member that has too much to do refuses commits before it does anything: they are sent again.
func TestBusyMember(t *testing.T) {
	f := newFakeCluster()
	db := f.open(t)
	refusals := 0
	f.refuses = func() (before, after error) {
		if refusals++; refusals <= 3 {
			return rpctypes.ErrGRPCRequestTooManyRequests, nil
		}
		return nil, nil
	}
	attempts := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		attempts++
		tx.Set([]byte("a"), nil)
		return nil
	}))
	if keys := f.store(db); attempts != 1 || len(keys) != 1 {
		t.Errorf("%d attempts, and keys %q, want one of each", attempts, keys)
	}
	db.conn.o.Patience = 1
	f.refuses = func() (before, after error) { return rpctypes.ErrGRPCRequestTooManyRequests, nil }
	err := db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set([]byte("b"), nil); return nil })
	if !errors.Is(err, errBusy) || errors.Is(err, kv.ErrCommitUnknown) {
		t.Errorf("while it stays so: error %v, want one that says so", err)
	}
}

// lessThanUsual refuses transactions as servers do that are told to take less than by default.
type lessThanUsual struct{ pb.KVClient }

func (l lessThanUsual) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	switch {
	case proto.Size(r) > 20_000:
		return nil, status.Error(codes.ResourceExhausted, "grpc: received message larger than max (20001 vs. 20000)")
	case proto.Size(r) > 10_000:
		return nil, rpctypes.ErrGRPCRequestTooLarge
	case refused(r, 10):
		return nil, rpctypes.ErrGRPCTooManyOps
	}
	return l.KVClient.Txn(ctx, r, opts...)
}

// What is too large for such servers is ErrTooLarge, so that it is tried in parts.
func TestTooLargeForServers(t *testing.T) {
	db := newFakeCluster().open(t)
	db.conn.kv = lessThanUsual{db.conn.kv}
	set := func(keys, size int) error {
		return db.Transact(t.Context(), func(tx kv.Tx) error {
			for i := range keys {
				tx.Set(fmt.Append(nil, "key ", i), make([]byte, size))
			}
			return nil
		})
	}
	read := func(keys int) error {
		return db.ReadTransact(t.Context(), func(r kv.Reader) error {
			var spans []kv.Range
			for i := range keys {
				spans = append(spans, kv.KeyRange(fmt.Append(nil, "key ", i)))
			}
			_, err := kvext.LastKeys(r, spans, kv.Range{Begin: []byte("key"), End: []byte("kez")}, nil)
			return err
		})
	}
	for name, err := range map[string]error{
		"bytes": set(1, 15_000), "bytes for gRPC": set(1, 25_000), "operations": set(20, 1),
	} {
		var large *kv.TooLargeError
		if !errors.Is(err, kv.ErrTooLarge) || !errors.As(err, &large) || !errors.Is(err, errRefused) {
			t.Errorf("too many %s: error %v, want ErrTooLarge", name, err)
		}
	}
	testkit.NoError(t, read(5))
	testkit.NoError(t, read(20))
	testkit.NoError(t, set(5, 1))
}

// Such servers are asked again for a read with which too many others were told of.
func TestReadsAheadForServers(t *testing.T) {
	db := newFakeCluster().open(t)
	db.conn.kv = lessThanUsual{db.conn.kv}
	testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		for i := range 20 {
			kv.Prefetch(r, kv.Read{Key: fmt.Append(nil, "key ", i)})
		}
		for i := range 20 {
			if _, err := r.Get(fmt.Append(nil, "key ", i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// The log of range writes is kept short with such servers, too, and its floor tells what is gone.
func TestTrimForServers(t *testing.T) {
	db := newFakeCluster().open(t)
	entries := func() []*mvccpb.KeyValue {
		t.Helper()
		log := db.layout.logRange()
		response, err := db.conn.Range(t.Context(), &pb.RangeRequest{Key: log.Begin, RangeEnd: log.End})
		testkit.NoError(t, err)
		return response.Kvs
	}
	for len(entries()) <= maxLog {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.AddWriteConflict(kv.KeyRange([]byte("k")))
			return nil
		}))
	}
	before := entries()
	db.conn.kv = lessThanUsual{db.conn.kv}
	db.trim(t.Context())
	left := entries()
	if gone := len(before) - len(left); gone != maxOperations-1 {
		t.Errorf("%d of %d entries are gone, want %d", gone, len(before), maxOperations-1)
	}
	response, err := db.conn.Range(t.Context(), &pb.RangeRequest{Key: []byte(db.layout.floor)})
	testkit.NoError(t, err)
	var floor int64
	for _, found := range response.Kvs {
		floor = parseFloor(found.Value)
	}
	for _, entry := range before {
		there := slices.ContainsFunc(left, func(other *mvccpb.KeyValue) bool { return string(other.Key) == string(entry.Key) })
		if there == (entry.ModRevision <= floor) {
			t.Errorf("the floor is %d, and whether an entry of %d is there: %v", floor, entry.ModRevision, there)
		}
	}
}
