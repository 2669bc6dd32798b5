package etcd

import "github.com/conq-go/conq/kv/internal/overlay"

// view is what a transaction has read of the store, at its revision.
type view struct {
	mods   map[string]int64 // revision of each key's last change; 0 if it is absent
	ranges overlay.RangeSet // what is not in mods is absent in here
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
	_, known = v.ranges.Holding(key)
	return 0, known
}
