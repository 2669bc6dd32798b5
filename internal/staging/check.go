package staging

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Kinds of faults.
const (
	FaultKey         = "staging key"          // a key, or its value, does not decode
	FaultServed      = "served request"       // a request that has its result already
	FaultDue         = "due without result"   // the key that tells when a result is due, of none
	FaultNotDue      = "result without due"   // a result without that key
	FaultIncomplete  = "incomplete result"    // a result with more items, or fewer, than it says
	FaultItem        = "item without result"  // an item that belongs to no result
	FaultTwice       = "item twice"           // an item that is somewhere else, too
	FaultForeignItem = "staged key"           // an item whose key is not one of the queue's
	FaultPlace       = "place without result" // the key that tells the place of items, of none
	FaultNoPlace     = "result without place" // a result without that key
)

// Fault is something in the staging of a queue that no client leaves there.
type Fault struct {
	Kind     string
	Key      []byte
	Text     string // what is wrong
	Mendable bool   // by Unit.Mend
}

// Unit is what Checker.Check has found out about keys that belong together.
type Unit struct {
	Next    []byte        // the first key that it is not about
	Keys    int           // how many it is about
	Bytes   int64         // of them and their values
	Items   []kv.KeyValue // of the queue, in a result, as they were there
	Counts  Counts
	Faults  []Fault
	PutBack int // so many items will Mend put back

	// Mend does in the transaction in which Check has read what can be done without
	// a loss: it takes away what holds no item, adds what is missing, and puts back
	// items of a result whose deadline is over. It is nil if there is nothing to do.
	Mend func(kv.Tx) error
}

// Counts is what is staged. Old is what is past its deadline.
type Counts struct {
	Requests, OldRequests int
	Results, OldResults   int
	Items, OldItems       int // of results
	Waiting, OldWaiting   int // entries in the line
}

// Checker looks for faults in the staging of a queue. It writes nothing but in
// Unit.Mend.
//
// Clients write keys that belong together in one transaction. So what one of them is
// just doing is never a fault, as Check reads all that a Unit is about in one, too.
// It is for one goroutine.
type Checker struct {
	s        *Stage
	integers int
	itemKey  func(key []byte) error
	staged   map[string][]byte // by the key of an item, the one that holds it
}

// NewChecker returns a Checker for s. The place of an item has so many integers.
// itemKey returns what is wrong with the key of an item, or nil.
func (s *Stage) NewChecker(integers int, itemKey func(key []byte) error) *Checker {
	return &Checker{s: s, integers: integers, itemKey: itemKey, staged: make(map[string][]byte)}
}

// Items returns the items of all results, as they were in the queue. It reads
// through a snapshot, and leaves out what does not decode.
func (c *Checker) Items(r kv.Reader) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for pair, err := range r.Snapshot().Range(c.s.keys.all(resultKind), kv.RangeOptions{}) {
			if err != nil {
				yield(kv.KeyValue{}, err)
				return
			}
			if item, err := c.s.keys.parseItem(pair); err == nil && !yield(item, nil) {
				return
			}
		}
	}
}

// Check judges the pair that r has at a key of the staging, and what belongs to it.
func (c *Checker) Check(r kv.Reader, pair kv.KeyValue) (Unit, error) {
	u := Unit{Next: kv.After(pair.Key), Keys: 1, Bytes: int64(len(pair.Key) + len(pair.Value))}
	elems, err := tuple.Unpack(pair.Key[len(c.s.keys.prefix):])
	if err != nil || len(elems) == 0 {
		u.key(pair.Key, "it is no tuple: %v", err)
		return u, nil
	}
	switch elems[0] {
	case int64(dueKind):
		return u, c.due(r, &u, pair)
	case int64(requestKind):
		return u, c.request(r, &u, pair)
	case int64(resultKind):
		return u, c.result(r, &u, pair, elems[1:])
	case int64(placeKind):
		return u, c.place(r, &u, pair, elems[1:])
	case int64(lineKind):
		return u, c.waiter(&u, pair)
	case int64(fulfillerKind):
		if _, _, err := parseFulfiller(pair); err != nil || len(elems) != 1 {
			u.key(pair.Key, "it should be (-1), with (id, deadline): %v", err)
		}
		return u, nil
	}
	u.key(pair.Key, "keys of staging begin with a number from %d to %d, not with %v", fulfillerKind, lineKind, elems[0])
	return u, nil
}

