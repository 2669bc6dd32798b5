package staging

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// pythonQueue is the algorithm of the high-contention queue among FoundationDB's
// layers in Python (layers/containers/highcontention/queue.py), transcribed step
// by step for comparison:
//
//	("item", index, random) -> value     an item
//	("pop", index, random)  -> ""        a request
//	("conflict", random)    -> value     what a request was given
//
// A pop is tried alone if there are no requests. If there are, or after any error,
// it writes a request. Then it fulfils up to 100 requests at a time until it has
// seen less than that many, looks for its own result, and sleeps before it does so
// again.
type pythonQueue struct{}

var (
	pythonItems   = subspace.Named("item")
	pythonPops    = subspace.Named("pop")
	pythonResults = subspace.Named("conflict")
)

func pythonRandom() []byte {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	return id
}

// nextIndex is one more than the last index in a subspace, 0 if that is empty.
func (pythonQueue) nextIndex(tx kv.Tx, s subspace.Subspace) (int64, error) {
	for last, err := range tx.Snapshot().Range(s.Range(), kv.RangeOptions{Limit: 1, Reverse: true}) {
		if err != nil {
			return 0, err
		}
		t, err := s.Unpack(last.Key)
		if err != nil {
			return 0, err
		}
		return t[0].(int64) + 1, nil
	}
	return 0, nil
}

// add writes a key with the next index, and conflicts on that key.
func (q pythonQueue) add(tx kv.Tx, s subspace.Subspace, index int64, value []byte) ([]byte, error) {
	key, err := s.Pack(tuple.Tuple{index, pythonRandom()})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Get(key); err != nil {
		return nil, err
	}
	tx.Set(key, value)
	return key, nil
}

func (q pythonQueue) push(tx kv.Tx, value []byte) error {
	index, err := q.nextIndex(tx, pythonItems)
	if err == nil {
		_, err = q.add(tx, pythonItems, index, value)
	}
	return err
}

// once runs f in a transaction that is not tried again after a conflict.
func (pythonQueue) once(ctx context.Context, db kv.DB, f func(kv.Tx) error) error {
	attempts := 0
	return db.Transact(ctx, func(tx kv.Tx) error {
		if attempts++; attempts > 1 {
			return errConflicted
		}
		return f(tx)
	})
}

var errConflicted = errors.New("not committed because of a conflict")

// request writes a request, and is tried again after any error that may pass: also
// if it is unknown whether it was committed.
func (q pythonQueue) request(ctx context.Context, db kv.DB) (key []byte, err error) {
	for {
		err := db.Transact(ctx, func(tx kv.Tx) error {
			index, err := q.nextIndex(tx, pythonPops)
			if err == nil {
				key, err = q.add(tx, pythonPops, index, nil)
			}
			return err
		})
		if !errors.Is(err, kv.ErrCommitUnknown) {
			return key, err
		}
	}
}

// alone pops if there are no requests, otherwise it writes one.
func (q pythonQueue) alone(ctx context.Context, db kv.DB) (value, key []byte, err error) {
	err = q.once(ctx, db, func(tx kv.Tx) error {
		index, err := q.nextIndex(tx, pythonPops)
		if err != nil {
			return err
		}
		if index > 0 {
			key, err = q.add(tx, pythonPops, index, nil)
			return err
		}
		for first, err := range tx.Range(pythonItems.Range(), kv.RangeOptions{Limit: 1}) {
			if err != nil {
				return err
			}
			tx.Clear(first.Key)
			value = first.Value
		}
		return nil
	})
	return value, key, err
}

const pythonBatch = 100

// fulfil serves up to 100 requests and tells whether these were all.
func (q pythonQueue) fulfil(ctx context.Context, db kv.DB) (all bool, err error) {
	err = q.once(ctx, db, func(tx kv.Tx) error {
		pops, err := q.read(tx, pythonPops)
		if err != nil {
			return err
		}
		items, err := q.read(tx, pythonItems)
		if err != nil {
			return err
		}
		for i, pop := range pops {
			tx.AddReadConflict(kv.KeyRange(pop.Key))
			tx.Clear(pop.Key)
			if i < len(items) {
				tx.Set(q.resultKey(pop.Key), items[i].Value)
				tx.AddReadConflict(kv.KeyRange(items[i].Key))
				tx.Clear(items[i].Key)
			}
		}
		all = len(pops) < pythonBatch
		return nil
	})
	return all, err
}

func (pythonQueue) read(tx kv.Tx, s subspace.Subspace) (pairs []kv.KeyValue, err error) {
	for pair, err := range tx.Snapshot().Range(s.Range(), kv.RangeOptions{Limit: pythonBatch}) {
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

func (pythonQueue) resultKey(pop []byte) []byte {
	t, err := pythonPops.Unpack(pop)
	if err != nil {
		panic(err) // written by add
	}
	return tuple.AppendBytes(pythonResults.Bytes(), t[1].([]byte))
}

// pop returns nil if the queue seems to be empty.
func (q pythonQueue) pop(ctx context.Context, db kv.DB) ([]byte, error) {
	value, key, err := q.alone(ctx, db)
	if err == nil && key == nil {
		return value, nil
	}
	if err != nil {
		if key, err = q.request(ctx, db); err != nil {
			return nil, err
		}
	}
	for backoff := 10 * time.Millisecond; ; backoff = min(2*backoff, time.Second) {
		if err := q.fulfilAll(ctx, db); err != nil {
			return nil, err
		}
		value, served, err := q.collect(ctx, db, key)
		if err != nil || served {
			return value, err
		}
		pass(backoff)
	}
}

// fulfilAll fulfils until nothing is left, or until a conflict. An unknown outcome
// is a reason to begin anew, like all errors that may pass; others are fatal.
func (q pythonQueue) fulfilAll(ctx context.Context, db kv.DB) error {
	for {
		all, err := q.fulfil(ctx, db)
		switch {
		case all && err == nil, errors.Is(err, errConflicted):
			return nil
		case err != nil && !errors.Is(err, kv.ErrCommitUnknown):
			return err
		}
	}
}

// collect takes the result of a request that is not there any more. After an error
// that may pass it looks again.
func (q pythonQueue) collect(ctx context.Context, db kv.DB, key []byte) (value []byte, served bool, err error) {
	for {
		err := db.Transact(ctx, func(tx kv.Tx) error {
			pop, err := tx.Get(key)
			if err != nil {
				return err
			}
			if served = pop == nil; !served {
				return nil
			}
			result := q.resultKey(key)
			if value, err = tx.Get(result); value != nil {
				tx.Clear(result)
			}
			return err
		})
		if !errors.Is(err, kv.ErrCommitUnknown) {
			return value, served, err
		}
	}
}

// pythonStep tells which step of that algorithm a transaction was.
func pythonStep(_ *mortal, r *recorder) string {
	switch {
	case len(within(r.sets, pythonPops)) > 0:
		return "register"
	case len(within(r.clears, pythonPops)) > 0:
		return "fulfil"
	case len(within(r.clears, pythonItems)) > 0:
		return "pop alone"
	case len(within(r.clears, pythonResults)) > 0:
		return "collect"
	}
	return "look"
}
