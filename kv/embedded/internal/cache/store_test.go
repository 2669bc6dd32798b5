package cache

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/tidwall/btree"
)

// store is a store with a cache, which fills and reads it as an engine does.
type store struct {
	*Cache
	version uint64
	all     btree.Map[string, string]
	missed  int // how often the cache did not know what was asked for
	oldest  uint64
	backlog Backlog
}

func newStore(limits Limits) *store {
	return &store{Cache: New(limits, NewGaps()), version: 1, oldest: 1, backlog: Applied{}}
}

// forget has nothing in the cache any more.
func (s *store) forget() { s.Cache = New(s.limits, s.gaps) }

// commit commits what f writes.
func (s *store) commit(f func(o *overlay.Overlay)) {
	var o overlay.Overlay
	f(&o)
	for _, r := range o.Cleared() {
		for _, key := range s.keys(r) {
			s.all.Delete(key)
		}
	}
	o.Changes(func(c *overlay.Change) {
		if c.Kind == overlay.Clear {
			s.all.Delete(string(c.Key))
		} else {
			s.all.Set(string(c.Key), string(c.Value))
		}
	})
	s.version++
	s.Commit(o.Cleared(), o.All(), s.version, max(s.oldest, 1), s.backlog)
}

// set commits keys with one value.
func (s *store) set(value []byte, keys ...[]byte) {
	s.commit(func(o *overlay.Overlay) {
		for _, key := range keys {
			o.Set(key, value)
		}
	})
}

// keys returns those that are in a range, in order.
func (s *store) keys(r kv.Range) (keys []string) {
	s.all.Ascend(string(r.Begin), func(key, _ string) bool {
		if key >= string(r.End) {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys
}

// read returns the first pairs of a range, up to a limit. If it has to fetch some, it fetches more.
func (s *store) read(r kv.Range, reverse bool, limit int) (pairs []Pair) {
	return s.readSome(r, reverse, limit, s.limits.First)
}

// readSome is read with how many pairs it fetches at least.
func (s *store) readSome(r kv.Range, reverse bool, limit, least int) (pairs []Pair) {
	cur := NewCursor(r, reverse)
	for {
		pairs = s.Read(&cur, pairs, limit, s.version)
		if len(pairs) == limit || cur.Done() {
			return pairs
		}
		s.missed++
		fetched := s.fetch(&cur, max(min(limit-len(pairs), s.limits.Fetch), least, cur.Fetch))
		pairs = append(pairs, fetched...)
		if len(pairs) > limit {
			return pairs[:limit]
		}
	}
}

// fetch reads the next pairs at a cursor from the store, and fills the cache with them.
func (s *store) fetch(cur *Cursor, want int) (pairs []Pair) {
	before := *cur
	next := func(key, value string) bool {
		p := s.Pair([]byte(key), append([]byte(nil), value...)) // nil if it is empty
		c := Cursor{Pos: p.Key(), End: cur.End, Reverse: cur.Reverse}
		if !cur.Reverse && c.Done() || cur.Reverse && bytes.Compare(p.Key(), cur.End) < 0 {
			return false
		}
		if cur.Reverse && bytes.Compare(p.Key(), cur.Pos) >= 0 {
			return true
		}
		if len(pairs) == want {
			return false
		}
		pairs = append(pairs, p)
		return true
	}
	if cur.Reverse {
		s.all.Descend(string(cur.Pos), next)
	} else {
		s.all.Ascend(string(cur.Pos), next)
	}
	switch n := len(pairs); {
	case n < want:
		cur.Pos = cur.End
	case cur.Reverse:
		cur.Pos = pairs[n-1].Key()
	default:
		cur.Pos = pairs[n-1].After()
	}
	s.Fill(before, pairs, cur.Pos, s.version)
	return pairs
}

// last returns the last key of a range, or nil. If it is not known, it looks for the keys at both sides
// of the range, as far as among goes.
func (s *store) last(r, among kv.Range) []byte {
	if key, known := s.LastKey(r, s.version); known {
		return key
	}
	found := s.readSome(kv.Range{Begin: overlay.Least(among.Begin, r.Begin), End: r.End}, true, 1, 1)
	if len(found) > 0 && bytes.Compare(found[0].Key(), r.Begin) >= 0 {
		return found[0].Key()
	}
	if bytes.Compare(r.End, among.End) < 0 {
		s.readSome(kv.Range{Begin: r.End, End: among.End}, false, 1, 1)
	}
	s.LastKey(r, s.version) // so that the cache knows what is asked for
	return nil
}

// pop takes the first pair of a range, or the last one.
func (s *store) pop(t *testing.T, r kv.Range, reverse bool) Pair {
	t.Helper()
	found := s.read(r, reverse, 1)
	if len(found) == 0 {
		t.Fatalf("nothing is left from %q to %q", r.Begin, r.End)
	}
	s.commit(func(o *overlay.Overlay) { o.Clear(found[0].Key()) })
	return found[0]
}

func item(queue string, i int) []byte { return fmt.Appendf(nil, "%s/%08d", queue, i) }

func items(queue string, from, to int) (keys [][]byte) {
	for i := from; i < to; i++ {
		keys = append(keys, item(queue, i))
	}
	return keys
}

func keysOf(pairs []Pair) (keys []string) {
	for _, p := range pairs {
		keys = append(keys, string(p.Key()))
	}
	return keys
}
