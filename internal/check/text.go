package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/conq-go/conq/tuple"
)

const (
	purgeIt   = "conq purge removes it, with all items of the queue"
	otherwise = "a newer version of conq may have written it; if not, "
)

// advices say what to do about findings that Check does not repair.
var advices = map[FindingKind]string{
	FindingFormat:    "no queue can be opened: put the format back from a copy of the store",
	FindingCatalogue: "the items are as they were: put the entry back from a copy of the store",
	FindingNewer:     "check it with a newer version of conq",
	FindingNoEntry:   "conq stat enters it if it has items, else enqueue or push does; then check again",
	FindingSystemKey: "a newer version of conq may have written them: check with that",
	FindingOutside:   "",
	FindingForeign:   "conq stat enters it",

	FindingItemKey:   "it stays, and a take that comes to it gets an error; the program that wrote it may remove it; " + purgeIt,
	FindingItemValue: "it stays, and a take that comes to it gets an error; another codec may read it",
	FindingPieces:    "the item can't be read, and stays; " + purgeIt,
	FindingOrphans:   "there are keys among them that are no pieces, and nothing is removed before those are",
	FindingPieceKey:  otherwise + purgeIt,

	FindingJob: otherwise + purgeIt,

	FindingStagingKey:    otherwise + purgeIt,
	FindingTwice:         "two may get it; if both are the same they are one again when the deadline of the result is over",
	FindingStagedItemKey: "it would go there if nobody collects it; " + purgeIt,
	FindingOutcome:       otherwise + "the client that it belongs to gets errors until it is gone",
}

// advice says what to do about a finding.
func advice(f Finding) string {
	if to, known := advices[f.Kind]; known {
		return to
	}
	return "it can be repaired when the deadline of the result is over: check again in some seconds"
}

// String returns the finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.Queue != "" {
		fmt.Fprintf(&b, ", queue %q", f.Queue)
	}
	fmt.Fprintf(&b, ": %s; ", f.Text)
	if f.Keys > 1 {
		fmt.Fprintf(&b, "%d keys from %s on", f.Keys, f.KeyText())
	} else {
		fmt.Fprintf(&b, "key %s", f.KeyText())
	}
	switch {
	case f.Repaired:
		b.WriteString("; repaired")
	case f.Repairable:
		b.WriteString("; can be repaired")
	case f.To != "":
		b.WriteString("; " + f.To)
	}
	return b.String()
}

// KeyText returns the key in the form of docs/reference/format.md, as the elements of a tuple;
// or, if it is none, in hexadecimal.
func (f Finding) KeyText() string {
	elems, err := tuple.Unpack(f.Key)
	if err != nil || len(elems) == 0 {
		return fmt.Sprintf("%x", f.Key)
	}
	return tupleText(elems)
}

func tupleText(elems tuple.Tuple) string {
	texts := make([]string, len(elems))
	for i, elem := range elems {
		switch v := elem.(type) {
		case string:
			texts[i] = strconv.Quote(v)
		case []byte:
			texts[i] = "b" + byteText(v)
		case tuple.Tuple:
			texts[i] = tupleText(v)
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return "(" + strings.Join(texts, ", ") + ")"
}

// byteText quotes bytes as Python does: those that are no ASCII as \xhh.
func byteText(b []byte) string {
	var text strings.Builder
	text.WriteByte('"')
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			text.WriteByte('\\')
			text.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&text, `\x%02x`, c)
		default:
			text.WriteByte(c)
		}
	}
	return text.String() + `"`
}
