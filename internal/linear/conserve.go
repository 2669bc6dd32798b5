package linear

import "fmt"

// Conserve is a weaker check than Verify, for where consumers die: until the
// deadline of what such a one has reserved, the items are missing from the queue,
// and they come back later than their turn. What must hold even then is that no
// item was invented or taken twice, and that in a drained queue none is lost:
// what was put was taken, but for what takes of unknown outcome may have.
func Conserve(h History) error {
	put, sure, taken := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	mayBeGone := 0
	for _, op := range h.Ops {
		for _, item := range op.Items {
			if op.Kind == Put {
				put[item.Value] = true
				sure[item.Value] = !op.Unknown
			}
		}
		if op.Kind == Take && op.Unknown {
			mayBeGone += op.N
		}
	}
	for _, op := range h.Ops {
		if op.Kind != Take || op.Unknown {
			continue
		}
		for _, item := range op.Items {
			if !put[item.Value] || taken[item.Value] {
				return fmt.Errorf("linear: queue %q: %v: %q was never put, or taken before", h.Name, op, item.Value)
			}
			taken[item.Value] = true
		}
	}
	var lost []string
	for value, is := range sure {
		if is && !taken[value] {
			lost = append(lost, value)
		}
	}
	if len(lost) > mayBeGone {
		return fmt.Errorf("linear: queue %q: %d items were lost, and only %d can have been taken by calls of unknown outcome: %q",
			h.Name, len(lost), mayBeGone, lost)
	}
	return nil
}
