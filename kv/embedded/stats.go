package embedded

import (
	"context"

	"github.com/conq-go/conq/kv"
)

// Health tells what the store takes on disk: see [kv.HealthOf].
func (db *DB) Health(context.Context) (kv.Health, error) {
	return kv.Health{Bytes: db.DiskBytes()}, nil
}

// Syncs returns how long the store has waited for its log to be on disk: see [kv.SyncsOf].
func (db *DB) Syncs() (s kv.Syncs) {
	s.Count, s.Took, s.Within = db.wal.Syncs()
	return s
}

// DiskBytes returns the sum of the sizes of the store's files. Files come and go meanwhile: one that is gone counts nothing.
func (db *DB) DiskBytes() (size int64) {
	names, _ := db.guard.List(db.dir)
	for _, name := range names {
		if info, err := db.guard.Stat(db.guard.PathJoin(db.dir, name)); err == nil {
			size += info.Size()
		}
	}
	return size
}
