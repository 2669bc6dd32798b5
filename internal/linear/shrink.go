package linear

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// patience is how long each try of Shrink searches, and budget all of them.
const (
	patience = 2 * time.Second
	budget   = 20 * time.Second
)

// Shrink returns a part of a wrong history that is wrong by itself, as short as
// it can find in a few seconds. It cuts off the end; calls that were under way
// then become unknown. It leaves out calls that have changed nothing, and whole
// items, from all calls that had to do with them. If what is left is wrong, so
// was the whole.
func Shrink(h History) History {
	s := shrinker{h, time.Now().Add(budget)}
	if len(h.Ops) == 0 {
		return h
	}
	s.prefix()
	s.leaveOut(s.observers(), withoutCalls)
	s.leaveOut(s.values(), withoutValues)
	return s.h
}

type shrinker struct {
	h     History
	until time.Time
}

// wrong tells whether calls are a wrong history by themselves. Those of which
// that takes long to tell are of no use.
func (s *shrinker) wrong(ops []Op) bool {
	h := s.h
	h.Ops = ops
	var v *Violation
	return time.Now().Before(s.until) && errors.As(Verify(h, patience), &v)
}

// try goes on with a shorter history if it is wrong.
func (s *shrinker) try(ops []Op) bool {
	if !s.wrong(ops) {
		return false
	}
	s.h.Ops = ops
	return true
}

// prefix cuts off what happened after the first wrong result.
func (s *shrinker) prefix() {
	var ends []int64
	for _, op := range s.h.Ops {
		ends = append(ends, op.Return)
	}
	slices.Sort(ends)
	i := sort.Search(len(ends)-1, func(i int) bool { return s.wrong(until(s.h.Ops, ends[i])) })
	s.try(until(s.h.Ops, ends[i]))
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

// leaveOut tries to do without parts of the history: halves of all parts, then
// quarters, down to single ones.
func (s *shrinker) leaveOut(parts []string, without func([]Op, map[string]bool) []Op) {
	for size := (len(parts) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(parts); {
			to := min(from+size, len(parts))
			out := make(map[string]bool)
			for _, part := range parts[from:to] {
				out[part] = true
			}
			if s.try(without(s.h.Ops, out)) {
				parts = slices.Delete(parts, from, to)
			} else {
				from = to
			}
		}
	}
}

// observers names the calls that have changed nothing.
func (s *shrinker) observers() (calls []string) {
	for _, op := range s.h.Ops {
		if !op.Unknown && (op.Kind == Len || op.Kind == Peek || op.Kind == Take && len(op.Items) == 0) {
			calls = append(calls, name(op))
		}
	}
	return calls
}

func name(op Op) string { return fmt.Sprint(op.Call) }

func withoutCalls(ops []Op, out map[string]bool) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return out[name(op)] })
}

// values returns the values that were put.
func (s *shrinker) values() (values []string) {
	for _, op := range s.h.Ops {
		for _, item := range op.Items {
			if op.Kind == Put {
				values = append(values, item.Value)
			}
		}
	}
	return values
}

// withoutValues returns the calls as if some values had never been, or none if
// that would leave a length unclear.
func withoutValues(ops []Op, out map[string]bool) (left []Op) {
	for _, op := range ops {
		if op.Kind == Len {
			counted, sure := counted(ops, out, op)
			if !sure {
				return nil
			}
			op.Length -= counted
		}
		empty := len(op.Items) == 0
		op.Items = slices.DeleteFunc(slices.Clone(op.Items), func(i Item) bool { return out[i.Value] })
		if empty || len(op.Items) > 0 {
			left = append(left, op)
		}
	}
	return left
}

// counted returns how many of some values a Len has counted, if that is sure:
// none of their puts and takes was at the same time, or is unknown.
func counted(ops []Op, values map[string]bool, at Op) (n int, sure bool) {
	taken, lossy := 0, false
	for _, op := range ops {
		lossy = lossy || op.Kind == Take && op.Unknown && op.Call < at.Return
		for _, item := range op.Items {
			switch {
			case !values[item.Value] || op.Kind == Peek:
			case op.Kind == Take && op.Return < at.Call:
				n--
				taken++
			case op.Kind == Take && op.Call > at.Return:
				taken++
			case op.Call > at.Return:
			case op.Unknown || op.Kind == Take || op.Return > at.Call:
				return 0, false
			default:
				n++
			}
		}
	}
	return n, !lossy || taken == len(values)
}
