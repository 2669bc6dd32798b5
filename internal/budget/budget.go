// Package budget says how much goes into one transaction of an engine that limits these. It is the one place where that
// is counted: a verb does what fits, and goes on in the next transaction.
//
// Who knows beforehand what things cost has a [Budget], and spends from it. Who does not wraps the transaction in a [Tx],
// which counts what was done so far, and asks it before each thing whether the largest of its kind still fits.
package budget

import (
	"math"

	"github.com/conq-go/conq/kv"
)

// overhead is the most operations that a transaction takes beside the things that it is for: what makes it exactly once,
// what tells waiters of it, and counters of the queue.
const overhead = 16

// Budget is how much may still be written in a transaction. Where the engine has no limit it does not end.
type Budget struct {
	Operations int // writes, and reads that conflict
	Bytes      int // of payloads: what a transaction takes besides, as keys, is taken off
}

// Of returns what one transaction may do: all operations but the overhead, and payloads of half of its bytes.
func Of(l kv.Limits) Budget {
	b := Budget{math.MaxInt, math.MaxInt}
	if l.Operations > 0 {
		b.Operations = max(1, l.Operations-overhead, l.Operations/2)
	}
	if l.Transaction > 0 {
		b.Bytes = l.Transaction / 2
	}
	return b
}

// MaxPayload returns the size of the largest payload: half of the bytes of a transaction, and pieces, each a value, for
// less than half of its operations, so that one transaction can move it elsewhere.
func MaxPayload(l kv.Limits) int {
	size := Of(l).Bytes
	const besides = 4 // in each half
	if pieces := max(1, l.Operations/2-besides); l.Operations > 0 && l.Value > 0 && pieces < size/l.Value {
		return pieces * l.Value
	}
	return size
}

// Pieces returns over how many values a payload goes.
func Pieces(l kv.Limits, size int) int {
	if l.Value == 0 || size <= l.Value {
		return 1
	}
	return (size + l.Value - 1) / l.Value
}

// Part returns one of n equal parts.
func (b Budget) Part(n int) Budget {
	if b.Operations < math.MaxInt {
		b.Operations = max(1, b.Operations/n)
	}
	if b.Bytes < math.MaxInt {
		b.Bytes /= n
	}
	return b
}

// Times returns how many things of so many operations fit, at least one and not more than most.
func (b Budget) Times(operations, most int) int {
	return max(1, min(most, b.Operations/operations))
}

// Fits tells whether something fits.
func (b Budget) Fits(operations, bytes int) bool {
	return operations <= b.Operations && bytes <= b.Bytes
}

// Spend takes off what something costs, and tells whether it fitted.
func (b *Budget) Spend(operations, bytes int) bool {
	b.Operations -= operations
	b.Bytes -= bytes
	return b.Operations >= 0 && b.Bytes >= 0
}

// Weight returns how much of a whole something takes of the budget, by its bytes or its operations, whichever is more.
// Bytes count as they are where the budget has more of them than the whole.
func (b Budget) Weight(operations, bytes, whole int) int {
	weight := bytes
	if b.Bytes < whole {
		weight = part(bytes, b.Bytes, whole)
	}
	if b.Operations < math.MaxInt {
		weight = max(weight, part(operations, b.Operations, whole))
	}
	return weight
}

// part is n/of of a whole, rounded up.
func part(n, of, whole int) int {
	return int(math.Ceil(float64(n) / float64(max(1, of)) * float64(whole)))
}

// Batch bounds what goes into, or comes out of, one transaction of a user's. The last one may be over the bytes.
type Batch struct{ Items, Bytes int }

// BatchFor returns bounds that leave an engine room for what each one needs besides: its key, and so
// many operations.
func BatchFor(l kv.Limits, operations int) Batch {
	const maxItems, maxBytes = 1000, 1 << 20
	b := Of(l)
	return Batch{b.Times(operations, maxItems), min(maxBytes, b.Part(2).Bytes)}
}
