package staging

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Kinds of faults.
const (
	FaultKey         = "staging key"          // a key, or its value, does not decode
	FaultServed      = "served request"       // a request that has its result already
	FaultIncomplete  = "incomplete result"    // a result whose items are not numbered from 0
	FaultTwice       = "item twice"           // an item that is somewhere else, too
	FaultForeignItem = "staged key"           // an item whose key is not one of the queue's
	FaultPlace       = "place without result" // the key that tells the place of items, of none
	FaultNoPlace     = "result without place" // a result without that key
)

// Fault is something in the staging of a queue that no client leaves there.
type Fault struct {
	Kind       string
	Key        []byte
	Text       string // what is wrong
	Repairable bool   // by Unit.Repair
}

// Unit is what Checker.Check has found out about keys that belong together.
type Unit struct {
	Next    []byte        // the first key that it is not about
	Keys    int           // how many it is about
	Bytes   int64         // of them and their values
	Items   []kv.KeyValue // of the queue, in a result, as they were there
	Counts  Counts
	Faults  []Fault
	PutBack int // so many items will Repair put back

	// Repair does in the transaction in which Check has read what can be done without
	// a loss: it takes away what holds no item, adds what is missing, and puts back
	// items of a result whose deadline is over. It is nil if there is nothing to do.
	Repair func(kv.Tx) error
}

// Counts is what is staged. Old is what is past its deadline.
type Counts struct {
	Requests, OldRequests int
	Results, OldResults   int
	Items, OldItems       int // of results
	Waiting, OldWaiting   int // entries in the line
}

// Checker looks for faults in the staging of a queue. It writes nothing but in
// Unit.Repair.
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
			if _, _, item, err := c.s.keys.parseResult(pair); err == nil && item.Key != nil && !yield(item, nil) {
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
	case int64(requestKind):
		return u, c.request(r, &u, pair)
	case int64(resultKind):
		return u, c.result(r, &u, pair)
	case int64(placeKind):
		return u, c.place(r, &u, pair, elems[1:])
	case int64(lineKind):
		return u, c.waiter(&u, pair)
	case int64(fulfillerKind):
		if _, err := parseFulfiller(pair); err != nil || len(elems) != 1 {
			u.key(pair.Key, "it should be (0), with (id): %v", err)
		}
		return u, nil
	}
	u.key(pair.Key, "keys of staging begin with a number from %d to %d, not with %v", fulfillerKind, lineKind, elems[0])
	return u, nil
}

func (u *Unit) fault(kind string, key []byte, repairable bool, format string, args ...any) {
	u.Faults = append(u.Faults, Fault{kind, key, fmt.Sprintf(format, args...), repairable})
}

func (u *Unit) key(key []byte, format string, args ...any) {
	u.fault(FaultKey, key, false, format, args...)
}

