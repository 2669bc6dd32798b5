package check_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// readOnly fails a test that writes.
type readOnly struct{ kv.DB }

func (readOnly) Transact(context.Context, func(kv.Tx) error) error {
	return errors.New("a check without repair has begun a transaction that may write")
}

// plot is where things are planted.
type plot struct {
	t  *testing.T
	db kv.DB
	fixture
}

func (p *plot) set(key, value []byte) { testkit.Write(p.t, p.db, kv.KeyValue{Key: key, Value: value}) }

func (p *plot) clear(key []byte) { testkit.Remove(p.t, p.db, kv.KeyRange(key)) }

// stage returns a key of q's staging.
func (p *plot) stage(elems ...any) []byte {
	return testkit.Packed(p.t, layout.Stage("q").Bytes(), elems...)
}

// state returns the value of a request or result.
func (p *plot) state(n int, in time.Duration) []byte {
	return testkit.Packed(p.t, nil, n, checkTime.Add(in).UnixNano())
}

func (p *plot) at(in time.Duration) int64 { return checkTime.Add(in).UnixNano() }

// keys returns the keys in a range.
func (p *plot) keys(r kv.Range) (keys [][]byte) {
	for _, pair := range testkit.Everything(p.t, p.db) {
		if r.Contains(pair.Key) {
			keys = append(keys, pair.Key)
		}
	}
	return keys
}

// split returns the key of an item of q whose payload lies over 3 keys.
func (p *plot) split() []byte {
	for _, key := range p.keys(testkit.Laid("q").Items) {
		if n, err := testkit.Laid("q").Check(key); err == nil && n == 3 {
			return key
		}
	}
	p.t.Fatal("there is no split item")
	return nil
}

func (p *plot) piece(item []byte, i int64) []byte { return testkit.Laid("q").Piece(item, i) }

// put stages so many items of q, which should then be there once more.
func (p *plot) put(n int, in time.Duration) {
	stageItems(p.t, p.db, testkit.Laid("q"), opID(7), n, checkTime.Add(in))
}

// staged returns the keys of the items in the result of op 7.
func (p *plot) staged() (staged [][]byte) {
	for _, key := range p.keys(kv.PrefixRange(p.stage(2))) {
		if bytes.Contains(key, testkit.Packed(p.t, nil, opID(7))) {
			staged = append(staged, key)
		}
	}
	return staged
}

// original returns the key that a staged item had.
func (p *plot) original(staged []byte) []byte {
	elems, err := tuple.Unpack(staged[len(layout.Stage("q").Bytes()):])
	testkit.NoError(p.t, err)
	return elems[4].([]byte)
}

func (p *plot) value(key []byte) []byte { return testkit.Value(p.t, p.db, key) }

// putWithoutPieces stages an item of several pieces, without those, and its deadline is over.
func (p *plot) putWithoutPieces() {
	item := p.split()
	for _, key := range p.keys(testkit.Laid("q").Items) {
		if bytes.Equal(key, item) {
			break
		}
		p.clear(key)
	}
	p.put(1, tooLateBy)
	p.clear(p.piece(item, 1))
	p.clear(p.piece(item, 2))
}

// putTwice stages an item in two results, the deadlines of which are as far away as that.
func (p *plot) putTwice(t *testing.T, in, other time.Duration) {
	p.put(1, in)
	item := p.staged()[0]
	p.set(p.stage(2, p.at(other), opID(10), 0, p.original(item)), p.value(item))
	_, place := testkit.Laid("q").Place(p.original(item))
	p.set(testkit.Packed(t, append(p.stage(3), place...), p.at(other), opID(10)), nil)
}
