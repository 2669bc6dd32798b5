package foundationdb

import (
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/kvtest"
)

// The engine keeps the contract on a cluster that does as FoundationDB documents.
// On real ones, see cluster_test.go.
func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "prefix": {Prefix: []byte("a\x00\xff")}} {
		t.Run(name, func(t *testing.T) {
			clusters := map[kv.DB]*fake{}
			open := func(f *fake) kv.DB {
				db := newDB(f, o)
				clusters[db] = f
				return db
			}
			var all []*fake
			kvtest.Run(t, kvtest.Engine{
				Open: func(*testing.T) kv.DB {
					f := newFake()
					all = append(all, f)
					return open(f)
				},
				Reopen: func(_ *testing.T, db kv.DB) kv.DB { return open(clusters[db]) },
				Advance: func(d time.Duration) {
					for _, f := range all {
						f.advance(d)
					}
				},
			})
		})
	}
}
