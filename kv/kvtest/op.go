package kvtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// op is one operation of a random transaction. A transaction is run as a list
// of them, against the engine and against a state, and what they saw compared.
type op struct {
	kind     string // "get", "range", "last of range", "last of each range", "known range", "set", "clear", "clear range" or "add"
	key, end string // a range's begin and end
	alone    bool   // the last key is asked for as if of no other range
	value    string
	delta    int64
	limit    int
	stop     int // leave the loop after so many pairs; 0 for never
	reverse  bool
	snapshot bool
	ahead    bool // asked for before all others
}

func (o op) String() string { type fields op; return fmt.Sprintf("%#v", fields(o)) }

// run does o, and returns what it saw.
func (o op) run(tx kv.Tx) (string, error) {
	switch o.kind {
	case "set":
		tx.Set([]byte(o.key), []byte(o.value))
	case "clear":
		tx.Clear([]byte(o.key))
	case "clear range":
		tx.ClearRange(span(o.key, o.end))
	case "add":
		tx.Add([]byte(o.key), o.delta)
	default:
		if o.snapshot {
			return o.read(tx.Snapshot())
		}
		return o.read(tx)
	}
	return "", nil
}

// read does o, which writes nothing.
func (o op) read(r kv.Reader) (string, error) {
	switch o.kind {
	case "get":
		value, err := r.Get([]byte(o.key))
		return showValue(value), err
	case "range":
		return o.runRange(r)
	case "known range":
		return o.runKnown(r)
	case "last of range":
		among := kv.Range{}
		if o.alone {
			among = span(o.key, o.end)
		}
		key, err := kvext.LastKey(r, span(o.key, o.end), among)
		return showValue(key), err
	}
	return o.runLastOfEach(r)
}

// runLastOfEach reads the last key of the range and of what lies before and behind it.
func (o op) runLastOfEach(r kv.Reader) (string, error) {
	spans := []kv.Range{span(o.key, o.end), span("", o.key), span(o.end, "")}
	keys, err := kvext.LastKeys(r, spans, kv.Range{}, nil)
	if err != nil || len(keys) != len(spans) {
		return fmt.Sprint(len(keys), " keys"), err
	}
	return fmt.Sprintf("%q %q %q", showValue(keys[0]), showValue(keys[1]), showValue(keys[2])), nil
}

func (o op) runRange(r kv.Reader) (string, error) {
	var seen []kv.KeyValue
	for pair, err := range r.Range(span(o.key, o.end), kv.RangeOptions{Limit: o.limit, Reverse: o.reverse}) {
		if err != nil {
			return "", err
		}
		if seen = append(seen, pair); len(seen) == o.stop {
			break
		}
	}
	return show(seen), nil
}

// runKnown reads by Known, or if the engine does not know, by Range.
func (o op) runKnown(r kv.Reader) (string, error) {
	before := []kv.KeyValue{{Key: []byte("before")}}
	pairs, known, err := kvext.Known(r, span(o.key, o.end), kv.RangeOptions{Limit: o.limit, Reverse: o.reverse}, before)
	if pairs = pairs[1:]; known || err != nil {
		return show(pairs[:min(len(pairs), cmp.Or(o.stop, len(pairs)))]), err
	}
	return o.runRange(r)
}

// prefetch asks for what a get or a range is going to read.
func (o op) prefetch(tx kv.Tx) {
	switch o.kind {
	case "get":
		kv.Prefetch(tx, kv.Read{Key: []byte(o.key)})
	case "range", "known range":
		kv.Prefetch(tx, kv.Read{Range: span(o.key, o.end), Options: kv.RangeOptions{Limit: o.limit, Reverse: o.reverse}})
	case "last of range":
		kv.Prefetch(tx.Snapshot(), kv.Read{Range: span(o.key, o.end), Options: kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}})
	}
}

// runAll does ops, and returns what each saw.
func runAll(tx kv.Tx, ops []op) ([]string, error) {
	for _, o := range ops {
		if o.ahead {
			o.prefetch(tx)
		}
	}
	seen := make([]string, len(ops))
	for i, o := range ops {
		var err error
		if seen[i], err = o.run(tx); err != nil {
			return nil, fmt.Errorf("%v: %w", o, err)
		}
	}
	return seen, nil
}

// state is what a store has to hold.
type state map[string]string

// do is run against the state.
func (s state) do(o op) string {
	switch o.kind {
	case "get":
		if value, ok := s[o.key]; ok {
			return value
		}
		return absent
	case "range", "known range":
		return s.doRange(o)
	case "last of range":
		return s.doLast(o)
	case "last of each range":
		return fmt.Sprintf("%q %q %q", s.doLast(o), s.doLast(op{end: o.key}), s.doLast(op{key: o.end}))
	case "set":
		s[o.key] = o.value
	case "clear":
		delete(s, o.key)
	case "clear range":
		maps.DeleteFunc(s, func(key, _ string) bool { return span(o.key, o.end).Contains([]byte(key)) })
	case "add":
		s[o.key] = sum(s[o.key], o.delta)
	}
	return ""
}

func (s state) doRange(o op) string {
	var seen []kv.KeyValue
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if span(o.key, o.end).Contains([]byte(key)) {
			seen = append(seen, kv.KeyValue{Key: []byte(key), Value: []byte(s[key])})
		}
	}
	if o.reverse {
		slices.Reverse(seen)
	}
	for _, n := range []int{o.limit, o.stop} {
		if n > 0 {
			seen = seen[:min(n, len(seen))]
		}
	}
	return show(seen)
}

func (s state) doLast(o op) string {
	last := absent
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if span(o.key, o.end).Contains([]byte(key)) {
			last = key
		}
	}
	return last
}

// sum is what Add makes of value.
func sum(value string, delta int64) string {
	digits := []byte(value + "\x00\x00\x00\x00\x00\x00\x00\x00")[:8]
	return little(int64(binary.LittleEndian.Uint64(digits)) + delta)
}

// little is the value of a counter that stands at n.
func little(n int64) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// opKinds are all kinds; reads are there twice, as they are what is checked.
var opKinds = []string{"get", "get", "range", "range", "range", "known range", "last of range", "last of each range", "set", "set", "clear", "clear range", "add"}

// opKeys are few, so that operations meet, and awkward.
var opKeys = []string{"\x00", "a", "a\x00", "a\x00\xff", "a\xff", "b", "b\x00", "ba", "c", "\xfe", "\xfe\xff"}

// drawOp draws any operation.
func drawOp(t *rapid.T) op {
	bounds := append([]string{""}, opKeys...)
	o := op{
		kind:     rapid.SampledFrom(opKinds).Draw(t, "kind"),
		key:      rapid.SampledFrom(opKeys).Draw(t, "key"),
		value:    rapid.StringOfN(rapid.RuneFrom([]rune("\x00x\u00ff")), 0, 12, -1).Draw(t, "value"),
		delta:    rapid.Int64().Draw(t, "delta"),
		snapshot: rapid.Bool().Draw(t, "snapshot"),
		ahead:    rapid.Bool().Draw(t, "ahead"),
	}
	if strings.HasSuffix(o.kind, "range") {
		o.key = rapid.SampledFrom(bounds).Draw(t, "begin")
		o.end = rapid.SampledFrom(bounds).Draw(t, "end")
		if o.end != "" && o.key > o.end {
			o.key, o.end = o.end, o.key
		}
		o.limit = rapid.IntRange(0, 4).Draw(t, "limit")
		o.stop = rapid.IntRange(0, 3).Draw(t, "stop")
		o.reverse = rapid.Bool().Draw(t, "reverse")
	}
	return o
}
