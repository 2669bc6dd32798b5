package etcd

import (
	"context"
	"testing"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
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
