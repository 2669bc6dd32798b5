package linear

import (
	"fmt"
	"math"
	"strings"

	"github.com/conq-go/conq/queue"
)

// Item is a value in a queue. Values are unique in a history.
type Item struct {
	Value    string
	Priority int64 // 0 in a FIFO queue; Untold in what a verb returned without it
}

// Untold is the priority of an item that a verb has returned without telling
// its priority. No item has it.
const Untold = math.MinInt64

func (i Item) String() string {
	if i.Priority == 0 || i.Priority == Untold {
		return i.Value
	}
	return fmt.Sprintf("%s:%d", i.Value, i.Priority)
}

// Kind is what a verb does.
type Kind int

const (
	Put  Kind = iota // Enqueue, EnqueueAll, Push, PushAll
	Take             // Dequeue, DequeueN, PopMin, PopMax and so on
	Peek             // Peek
	Len
)

func (k Kind) String() string { return [...]string{"put", "take", "peek", "len"}[k] }

// Op is a call that has happened, or may have.
type Op struct {
	Client  int
	Kind    Kind
	End     queue.End // of Take and Peek
	N       int       // of Take: how many items were wanted
	Items   []Item    // what Put was given; what Take and Peek returned, none if empty
	Length  int       // what Len returned
	Unknown bool      // the outcome: Items of a Take, and Return, mean nothing then
	Call    int64     // the clock before the call
	Return  int64     // and after it; no two of these times are equal in a history
}

// String is the call and its result, as one reads it in a listing.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d %v", o.Client, o.Kind)
	switch {
	case o.Kind == Put:
		fmt.Fprintf(&b, " %v", o.Items)
	case o.Kind == Take && o.N > 1:
		fmt.Fprintf(&b, " %d %v", o.N, o.End)
	case o.Kind != Len:
		fmt.Fprintf(&b, " %v", o.End)
	}
	switch {
	case o.Unknown:
		b.WriteString(" = unknown")
	case o.Kind == Len:
		fmt.Fprintf(&b, " = %d", o.Length)
	case o.Kind != Put && len(o.Items) == 0:
		b.WriteString(" = empty")
	case o.Kind != Put:
		fmt.Fprintf(&b, " = %v", o.Items)
	}
	return b.String()
}

// History is what has happened to one queue.
type History struct {
	Name     string
	FIFOTies bool // how the high end chooses among equals
	TwoSteps bool // a take chooses its items at one point of its call, and they go at a later one
	Ops      []Op
}

// PutsAndTakes returns what there was but for the calls that only look.
func (h History) PutsAndTakes() History {
	var ops []Op
	for _, op := range h.Ops {
		if !op.looks() {
			ops = append(ops, op)
		}
	}
	h.Ops = ops
	return h
}

// looks tells whether a call changes nothing.
func (o Op) looks() bool { return o.Kind == Peek || o.Kind == Len }
