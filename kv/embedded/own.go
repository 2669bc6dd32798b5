package embedded

import (
	"bytes"

	"github.com/conq-go/conq/kv/internal/overlay"
)

// own gives pairs memory of their own that have stayed for long. Pairs have that of the transaction
// which wrote them, in pieces of some KB, with those that were written just before and after. Mostly
// these go together; but among 100,000 priorities, each popped in its turn, one of them stays here and
// there, and keeps the piece. With 1,000,000 items there, and 8 callers that push and pop at both ends
// for 40 s, the heap had 202 MB, the process 400; with it, 59 and 110 to 150.
//
// It goes through all that is near in the order of keys, by as many pairs as were written.
func (n *near) own() {
	left := n.number - n.owned
	if left < n.most.stay/1024 { // so that it is worth the search for where to go on
		return
	}
	n.owned = n.number
	var next []byte
	n.pivot.begin = n.hand
	if s := n.holding(n.hand, false); s != nil {
		n.pivot.begin = s.begin
	}
	n.stretches.Ascend(&n.pivot, func(s *stretch) bool {
		i := 0
		if bytes.Compare(s.begin, n.hand) < 0 {
			i, _ = search(s.pairs, n.hand, 0)
		}
		for ; i < len(s.pairs) && left > 0; i++ {
			left--
			if p := &s.pairs[i]; p.number > 0 && n.number-p.number > n.most.stay {
				p.own()
			}
		}
		switch {
		case i < len(s.pairs):
			next = s.pairs[i].key()
		case left == 0:
			next = s.end
		default:
			left--
			return true
		}
		return false
	})
	n.hand = append(n.hand[:0], next...)
}

// own gives the pair memory of its own. What wrote it is forgotten: it is hardly in the backlog, and if
// so, a removal comes after it there.
func (p *pair) own() {
	if len(p.value) > overlay.MaxShared || p.large() {
		*p = pair{after: bytes.Clone(p.after), value: p.value}
		return
	}
	*p = newPair(p.key(), p.value)
}
