package staging

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// The first element of a key.
const (
	fulfillerKind = iota
	requestKind
	resultKind
	placeKind
	lineKind
)

const opSize = 16

// keys makes and reads the keys under a prefix.
type keys struct{ prefix []byte }

func (k keys) kind(kind int64) []byte {
	return tuple.AppendInt(k.prefix[:len(k.prefix):len(k.prefix)], kind)
}

func (k keys) all(kind int64) kv.Range { return kv.PrefixRange(k.kind(kind)) }

func (k keys) request(ticket int64, side Side, op []byte) []byte {
	return tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(k.kind(requestKind), ticket), int64(side)), op)
}

func (k keys) result(deadline int64, op []byte) []byte {
	return tuple.AppendBytes(tuple.AppendInt(k.kind(resultKind), deadline), op)
}

func (k keys) item(deadline int64, op []byte, i int, key []byte) []byte {
	return tuple.AppendBytes(tuple.AppendInt(k.result(deadline, op), int64(i)), key)
}

// whole is the range of all keys of a result.
func (k keys) whole(deadline int64, op []byte) kv.Range {
	key := k.result(deadline, op)
	return kv.Range{Begin: key, End: append(key[:len(key):len(key)], 0xff)}
}

// waiter is the key of an entry in the line.
func (k keys) waiter(stamp int64, id []byte) []byte {
	return tuple.AppendBytes(tuple.AppendInt(k.kind(lineKind), stamp), id)
}

// parseWaiter returns the client of an entry in the line.
func (k keys) parseWaiter(key []byte) (id []byte, err error) {
	elems, err := tuple.Unpack(key[len(k.prefix):])
	if err == nil && len(elems) == 3 {
		if id, ok := elems[2].([]byte); ok {
			return id, nil
		}
	}
	return nil, broken(key, errors.New("it should be (4, stamp, id)"))
}

// place is the key that tells that the result of op holds items of a group up to place.
func (k keys) place(place []byte, deadline int64, op []byte) []byte {
	return tuple.AppendBytes(tuple.AppendInt(append(k.kind(placeKind), place...), deadline), op)
}

// placesIn is the range of such keys for a group.
func (k keys) placesIn(group []byte) kv.Range {
	return kv.PrefixRange(append(k.kind(placeKind), group...))
}

// request is a request as it is stored.
type request struct {
	key      []byte
	ticket   int64
	side     Side
	op       []byte
	items    int
	deadline int64
}

// parseRequest reads what register has written.
func (k keys) parseRequest(pair kv.KeyValue) (r request, err error) {
	r.key = pair.Key
	elems, err := tuple.Unpack(pair.Key[len(k.prefix):])
	if err == nil && len(elems) != 4 {
		err = errors.New("it should have 4 elements")
	}
	if err != nil {
		return r, broken(pair.Key, err)
	}
	ticket, ok1 := elems[1].(int64)
	side, ok2 := elems[2].(int64)
	op, ok3 := elems[3].([]byte)
	if !ok1 || !ok2 || !ok3 || side < 0 || Side(side) >= sides {
		return r, broken(pair.Key, errors.New("it should be (1, ticket, side, op)"))
	}
	r.side, r.ticket, r.op = Side(side), ticket, op
	r.items, r.deadline, err = parseState(pair)
	return r, err
}

// state is the value of a request, or of an entry in the line.
func state(items int, deadline int64) []byte {
	return tuple.AppendInt(tuple.AppendInt(nil, int64(items)), deadline)
}

func parseState(pair kv.KeyValue) (items int, deadline int64, err error) {
	elems, err := tuple.Unpack(pair.Value)
	if err == nil && len(elems) == 2 {
		n, ok1 := elems[0].(int64)
		deadline, ok2 := elems[1].(int64)
		if ok1 && ok2 && n >= 0 {
			return int(n), deadline, nil
		}
	}
	return 0, 0, broken(pair.Key, fmt.Errorf("its value %x is not (items, deadline)", pair.Value))
}

// parseFulfiller reads who has the role of the fulfiller.
func parseFulfiller(pair kv.KeyValue) (id []byte, err error) {
	elems, err := tuple.Unpack(pair.Value)
	if err == nil && len(elems) == 1 {
		if id, ok := elems[0].([]byte); ok {
			return id, nil
		}
	}
	return nil, broken(pair.Key, fmt.Errorf("its value %x is not (id)", pair.Value))
}

// parseResult reads a key of a result. item is the one that is stored there, as it was in the
// queue; its Key is nil if the result is without any.
func (k keys) parseResult(pair kv.KeyValue) (deadline int64, op []byte, item kv.KeyValue, err error) {
	elems, err := tuple.Unpack(pair.Key[len(k.prefix):])
	if err == nil && (len(elems) == 3 || len(elems) == 5) {
		deadline, ok1 := elems[1].(int64)
		op, ok2 := elems[2].([]byte)
		ok3 := true
		if len(elems) == 5 {
			_, number := elems[3].(int64)
			item.Value = pair.Value
			item.Key, ok3 = elems[4].([]byte)
			ok3 = ok3 && number
		}
		if ok1 && ok2 && ok3 {
			return deadline, op, item, nil
		}
	}
	return 0, nil, item, broken(pair.Key, errors.New("it should be (2, deadline, op) or (2, deadline, op, i, item's key)"))
}

func broken(key []byte, err error) error {
	return fmt.Errorf("staging: key %x: %w", key, err)
}

// newID returns the id of a process, as it holds the role of the fulfiller.
func newID() []byte {
	id := make([]byte, opSize)
	rand.Read(id) // never fails
	return id
}

func (s *Stage) newOp() ([]byte, error) {
	op := make([]byte, opSize)
	if _, err := io.ReadFull(s.o.Random, op); err != nil {
		return nil, fmt.Errorf("staging: no random bytes: %w", err)
	}
	return op, nil
}

func (s *Stage) deadline() int64 { return s.o.Now().Add(s.o.Lease).UnixNano() }

func (s *Stage) past(deadline int64) bool { return s.o.Now().After(time.Unix(0, deadline)) }

// oldest is the result that is due first, since it was seen first, by the monotonic clock.
type oldest struct {
	key      []byte
	deadline int64
	since    time.Time
	due      bool
}

// isDue tells whether a result is to be put back: its deadline has passed, or it, or one that was written with it, was there for as long
// as results wait, whatever the clock says, which may have been set back. Results are looked at in their order.
func (s *Stage) isDue(deadline int64, op []byte) bool {
	if s.past(deadline) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, key := &s.oldest, s.keys.result(deadline, op)
	switch c := bytes.Compare(key, o.key); {
	case c == 0:
		o.due = time.Since(o.since) > s.o.Lease
	case c > 0 && !(o.due && deadline <= o.deadline+int64(s.o.Lease)): // the one before is gone
		*o = oldest{key: key, deadline: deadline, since: time.Now()}
	}
	return o.due && bytes.Compare(key, o.key) >= 0
}

// noneIsDue notes that there are no results.
func (s *Stage) noneIsDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = oldest{}
}
