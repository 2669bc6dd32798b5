package linear

import (
	"errors"
	"slices"
	"sort"
	"time"
)

// patience is how long each try of Shrink searches.
const patience = 2 * time.Second

// Shrink returns a wrong history up to its first wrong result. Calls that were under way then become
// unknown. If what is left is wrong, so was the whole.
func Shrink(h History) History {
	ends := []int64{0}
	for _, op := range h.Ops {
		ends = append(ends, op.Return)
	}
	slices.Sort(ends)
	whole := h.Ops
	i := sort.Search(len(ends)-1, func(i int) bool {
		h.Ops = until(whole, ends[i])
		var v *Violation
		return errors.As(Verify(h, patience), &v)
	})
	h.Ops = until(whole, ends[i])
	return h
}

// until returns the calls as they were known at a time: those that had not
// returned are unknown, or left out if they change nothing.
func until(ops []Op, end int64) (known []Op) {
	for _, op := range ops {
		switch {
		case op.Call > end:
		case op.Return <= end:
			known = append(known, op)
		case op.Kind == Take:
			op.Items, op.Unknown = nil, true
			known = append(known, op)
		case op.Kind == Put:
			op.Unknown = true
			known = append(known, op)
		}
	}
	return known
}