func (u *Unit) fault(kind string, key []byte, mendable bool, format string, args ...any) {
	u.Faults = append(u.Faults, Fault{kind, key, fmt.Sprintf(format, args...), mendable})
}

func (u *Unit) key(key []byte, format string, args ...any) {
	u.fault(FaultKey, key, false, format, args...)
}

// clears has Mend clear a key that is at fault.
func (u *Unit) clears(kind string, key []byte, text string) {
	u.fault(kind, key, true, "%s", text)
	u.Mend = func(tx kv.Tx) error {
		tx.Clear(key)
		return nil
	}
}

func (c *Checker) due(r kv.Reader, u *Unit, pair kv.KeyValue) error {
	deadline, op, err := c.s.keys.parseDue(pair.Key)
	if err != nil {
		u.key(pair.Key, "it should be (0, deadline, op)")
		return nil
	}
	result := c.s.keys.result(op)
	value, err := r.Get(result)
	if err != nil {
		return err
	}
	if value == nil {
		u.clears(FaultDue, pair.Key, "there is no result that is due then")
		return nil
	}
	_, real, err := parseState(kv.KeyValue{Key: result, Value: value})
	if err == nil && real != deadline {
		u.clears(FaultDue, pair.Key, "its result is due at another time")
	}
	return nil // a result that does not decode is told of at its own key
}

func (c *Checker) request(r kv.Reader, u *Unit, pair kv.KeyValue) error {
	request, err := c.s.keys.parseRequest(pair)
	if err != nil {
		u.key(pair.Key, "it should be (1, ticket, side, op), and its value (items, deadline): %x", pair.Value)
		return nil
	}
	u.Counts.Requests = 1
	if c.s.past(request.deadline) {
		u.Counts.OldRequests = 1
	}
	value, err := r.Get(c.s.keys.result(request.op))
	if err == nil && value != nil {
		u.clears(FaultServed, pair.Key, "the request was served, and is still there")
	}
	return err
}

func (c *Checker) waiter(u *Unit, pair kv.KeyValue) error {
	_, err := c.s.keys.parseWaiter(pair.Key)
	var deadline int64
	if err == nil {
		_, deadline, err = parseState(pair)
	}
	if err != nil {
		u.key(pair.Key, "it should be (4, stamp, id), and its value (0, deadline): %x", pair.Value)
		return nil
	}
	u.Counts.Waiting = 1
	if c.s.past(deadline) {
		u.Counts.OldWaiting = 1
	}
	return nil
}

// place judges (3, place..., op). rest is what follows the 3.
func (c *Checker) place(r kv.Reader, u *Unit, pair kv.KeyValue, rest tuple.Tuple) error {
	op, ok := []byte(nil), len(rest) == c.integers+1
	for i := 0; ok && i < c.integers; i++ {
		_, ok = rest[i].(int64)
	}
	if ok {
		op, ok = rest[c.integers].([]byte)
	}
	if !ok {
		u.key(pair.Key, "it should be (3, place, op), where the place has %d integers", c.integers)
		return nil
	}
	value, err := r.Get(c.s.keys.result(op))
	if err == nil && value == nil {
		u.clears(FaultPlace, pair.Key, "there is no result with items of that place")
	}
	return err
}

// result judges (2, op) with all of its items, or items without it. rest is what
// follows the 2.
func (c *Checker) result(r kv.Reader, u *Unit, pair kv.KeyValue, rest tuple.Tuple) error {
	var op []byte
	if len(rest) > 0 {
		op, _ = rest[0].([]byte)
	}
	if op == nil {
		u.key(pair.Key, "it should be (2, op) or (2, op, i, key)")
		return nil
	}
	key := c.s.keys.result(op)
	value := pair.Value
	if !bytes.Equal(pair.Key, key) {
		var err error
		if value, err = r.Get(key); err != nil {
			return err
		}
	}
	res := resultCheck{c: c, r: r, u: u, op: op, key: key, mendable: true}
	if err := res.readItems(pair.Key); err != nil {
		return err
	}
	u.Next = c.s.keys.items(op).End
	if value == nil {
		return res.withoutResult()
	}
	return res.judge(value)
}

