package staging

import (
	"bytes"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Last returns the last integer of the last place in a group that items have whose
// result has not been collected, and whether there is any. A new item gets
// a larger one, so that those come in front of it if they are put back.
// It reads one key, through a snapshot: so it conflicts with nothing.
func (s *Stage) Last(r kv.Reader, group []byte) (last int64, found bool, err error) {
	read := s.LastRead(group)
	for pair, err := range r.Snapshot().Range(read.Range, read.Options) {
		if err != nil {
			return 0, false, err
		}
		elem, _, err := tuple.Next(pair.Key[len(read.Range.Begin):])
		if err != nil {
			return 0, false, broken(pair.Key, err)
		}
		last, ok := elem.(int64)
		if !ok {
			return 0, false, broken(pair.Key, fmt.Errorf("it should be (3, integers..., op): %v is none", elem))
		}
		return last, true, nil
	}
	return 0, false, nil
}

// LastRead is what Last reads.
func (s *Stage) LastRead(group []byte) kv.Read { return oneOf(s.keys.placesIn(group), true) }

// AnyPlace tells whether Last finds something in any group. It reads one key,
// through a snapshot.
func (s *Stage) AnyPlace(r kv.Reader) (bool, error) { return some(r, s.AnyPlaceRead()) }

// AnyPlaceRead is what AnyPlace reads.
func (s *Stage) AnyPlaceRead() kv.Read { return oneOf(s.keys.all(placeKind), false) }

// places returns the keys that tell where the items of a result were: one for each
// group, or more where items of several groups alternate. It depends on nothing but
// the result, so the keys that were set are those that are cleared.
func (s *Stage) places(r result) (keys [][]byte) {
	var group, last []byte
	end := func() {
		if last != nil {
			keys = append(keys, s.keys.place(last, r.deadline, r.op))
		}
	}
	for _, item := range r.items {
		g, place := s.o.Source.Place(item.Key)
		switch {
		case place == nil:
		case last == nil:
			group, last = g, place
		case !bytes.Equal(g, group):
			end()
			group, last = g, place
		case bytes.Compare(place, last) > 0:
			last = place
		}
	}
	end()
	return keys
}
