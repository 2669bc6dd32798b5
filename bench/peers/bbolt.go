package main

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"

	"go.etcd.io/bbolt"
)

func bboltSystems() []system {
	return []system{{name: "bbolt-batch", class: power, crash: nothing, outage: nothing, order: fifo, open: openBbolt}}
}

var boltBucket = []byte("queue")

// boltPeer is a bucket with the items by number, written through DB.Batch, which
// shares a transaction among callers. It begins the transaction when there are as
// many as there are clients of a kind; else after its default of 10 ms.
type boltPeer struct {
	inProcess
	db *bbolt.DB
}

func openBbolt(_ context.Context, e env) (peer, error) {
	db, err := bbolt.Open(filepath.Join(e.dir, "queue.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	db.MaxBatchSize = max(e.producers, e.consumers)
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
