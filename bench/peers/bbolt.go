package main

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"

	"go.etcd.io/bbolt"
)

func bboltSystems() []system {
	s := system{class: power, crash: nothing, outage: nothing, order: fifo}
	usual, told := s, s
	usual.name, usual.open = "bbolt-batch", func(_ context.Context, e env) (peer, error) { return openBbolt(e, false) }
	told.name, told.open = "bbolt-batch-told", func(_ context.Context, e env) (peer, error) { return openBbolt(e, true) }
	return []system{usual, told}
}

var boltBucket = []byte("queue")

// boltPeer is a bucket with the items by number, written through DB.Batch, which
// shares a transaction among callers. It begins the transaction when there are 1,000,
// or as many as it is told, and else after 10 ms: so it is much faster if it is told
// how many clients there are.
type boltPeer struct {
	inProcess
	db   *bbolt.DB
	env  env
	told bool
}

// openBbolt opens one that is told how many calls make a full batch, or one as usual.
func openBbolt(e env, told bool) (peer, error) {
	db, err := bbolt.Open(filepath.Join(e.dir, "queue.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(boltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &boltPeer{db: db, env: e, told: told}, nil
}

// begin tells it how many clients work in the phase. With more than there are, each batch
// would wait for its 10 ms; in a transfer either kind may have to wait for the other.
func (b *boltPeer) begin(_ context.Context, phase string) error {
	switch {
	case !b.told:
	case phase == "drain":
		b.db.MaxBatchSize = b.env.consumers
	case phase == "transfer":
		b.db.MaxBatchSize = min(b.env.producers, b.env.consumers)
	default:
		b.db.MaxBatchSize = b.env.producers
	}
	return nil
}

func (b *boltPeer) client(context.Context) (client, error) { return boltClient{db: b.db}, nil }
func (b *boltPeer) close() error                           { return b.db.Close() }

type boltClient struct {
	shared
	db *bbolt.DB
}

func (c boltClient) put(_ context.Context, value []byte, _ int) error {
	return c.db.Batch(func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		return b.Put(binary.BigEndian.AppendUint64(nil, n), value)
	})
}

func (c boltClient) take(context.Context, bool) ([]byte, error) {
	var value []byte
	err := c.db.Batch(func(tx *bbolt.Tx) error {
		value = nil // if it is run again
		cursor := tx.Bucket(boltBucket).Cursor()
		key, first := cursor.First()
		if key == nil {
			return nil
		}
		value = append(value, first...)
		return cursor.Delete()
	})
	if err == nil && value == nil {
		return nil, errEmpty
	}
	return value, err
}
