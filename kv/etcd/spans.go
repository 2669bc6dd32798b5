package etcd

import (
	"bytes"
	"slices"
	"sort"

	"github.com/conq-go/conq/kv"
)

// spans is a set of keys as sorted ranges with explicit bounds that neither
// overlap nor touch.
type spans []kv.Range

// holding returns the span that holds key.
func (s spans) holding(key []byte) (kv.Range, bool) {
	if i, ok := s.index(key); ok {
		return s[i], true
	}
	return kv.Range{}, false
}

// index returns which span holds key.
func (s spans) index(key []byte) (int, bool) {
	i := sort.Search(len(s), func(i int) bool { return bytes.Compare(s[i].End, key) > 0 })
	return i, i < len(s) && bytes.Compare(s[i].Begin, key) <= 0
}

// covers tells whether all of r is in s.
func (s spans) covers(r kv.Range) bool {
	if bytes.Compare(r.Begin, r.End) >= 0 {
		return true
	}
	span, ok := s.holding(r.Begin)
	return ok && bytes.Compare(r.End, span.End) <= 0
}

// add adds r. It keeps r's slices.
func (s *spans) add(r kv.Range) {
	if bytes.Compare(r.Begin, r.End) >= 0 {
		return
	}
	// All spans in [from, to) overlap r or touch it: they become one.
	from := sort.Search(len(*s), func(i int) bool { return bytes.Compare((*s)[i].End, r.Begin) >= 0 })
	to := from
	for to < len(*s) && bytes.Compare((*s)[to].Begin, r.End) <= 0 {
		to++
	}
	if from < to {
		r.Begin = least(r.Begin, (*s)[from].Begin)
		r.End = greatest(r.End, (*s)[to-1].End)
	}
	*s = slices.Replace(*s, from, to, r)
}

// view is what a transaction has read of the store, at its revision.
type view struct {
	mods   map[string]int64 // revision of each key's last change; 0 if it is absent
	ranges spans            // what is not in mods is absent in here
}

// maxView is how many keys a transaction remembers that it has read through
// snapshots. It may need to know them, if they are in a range given to
// AddReadConflict; if it has forgotten them, it reads them again.
const maxView = 4096

func (v *view) sawKey(key []byte, mod int64) {
	if v.mods == nil {
		v.mods = make(map[string]int64)
	}
	v.mods[string(key)] = mod
}

// mod returns the revision in which key was changed last, 0 if it is absent.
func (v *view) mod(key []byte) (mod int64, known bool) {
	if mod, known = v.mods[string(key)]; known {
		return mod, true
	}
	_, known = v.ranges.holding(key)
	return 0, known
}
