package staging

import "github.com/conq-go/conq/kv"

// result is what a request was served.
type result struct {
	deadline int64
	op       []byte
	items    []kv.KeyValue // as they were in the queue
}

// setResult leaves the items of a request for its owner.
func (s *Stage) setResult(tx kv.Tx, r result) {
	if len(r.items) == 0 {
		tx.Set(s.keys.result(r.deadline, r.op), nil)
	}
	for i, item := range r.items {
		tx.Set(s.keys.item(r.deadline, r.op, i, item.Key), item.Value)
	}
	for _, key := range s.places(r) {
		tx.Set(key, nil)
	}
}

// takeResult reads and clears the result of op, if it has one. Of two that do one commits.
func (s *Stage) takeResult(tx kv.Tx, deadline int64, op []byte) (r result, found bool, err error) {
	r = result{deadline: deadline, op: op}
	for pair, err := range tx.Range(s.keys.whole(deadline, op), kv.RangeOptions{}) {
		if err == nil {
			found, err = true, s.add(&r, pair)
		}
		if err != nil {
			return r, false, err
		}
	}
	if found {
		s.clearResult(tx, r)
	}
	return r, found, nil
}

// add adds what is at a key of a result.
func (s *Stage) add(r *result, pair kv.KeyValue) error {
	_, _, item, err := s.keys.parseResult(pair)
	if err == nil && item.Key != nil {
		r.items = append(r.items, item)
	}
	return err
}

func (s *Stage) clearResult(tx kv.Tx, r result) {
	tx.ClearRange(s.keys.whole(r.deadline, r.op))
	for _, key := range s.places(r) {
		tx.Clear(key)
	}
}

// putBack sets items under the keys that they had in the queue.
func (s *Stage) putBack(tx kv.Tx, items []kv.KeyValue) error {
	if len(items) == 0 {
		return nil
	}
	for _, item := range items {
		tx.Set(item.Key, item.Value)
	}
	return s.o.PutBack(tx)
}
