package etcd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// fakeCluster is what a cluster does with reads and transactions, in memory: for tests of
// what is hard to have a real one do, or to see from outside.
type fakeCluster struct {
	pb.KVClient // nil: it does nothing else

	// refuses decides on a commit: it may be refused before it takes effect, or answered
	// with an error though it has. By default none is.
	refuses func() (before, after error)

	mu       sync.Mutex
	revision int64
	keys     map[string][]*mvccpb.KeyValue // versions, oldest first; of version 0 where it was deleted
	requests int
	looked   int // keys, each of which a member counts
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{revision: 1, keys: make(map[string][]*mvccpb.KeyValue)}
}

// open opens a store of its own connection.
func (f *fakeCluster) open(t testing.TB) *DB {
	t.Helper()
	o, err := Options{Endpoints: []string{"fake:2379"}}.withDefaults()
	testkit.NoError(t, err)
	ctx, stop := context.WithCancelCause(context.Background())
	t.Cleanup(func() { stop(kv.ErrClosed) })
	db := &DB{
		o: o, layout: newLayout(o.Prefix), ctx: ctx, stop: stop,
		conn: &conn{o: o, kv: f, ctx: ctx},
	}
	db.conn.arrive()
	return db
}

// at returns the version of a key at a revision, nil if it is absent then.
func (f *fakeCluster) at(key string, revision int64) *mvccpb.KeyValue {
	for _, v := range slices.Backward(f.keys[key]) {
		if v.ModRevision <= revision {
			if v.Version == 0 {
				return nil
			}
			return v
		}
	}
	return nil
}

// in returns the keys from begin up to end, or begin alone if there is no end, in order.
func (f *fakeCluster) in(begin, end []byte) (keys []string) {
	if end == nil {
		return []string{string(begin)}
	}
	for key := range f.keys {
		if key >= string(begin) && key < string(end) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (f *fakeCluster) put(key, value []byte, version int64) {
	f.keys[string(key)] = append(f.keys[string(key)], &mvccpb.KeyValue{Key: key, Value: value, ModRevision: f.revision, Version: version})
}

// Range implements pb.KVClient.
func (f *fakeCluster) Range(_ context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return f.find(r), nil
}

func (f *fakeCluster) find(r *pb.RangeRequest) *pb.RangeResponse {
	revision := r.Revision
	if revision == 0 {
		revision = f.revision
	}
	response := &pb.RangeResponse{Header: f.header()}
	for _, key := range f.in(r.Key, r.RangeEnd) {
		v := f.at(key, revision)
		if v == nil || v.ModRevision < r.MinModRevision {
			continue
		}
		response.Count++
		f.looked++
		if r.CountOnly || r.Limit > 0 && response.Count > r.Limit {
			response.More = !r.CountOnly
			continue
		}
		response.Kvs = append(response.Kvs, &mvccpb.KeyValue{Key: v.Key, Value: v.Value, ModRevision: v.ModRevision, Version: v.Version})
	}
	return response
}

func (f *fakeCluster) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: f.revision} }

// Txn implements pb.KVClient.
func (f *fakeCluster) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if refused(r, maxOperations) {
		return nil, rpctypes.ErrGRPCTooManyOps
	}
	var before, after error
	if f.refuses != nil && r.Success[0].GetRequestRange() == nil {
		before, after = f.refuses()
	}
	if before != nil {
		return nil, before
	}
	f.revision++ // what is written has it
	response, wrote := f.run(r)
	if !wrote {
		f.revision--
	}
	response.Header = f.header()
	return response, after
}

func (f *fakeCluster) run(r *pb.TxnRequest) (response *pb.TxnResponse, wrote bool) {
	response = &pb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return !f.holds(c) })}
	ops := r.Success
	if !response.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		result := &pb.ResponseOp{}
		switch {
		case op.GetRequestRange() != nil:
			result.Response = &pb.ResponseOp_ResponseRange{ResponseRange: f.find(op.GetRequestRange())}
		case op.GetRequestPut() != nil:
			f.put(op.GetRequestPut().Key, op.GetRequestPut().Value, 1)
			wrote = true
		case op.GetRequestDeleteRange() != nil:
			for _, key := range f.in(op.GetRequestDeleteRange().Key, op.GetRequestDeleteRange().RangeEnd) {
				if f.at(key, f.revision) != nil {
					f.put([]byte(key), nil, 0)
					wrote = true
				}
			}
		default:
			inner, also := f.run(op.GetRequestTxn())
			result.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
			wrote = wrote || also
		}
		response.Responses = append(response.Responses, result)
	}
	return response, wrote
}

// holds tells whether a comparison does, of all keys that there are.
func (f *fakeCluster) holds(c *pb.Compare) bool {
	keys := f.in(c.Key, c.RangeEnd)
	for _, key := range keys {
		v := f.at(key, f.revision-1)
		switch {
		case v == nil && c.RangeEnd != nil:
		case v == nil && c.Result == pb.Compare_EQUAL && c.GetModRevision() != 0:
			return false
		case v != nil && c.Result == pb.Compare_EQUAL && v.ModRevision != c.GetModRevision(),
			v != nil && c.Result == pb.Compare_LESS && v.ModRevision >= c.GetModRevision():
			return false
		}
	}
	return true
}

// laggingMember is one that has not reached the latest revision, and knows of it only when it asks
// the others, as it does for reads that are not serializable.
type laggingMember struct {
	*fakeCluster
	reached int64
}

func (m *laggingMember) Range(ctx context.Context, r *pb.RangeRequest, options ...grpc.CallOption) (*pb.RangeResponse, error) {
	switch {
	case !r.Serializable:
		return m.fakeCluster.Range(ctx, r, options...)
	case r.Revision > m.reached:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	own := &pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd, Limit: r.Limit, Revision: r.Revision}
	if own.Revision == 0 {
		own.Revision = m.reached
	}
	response, err := m.fakeCluster.Range(ctx, own, options...)
	if err == nil {
		response.Header.Revision = m.reached
	}
	return response, err
}

// store returns the keys of a store, in order.
func (f *fakeCluster) store(db *DB) (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.keys)) {
		if len(key) > len(db.layout.data) && key[:len(db.layout.data)] == db.layout.data && f.at(key, f.revision) != nil {
			keys = append(keys, key[len(db.layout.data):])
		}
	}
	return keys
}

func set(t testing.TB, db *DB, keys ...string) {
	t.Helper()
	for part := range slices.Chunk(keys, 100) {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			for _, key := range part {
				tx.Set([]byte(key), []byte(key))
			}
			return nil
		}))
	}
}