// resultCheck is the check of one result.
type resultCheck struct {
	c   *Checker
	r   kv.Reader
	u   *Unit
	op  []byte
	key []byte

	items    []kv.KeyValue // as they were in the queue
	keys     [][]byte      // that hold them
	gap      bool          // they are not numbered from 0
	mendable bool          // they could go back: nothing else would be lost or doubled
}

// readItems reads what is stored in the result. first is the key that led to it.
func (res *resultCheck) readItems(first []byte) error {
	c, u := res.c, res.u
	for pair, err := range res.r.Range(c.s.keys.items(res.op), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		if !bytes.Equal(pair.Key, first) {
			u.Keys++
			u.Bytes += int64(len(pair.Key) + len(pair.Value))
		}
		elems, err := tuple.Unpack(pair.Key[len(c.s.keys.prefix):])
		item, ok := kv.KeyValue{Value: pair.Value}, false
		if err == nil && len(elems) == 4 {
			item.Key, ok = elems[3].([]byte)
			_, number := elems[2].(int64)
			ok = ok && number
		}
		if !ok {
			res.mendable = false
			u.key(pair.Key, "it should be (2, op, i, key)")
			continue
		}
		res.gap = res.gap || elems[2] != int64(len(res.items))
		res.items, res.keys = append(res.items, item), append(res.keys, pair.Key)
		if err := c.itemKey(item.Key); err != nil {
			res.mendable = false
			u.fault(FaultForeignItem, pair.Key, false, "the item's key %x is not of this queue: %v", item.Key, err)
			continue
		}
		u.Items = append(u.Items, item)
		if err := res.elsewhere(pair, item); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere looks for an item in the queue, and in other results.
func (res *resultCheck) elsewhere(pair, item kv.KeyValue) error {
	c, u := res.c, res.u
	there, err := res.r.Get(item.Key)
	if err != nil {
		return err
	}
	if there != nil {
		same := bytes.Equal(there, item.Value)
		text := "the item is in the queue, too"
		if !same {
			text += ", with another value"
		}
		// If it goes back, under its key, it is there once again.
		res.mendable = res.mendable && same
		u.fault(FaultTwice, pair.Key, false, "%s", text)
	}
	other := c.staged[string(item.Key)]
	if other != nil && !bytes.Equal(other, pair.Key) {
		value, err := res.r.Get(other) // that was another transaction, maybe
		if err != nil {
			return err
		}
		if value != nil {
			res.mendable = false
			u.fault(FaultTwice, pair.Key, false, "the item is in another result, too, at key %x", other)
			return nil
		}
	}
	c.staged[string(item.Key)] = pair.Key
	return nil
}

// withoutResult judges items that no key tells of: nobody collects them, and nobody
// puts them back.
func (res *resultCheck) withoutResult() error {
	if len(res.items) == 0 {
		return nil // only what does not decode, which was told
	}
	u := res.u
	for _, key := range res.keys {
		u.fault(FaultItem, key, res.mendable, "it belongs to no result, so nobody gets the item")
	}
	if res.mendable {
		u.PutBack, u.Mend = len(res.items), res.putBack
	}
	return nil
}

// judge judges the result itself.
func (res *resultCheck) judge(value []byte) error {
	c, u := res.c, res.u
	n, deadline, err := parseState(kv.KeyValue{Key: res.key, Value: value})
	if err != nil {
		u.key(res.key, "its value %x is not (items, deadline)", value)
		return nil
	}
	past, whole := c.s.past(deadline), n == len(res.items)
	u.Counts.Results, u.Counts.Items = 1, len(res.items)
	if past {
		u.Counts.OldResults, u.Counts.OldItems = 1, len(res.items)
	}
	back := res.mendable && past
	res.incomplete(n, past, back)
	// Without all items the usual way to put them back fails, for all who take: so it
	// is not to be started.
	missing, err := res.missing(deadline, res.mendable && (whole || past))
	switch {
	case err != nil:
		return err
	case back && whole:
		u.PutBack, u.Mend = n, func(tx kv.Tx) error { return res.expire(tx, deadline) }
	case back:
		u.PutBack, u.Mend = len(res.items), res.salvage
	case len(missing) > 0 && res.mendable && whole:
		u.Mend = func(tx kv.Tx) error {
			for _, key := range missing {
				tx.Set(key, nil)
			}
			return nil
		}
	}
	if back {
		res.settled()
	}
	return nil
}

// incomplete tells of a result that has not the n items that it should.
func (res *resultCheck) incomplete(n int, past, back bool) {
	switch whole := n == len(res.items); {
	case !whole && past:
		res.u.fault(FaultIncomplete, res.key, back, "it has %d items, and should have %d", len(res.items), n)
	case !whole:
		res.u.fault(FaultIncomplete, res.key, false, "it has %d items, and should have %d; what is there can go back when its deadline is over",
			len(res.items), n)
	case res.gap:
		res.u.fault(FaultIncomplete, res.key, back, "its items are not numbered from 0 to %d", n-1)
	}
}

// settled notes that items which are in the queue, too, will be there alone.
func (res *resultCheck) settled() {
	for i := range res.u.Faults {
		if f := &res.u.Faults[i]; f.Kind == FaultTwice {
			f.Mendable = true
		}
	}
}

// missing returns the keys that should be there with the result.
func (res *resultCheck) missing(deadline int64, mendable bool) (missing [][]byte, err error) {
	due := res.c.s.keys.due(deadline, res.op)
	if missing, err = res.absent(due); err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		res.u.fault(FaultNotDue, res.key, mendable, "the key with its deadline is missing")
	}
	places, err := res.absent(res.places()...)
	if err != nil {
		return nil, err
	}
	if len(places) > 0 {
		res.u.fault(FaultNoPlace, res.key, mendable, "keys with the last place of its items are missing: %d", len(places))
	}
	return append(missing, places...), nil
}

// absent returns those of keys that are not there.
func (res *resultCheck) absent(keys ...[]byte) (absent [][]byte, err error) {
	for _, key := range keys {
		value, err := res.r.Get(key)
		if err != nil {
			return nil, err
		}
		if value == nil {
			absent = append(absent, key)
		}
	}
	return absent, nil
}

// places returns the places of the items, or none if those are not all known.
func (res *resultCheck) places() [][]byte {
	for _, item := range res.items {
		if res.c.itemKey(item.Key) != nil {
			return nil
		}
	}
	return res.c.s.places(res.op, res.items)
}

// expire puts the items back as it is always done.
func (res *resultCheck) expire(tx kv.Tx, deadline int64) error {
	s := res.c.s
	if _, _, _, err := s.putBack(tx, s.keys.due(deadline, res.op), res.op, len(res.items)); err != nil {
		return err
	}
	return s.o.PutBack(tx)
}

// salvage puts back what is there of a result that the usual way refuses.
func (res *resultCheck) salvage(tx kv.Tx) error {
	s := res.c.s
	tx.Clear(res.key)
	for _, kind := range []int64{dueKind, placeKind} {
		for pair, err := range tx.Snapshot().Range(s.keys.all(kind), kv.RangeOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			if elems, err := tuple.Unpack(pair.Key[len(s.keys.prefix):]); err == nil && len(elems) > 0 {
				if op, ok := elems[len(elems)-1].([]byte); ok && bytes.Equal(op, res.op) {
					tx.Clear(pair.Key)
				}
			}
		}
	}
	return res.putBack(tx)
}

// putBack puts the items back.
func (res *resultCheck) putBack(tx kv.Tx) error {
	for i, item := range res.items {
		tx.Clear(res.keys[i])
		tx.Set(item.Key, item.Value)
	}
	return res.c.s.o.PutBack(tx)
}
