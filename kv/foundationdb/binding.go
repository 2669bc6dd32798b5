//go:build foundationdb && cgo

package foundationdb

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/apple/foundationdb/bindings/go/src/fdb"
)

const available = true

// apiVersion is that of FoundationDB 7.3.
const apiVersion = 730

// maxRetryDelay is the longest pause before a transaction that has conflicted is
// tried again: the library's own, a random part of 10 ms that doubles, would go up
// to 1 s. It does not bound the pauses that an overloaded cluster asks for.
const maxRetryDelay = 100 * time.Millisecond

// opening is held while a database is opened: the binding keeps those that are
// open, by cluster file, in a map that it does not guard.
var opening sync.Mutex

// connect returns the connection to a cluster. The first one starts the library's
// network thread, which lasts as long as the process. So do connections: the
// binding keeps one for each cluster file, and closing it would free it twice.
func connect(clusterFile string) (client, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := fdb.APIVersion(apiVersion); err != nil {
		return nil, fmt.Errorf("foundationdb: API version %d: %w", apiVersion, err)
	}
	db, err := fdb.OpenDatabase(clusterFile)
	if err != nil {
		return nil, fmt.Errorf("foundationdb: cluster file %q: %w", clusterFile, err)
	}
	return cluster{db}, nil
}

type cluster struct{ db fdb.Database }

func (c cluster) begin() (transaction, error) {
	tr, err := c.db.CreateTransaction()
	if err != nil {
		return nil, err
	}
	if err := tr.Options().SetMaxRetryDelay(maxRetryDelay.Milliseconds()); err != nil {
		return nil, err
	}
	return bound{tr}, nil
}

func (cluster) code(err error) int {
	var e fdb.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// bound is a transaction of the binding, which frees it when it can't be reached
// any more: so each method keeps it until the library has returned.
type bound struct{ tr fdb.Transaction }

func (b bound) keep() { runtime.KeepAlive(b.tr) }

func (b bound) readVersion() future[int64] {
	defer b.keep()
	return b.tr.GetReadVersion()
}

func (b bound) setReadVersion(version int64) {
	defer b.keep()
	b.tr.SetReadVersion(version)
}

func (b bound) get(key []byte) future[[]byte] {
	defer b.keep()
	return b.tr.Snapshot().Get(fdb.Key(key))
}

// maxExact is up to which limit all pairs are asked for at once, whatever their
// size. It bounds what one request brings to 25 MB.
const maxExact = 256

func (b bound) getRange(begin, end []byte, limit int, reverse bool) pairs {
	defer b.keep()
	mode := fdb.StreamingModeIterator
	switch {
	case limit > maxExact:
		mode = fdb.StreamingModeWantAll
	case limit > 0:
		mode = fdb.StreamingModeExact
	}
	result := b.tr.Snapshot().GetRange(span(begin, end),
		fdb.RangeOptions{Limit: limit, Mode: mode, Reverse: reverse})
	return boundPairs{result.Iterator()}
}

// boundPairs reads batch by batch. When the last pair of a batch is taken, the
// next one is asked for, so it is on its way while the pair is used.
type boundPairs struct{ iterator *fdb.RangeIterator }

func (p boundPairs) next() (key, value []byte, ok bool, err error) {
	if !p.iterator.Advance() {
		return nil, nil, false, nil
	}
	pair, err := p.iterator.Get()
	return pair.Key, pair.Value, err == nil, err
}

func span(begin, end []byte) fdb.KeyRange {
	return fdb.KeyRange{Begin: fdb.Key(begin), End: fdb.Key(end)}
}

func (b bound) addReadConflict(begin, end []byte) error {
	defer b.keep()
	return b.tr.AddReadConflictRange(span(begin, end))
}

func (b bound) addWriteConflict(begin, end []byte) error {
	defer b.keep()
	return b.tr.AddWriteConflictRange(span(begin, end))
}

func (b bound) set(key, value []byte) {
	defer b.keep()
	b.tr.Set(fdb.Key(key), value)
}

func (b bound) clear(key []byte) {
	defer b.keep()
	b.tr.Clear(fdb.Key(key))
}

func (b bound) clearRange(begin, end []byte) {
	defer b.keep()
	b.tr.ClearRange(span(begin, end))
}

func (b bound) add(key, operand []byte) {
	defer b.keep()
	b.tr.Add(fdb.Key(key), operand)
}

func (b bound) watch(key []byte) future[struct{}] {
	defer b.keep()
	return done{b.tr.Watch(fdb.Key(key))}
}

func (b bound) commit() future[struct{}] {
	defer b.keep()
	return done{b.tr.Commit()}
}

func (b bound) onError(code int) future[struct{}] {
	defer b.keep()
	return done{b.tr.OnError(fdb.Error{Code: code})}
}

func (b bound) cancel() {
	defer b.keep()
	b.tr.Cancel()
}

// done is a future that has no value.
type done struct{ fdb.FutureNil }

func (d done) Get() (struct{}, error) { return struct{}{}, d.FutureNil.Get() }
