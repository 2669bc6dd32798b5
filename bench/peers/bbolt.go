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
	usual.name, usual.open = "bbolt-batch", func(_ context.Context, e env) (peer, error) { return openBbolt(e, 0) }
	told.name, told.open = "bbolt-batch-told", func(_ context.Context, e env) (peer, error) { return openBbolt(e, max(e.producers, e.consumers)) }
	return []system{usual, told}
}

var boltBucket = []byte("queue")

// boltPeer is a bucket with the items by number, written through DB.Batch, which
// shares a transaction among callers. It begins the transaction when there are 1,000,
// or as many as it is told, and else after 10 ms: so it is much faster if it is told
// how many clients of a kind there are.
type boltPeer struct {
	inProcess
	db *bbolt.DB
}

// openBbolt opens one with so many calls in a full batch, or with 0, as many as usual.
func openBbolt(e env, batch int) (peer, error) {
	db, err := bbolt.Open(filepath.Join(e.dir, "queue.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	if batch > 0 {
		db.MaxBatchSize = batch
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(boltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &boltPeer{db: db}, nil
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
