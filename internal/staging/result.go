package staging

import (
	"bytes"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// result is what a request was served.
type result struct {
	op       []byte
	deadline int64
	items    []kv.KeyValue // as they were in the queue
	keys     [][]byte      // under which they wait
}

// readResult reads the result of op, if it has one.
func (s *Stage) readResult(tx kv.Tx, op []byte) (r result, found bool, err error) {
	key := s.keys.result(op)
	tx.AddReadConflict(kv.KeyRange(key)) // whatever clears the result has read it: one of two loses
	n := 0
	for pair, err := range tx.Snapshot().Range(s.keys.whole(op), kv.RangeOptions{}) {
		switch {
		case err != nil:
			return r, found, err
		case bytes.Equal(pair.Key, key):
			r, found = result{op: op}, true
			n, r.deadline, err = parseState(pair)
		case found:
			var item kv.KeyValue
			item, err = s.keys.parseItem(pair)
			r.items, r.keys = append(r.items, item), append(r.keys, pair.Key)
		}
		if err != nil {
			return r, true, err
		}
	}
	if len(r.items) != n {
		return r, true, broken(key, fmt.Errorf("it has %d items and should have %d", len(r.items), n))
	}
	return r, found, nil
}

// clearResult reads and clears the result of op, if it has one.
func (s *Stage) clearResult(tx kv.Tx, op []byte) (items []kv.KeyValue, found bool, err error) {
	r, found, err := s.readResult(tx, op)
	if err != nil || !found {
		return nil, found, err
	}
	s.cutResult(tx, r, 0)
	return r.items, true, nil
}

// cutResult clears a result but for its first n items.
func (s *Stage) cutResult(tx kv.Tx, r result, n int) {
	for _, key := range s.places(r.op, r.items) {
		tx.Clear(key)
	}
	if n == 0 {
		tx.ClearRange(s.keys.whole(r.op))
		tx.Clear(s.keys.due(r.deadline, r.op))
		return
	}
	for _, key := range r.keys[n:] {
		tx.Clear(key)
	}
	tx.Set(s.keys.result(r.op), state(n, r.deadline))
	for _, key := range s.places(r.op, r.items[:n]) {
		tx.Set(key, nil)
	}
}
