package embedded

import (
	"context"
	"path/filepath"

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
func (db *DB) DiskBytes() int64 { return db.sizeOf(db.dir, 3) }

func (db *DB) sizeOf(dir string, depth int) (size int64) {
	names, err := db.guard.List(dir)
	if err != nil || depth == 0 {
		return 0
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := db.guard.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			size += db.sizeOf(path, depth-1)
		default:
			size += info.Size()
		}
	}
	return size
}