// clears has Repair clear a key that is at fault.
func (u *Unit) clears(kind string, key []byte, text string) {
	u.fault(kind, key, true, "%s", text)
	u.Repair = func(tx kv.Tx) error {
		tx.Clear(key)
		return nil
	}
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
	served, err := c.hasResult(r, request.deadline, request.op)
	if served {
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

// hasResult tells whether there is anything of the result of op.
func (c *Checker) hasResult(r kv.Reader, deadline int64, op []byte) (bool, error) {
	for _, err := range r.Range(c.s.keys.whole(deadline, op), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		return err == nil, err
	}
	return false, nil
}

// place judges (3, place..., deadline, op). rest is what follows the 3.
func (c *Checker) place(r kv.Reader, u *Unit, pair kv.KeyValue, rest tuple.Tuple) error {
	integers := c.integers + 1
	op, ok := []byte(nil), len(rest) == integers+1
	for i := 0; ok && i < integers; i++ {
		_, ok = rest[i].(int64)
	}
	if ok {
		op, ok = rest[integers].([]byte)
	}
	if !ok {
		u.key(pair.Key, "it should be (3, place, deadline, op), where the place has %d integers", c.integers)
		return nil
	}
	there, err := c.hasResult(r, rest[c.integers].(int64), op)
	if err == nil && !there {
		u.clears(FaultPlace, pair.Key, "there is no result with items of that place")
	}
	return err
}

// result judges all keys of a result.
func (c *Checker) result(r kv.Reader, u *Unit, pair kv.KeyValue) error {
	deadline, op, _, err := c.s.keys.parseResult(pair)
	if err != nil {
		u.key(pair.Key, "it should be (2, deadline, op) or (2, deadline, op, i, key)")
		return nil
	}
	if !c.s.keys.whole(deadline, op).Contains(pair.Key) {
		u.key(pair.Key, "its integers are not written as they should be")
		return nil
	}
	res := resultCheck{c: c, r: r, u: u, result: result{deadline: deadline, op: op}, repairable: true}
	u.Next = c.s.keys.whole(deadline, op).End
	if err := res.readItems(pair.Key); err != nil {
		return err
	}
	return res.judge()
}

// resultCheck is the check of one result.
type resultCheck struct {
	c *Checker
	r kv.Reader
	u *Unit
	result

	gap        bool // its items are not numbered from 0
	repairable bool // they could go back: nothing else would be lost or doubled
}

// readItems reads what is stored in the result. first is the key that led to it.
func (res *resultCheck) readItems(first []byte) error {
	c, u := res.c, res.u
	for pair, err := range res.r.Range(c.s.keys.whole(res.deadline, res.op), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		told := bytes.Compare(pair.Key, first) < 0 // as one that does not decode
		if !told && !bytes.Equal(pair.Key, first) {
			u.Keys++
			u.Bytes += int64(len(pair.Key) + len(pair.Value))
		}
		_, _, item, err := c.s.keys.parseResult(pair)
		if err != nil {
			res.repairable = false
			if !told {
				u.key(pair.Key, "it should be (2, deadline, op) or (2, deadline, op, i, key)")
			}
			continue
		}
		if item.Key == nil {
			continue
		}
		res.gap = res.gap || !bytes.Equal(pair.Key, c.s.keys.item(res.deadline, res.op, len(res.items), item.Key))
		res.items = append(res.items, item)
		if err := c.itemKey(item.Key); err != nil {
			res.repairable = false
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
		res.repairable = res.repairable && same
		u.fault(FaultTwice, pair.Key, false, "%s", text)
	}
	other := c.staged[string(item.Key)]
	if other != nil && !bytes.Equal(other, pair.Key) {
		value, err := res.r.Get(other) // that was another transaction, maybe
		if err != nil {
			return err
		}
		if value != nil {
			res.repairable = false
			u.fault(FaultTwice, pair.Key, false, "the item is in another result, too, at key %x", other)
			return nil
		}
	}
	c.staged[string(item.Key)] = pair.Key
	return nil
}

// judge judges the result as a whole. One whose deadline is over is put back, as it always is.
func (res *resultCheck) judge() error {
	c, u := res.c, res.u
	past := c.s.past(res.deadline)
	u.Counts.Results, u.Counts.Items = 1, len(res.items)
	if past {
		u.Counts.OldResults, u.Counts.OldItems = 1, len(res.items)
	}
	back := res.repairable && past
	if res.gap {
		u.fault(FaultIncomplete, c.s.keys.result(res.deadline, res.op), back, "its %d items are not numbered from 0", len(res.items))
	}
	missing, err := res.missingPlaces()
	if err != nil {
		return err
	}
	if back {
		res.settled()
		u.PutBack, u.Repair = len(res.items), res.putBack
	} else if len(missing) > 0 && res.repairable {
		u.Repair = func(tx kv.Tx) error {
			for _, key := range missing {
				tx.Set(key, nil)
			}
			return nil
		}
	}
	return nil
}

// settled notes that items which are in the queue, too, will be there alone.
func (res *resultCheck) settled() {
	for i := range res.u.Faults {
		if f := &res.u.Faults[i]; f.Kind == FaultTwice {
			f.Repairable = true
		}
	}
}

// missingPlaces returns the keys that should be there with the result, and are not.
func (res *resultCheck) missingPlaces() (missing [][]byte, err error) {
	if slices.ContainsFunc(res.items, func(item kv.KeyValue) bool { return res.c.itemKey(item.Key) != nil }) {
		return nil, nil // places are not all known
	}
	if missing, err = res.absent(res.c.s.places(res.result)...); len(missing) > 0 {
		res.u.fault(FaultNoPlace, res.c.s.keys.result(res.deadline, res.op), res.repairable,
			"keys with the last place of its items are missing: %d", len(missing))
	}
	return missing, err
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

// putBack puts the items back as it is always done.
func (res *resultCheck) putBack(tx kv.Tx) error {
	r, _, err := res.c.s.takeResult(tx, res.deadline, res.op)
	if err != nil {
		return err
	}
	return res.c.s.putBack(tx, r.items)
}
