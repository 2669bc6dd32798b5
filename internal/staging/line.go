package staging

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
)

// Line is one client's place in the line of the clients that wait for items of a queue, over all
// processes. A client here is the callers of one process that wait together; it waits since
// its oldest caller came.
//
//   - An entry is a key with that time. The first entry of all may take items; each other client
//     watches the entry in front of its own. So a take wakes the next client, and no other.
//   - Entries are written and read through snapshots: nothing conflicts.
//   - Each has a deadline, which clients that wait put off. One that is over is removed by any
//     client that sees it. A first client that leaves items where they are for Patience is taken
//     for dead, and its entry removed, too: if it is not, it comes back with its old time.
//   - The line is for few items. A client that sees Plenty removes it, and all take at once: so
//     dead clients hold nothing up then.
//
// What is not guaranteed: order by real time. Times are those of the clients' clocks.
//
// Look, Enter and Leave are parts of one transaction. A Line is for one goroutine at
// a time, but for Leave, Left and Waits.
type Line struct {
	s  *Stage
	id []byte

	mu   sync.Mutex
	mine []int64 // stamps of own entries that may be there

	first []byte    // of others, when the client looked last
	since time.Time // there have been items since then, and the first one has not taken them
}

// Patience is how long the first client of the line may leave items where they are before
// others, which look now and then, take it for dead.
const Patience = time.Second

// Plenty is how many items there have to be for the line to be pointless.
const Plenty = 16

// NewLine returns a place in the line, which is not taken yet.
func (s *Stage) NewLine() (*Line, error) {
	id, err := s.newOp()
	return &Line{s: s, id: id}, err
}

// View is what a client sees in the line.
type View struct {
	First  bool // nobody has waited for longer
	Others bool // others wait, too

	own      []byte // the entry that it should have
	there    bool   // it is there
	deadline int64  // of it, then
	ahead    []byte // the entry in front of it
}

// Look finds out whether the client is first, if it has waited since stamp. items returns
// how many items there are, if it is fewer than Plenty, or else Plenty or more: the
// client is first then, and there is no line any more.
func (l *Line) Look(tx kv.Tx, stamp int64, items func() (int, error)) (v View, err error) {
	v.own = l.s.keys.waiter(stamp, l.id)
	cleared, read := 0, l.LookRead()
	defer func() { v.First = v.First && cleared <= mostCleared }() // else it is to look again
	for pair, err := range tx.Snapshot().Range(read.Range, read.Options) {
		if err != nil {
			return v, err
		}
		_, deadline, err := parseState(pair)
		if err != nil {
			return v, err
		}
		if bytes.Equal(pair.Key, v.own) {
			v.there, v.deadline = true, deadline
			continue // are there others?
		}
		switch kind, err := l.kind(pair.Key, deadline, v.own, items); {
		case err != nil:
			return v, err
		case kind == pointless:
			l.Open(tx)
			v.First, v.there = true, false
			return v, nil
		case kind == dead:
			tx.Clear(pair.Key)
			cleared++
			continue
		}
		v.Others = true
		if v.First = bytes.Compare(pair.Key, v.own) > 0; v.First {
			return v, nil
		}
		err = l.behind(tx, &v)
		return v, err
	}
	v.First = true
	return v, nil
}

// LookRead is what Look reads first.
func (l *Line) LookRead() kv.Read {
	return kv.Read{Range: l.s.keys.all(lineKind), Options: kv.RangeOptions{Limit: lookAt}}
}

// lookAt is how many entries a client looks at: there are more than two only if
// some are dead, and so many that it looks again if all are.
const lookAt = 16

// Bounds for engines that allow few operations, as etcd does.
const (
	mostCleared = 4 // entries may be cleared in a transaction that also takes items
	mostMine    = 4 // own entries are kept in mind that may be there
)

// What a client makes of an entry that is not its own.
type entryKind int

const (
	live      entryKind = iota
	dead                // to be removed
	pointless           // as there are Plenty of items, nobody is to wait behind it
)

