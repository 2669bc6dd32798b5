package etcd_test

import (
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/etcd"
	"github.com/conq-go/conq/kv/kvtest"
)

func TestConformance(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	used := make(map[kv.DB]etcd.Options)
	kvtest.Run(t, kvtest.Engine{
		Open: func(t *testing.T) kv.DB {
			o := c.options()
			db := open(t, o)
			used[db] = o
			return db
		},
		Reopen: func(t *testing.T, db kv.DB) kv.DB {
			again := open(t, used[db])
			used[again] = used[db]
			return again
		},
	})
}
