package kv

import (
	"context"
	"time"
)

// Health is what an engine tells of its store.
type Health struct {
	Bytes   int64    // that it takes on disk, of all members together; 0 if that is not known
	Problem string   // what the cluster says is wrong; "" is nothing
	Members []Member // of the cluster; none where the store is this process's own
}

// Member is a server of a cluster.
type Member struct {
	Name   string // its address
	Down   bool   // it does not answer, or must not be used
	Detail string // what it does, or why it is down
}

// HealthOf asks a store how it is. It is for pages that people look at, not for each request: an engine may ask all members
// of its cluster, and look at all files. known is false if the engine, or what wraps it, has no method
// Health(context.Context) (Health, error).
func HealthOf(ctx context.Context, db DB) (h Health, known bool, err error) {
	if db, ok := db.(interface {
		Health(context.Context) (Health, error)
	}); ok {
		h, err = db.Health(ctx)
		return h, true, err
	}
	return Health{}, false, nil
}

// Syncs is how long an engine has waited for its disk since the store was opened: a histogram as Prometheus has them.
type Syncs struct {
	Count  int64
	Took   time.Duration           // all of them
	Within map[time.Duration]int64 // how many took up to so long
}

// SyncsOf returns the syncs of a store. known is false if the engine, or what wraps it, has no method Syncs() Syncs.
func SyncsOf(db DB) (s Syncs, known bool) {
	if db, ok := db.(interface{ Syncs() Syncs }); ok {
		return db.Syncs(), true
	}
	return Syncs{}, false
}