// kind tells what an entry is, which is not own. It is dead if it is an old one of this
// client, its deadline is over, or it is in front of own and stuck.
func (l *Line) kind(key []byte, deadline int64, own []byte, items func() (int, error)) (entryKind, error) {
	id, err := l.s.keys.parseWaiter(key)
	switch {
	case err != nil:
		return live, err
	case bytes.Equal(id, l.id), l.s.past(deadline):
		return dead, nil
	case bytes.Compare(key, own) > 0:
		return live, nil
	}
	there, err := items()
	switch {
	case err != nil:
		return live, err
	case there >= Plenty:
		return pointless, nil
	case l.stuck(key, there > 0):
		return dead, nil
	}
	return live, nil
}

// stuck tells whether the first one in the line has left items where they are for
// too long.
func (l *Line) stuck(first []byte, there bool) bool {
	if !bytes.Equal(first, l.first) {
		l.first, l.since = first, time.Time{}
	}
	switch {
	case !there:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = l.s.o.Now()
	default:
		return l.s.o.Now().Sub(l.since) >= Patience
	}
	return false
}

// behind finds the entry in front of the own one. Old ones of this client there go: what it
// clears itself, it must not wait for.
func (l *Line) behind(tx kv.Tx, v *View) error {
	upTo := kv.Range{Begin: l.s.keys.kind(lineKind), End: kv.After(v.own)}
	for pair, err := range tx.Snapshot().Range(upTo, kv.RangeOptions{Limit: mostMine + 2, Reverse: true}) {
		if err != nil {
			return err
		}
		id, err := l.s.keys.parseWaiter(pair.Key)
		if err != nil {
			return err
		}
		switch {
		case bytes.Equal(pair.Key, v.own):
			if _, v.deadline, err = parseState(pair); err != nil {
				return err
			}
			v.there = true
		case bytes.Equal(id, l.id):
			tx.Clear(pair.Key)
		default:
			v.ahead = pair.Key
			return nil
		}
	}
	return nil
}

// Ahead returns a channel that tells when the one in front has gone. If there is
// none any more, it tells at once.
func (l *Line) Ahead(tx kv.Tx, v View) <-chan error {
	if v.ahead == nil {
		gone := make(chan error)
		close(gone)
		return gone
	}
	return tx.Watch(v.ahead)
}

// Enter writes the client's entry, which waits since stamp: that of v, or a later one.
func (l *Line) Enter(tx kv.Tx, v View, stamp int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.mine, stamp) {
		l.mine = append(l.mine, stamp) // whether the transaction commits or not
	}
	if len(l.mine) > mostMine { // many have failed
		l.mine = slices.Delete(l.mine, 1, 2) // the first is known to be there, if any is; Look clears others
	}
	for _, other := range l.mine {
		if other != stamp {
			tx.Clear(l.s.keys.waiter(other, l.id))
		}
	}
	own := l.s.keys.waiter(stamp, l.id)
	fresh := !l.s.past(v.deadline - int64(l.s.o.Lease/2))
	if !bytes.Equal(own, v.own) || !v.there || !fresh {
		tx.Set(own, state(0, l.s.deadline()))
	}
}

// Leave removes the client's entries with stamps before a time.
func (l *Line) Leave(tx kv.Tx, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stamp := range l.mine {
		if stamp < before {
			tx.Clear(l.s.keys.waiter(stamp, l.id))
		}
	}
}

// Open removes the line, so that all take at once. A client that finds nothing comes back.
func (l *Line) Open(tx kv.Tx) { tx.ClearRange(l.s.keys.all(lineKind)) }

// Entered is to be called when a transaction has committed that has entered the
// line.
func (l *Line) Entered(stamp int64) { l.gone(func(mine int64) bool { return mine != stamp }) }

// Left is to be called when a transaction has committed that has left the line since
// before a time, or opened it.
func (l *Line) Left(before int64) { l.gone(func(mine int64) bool { return mine < before }) }

// gone notes that some of the own entries are not there any more.
func (l *Line) gone(is func(stamp int64) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = slices.DeleteFunc(l.mine, is)
}

// Waits tells whether the client may have an entry with a stamp before a time.
func (l *Line) Waits(before int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.mine, func(stamp int64) bool { return stamp < before })
}
