package testkit

import (
	"slices"
	"sync"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// Cluster is a store that several processes share: each process has a DB of its
// own, and they have nothing in common but what is stored.
type Cluster struct {
	t      testing.TB
	Inner  kv.DB // what is stored
	Faults faulty.Options

	mu    sync.Mutex
	seed  uint64
	nodes []*faulty.DB
}

func NewCluster(t testing.TB, seed uint64, faults faulty.Options) *Cluster {
	faults.Limits.Shared = true
	return &Cluster{t: t, Inner: memory.New(memory.Options{}), Faults: faults, seed: seed}
}

// Process returns the store as a new process sees it.
func (c *Cluster) Process() *faulty.DB {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seed++
	db := faulty.New(c.Inner, c.seed, c.Faults)
	c.nodes = append(c.nodes, db)
	return db
}

// Close closes all stores. In a bubble of synctest it must run before the end.
func (c *Cluster) Close() {
	c.t.Helper()
	for _, db := range c.nodes {
		NoError(c.t, db.Close())
	}
}

// Nodes returns what Process has returned so far.
func (c *Cluster) Nodes() []*faulty.DB {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}
