package etcd

import (
	"context"
	"sync"

	"github.com/conq-go/conq/kv"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Health asks the members that Options.Endpoints names, for up to a second: see [kv.HealthOf].
func (db *DB) Health(ctx context.Context) (kv.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, pickTime)
	defer cancel()
	h := kv.Health{Members: make([]kv.Member, len(db.o.Endpoints))}
	sizes := make([]int64, len(h.Members))
	var asked sync.WaitGroup
	for i, endpoint := range db.o.Endpoints {
		asked.Go(func() { h.Members[i], sizes[i] = db.conn.memberHealth(ctx, endpoint) })
	}
	asked.Wait()
	for _, size := range sizes {
		h.Bytes += size
	}
	return h, nil
}

func (c *conn) memberHealth(ctx context.Context, endpoint string) (m kv.Member, size int64) {
	m.Name = endpoint
	s, err := c.status(ctx, endpoint)
	switch {
	case err != nil:
		m.Down, m.Detail = true, rpctypes.ErrorDesc(err)
		return m, 0
	case len(s.Errors) > 0:
		m.Down, m.Detail = true, s.Errors[0]
	case s.Header.GetMemberId() == s.Leader:
		m.Detail = "leads, etcd " + s.Version
	case s.IsLearner:
		m.Detail = "learns, etcd " + s.Version
	default:
		m.Detail = "follows, etcd " + s.Version
	}
	return m, s.DbSize
}
