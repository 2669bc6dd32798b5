package layout

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// Formats that this version writes and knows.
const (
	StoreFormat = 1
	QueueFormat = 1
)

// Known tells whether this version knows a kind of queues.
func Known(k queue.Kind) bool { return HasItems(k) || k == queue.KindWorkQueue }

// HasItems tells whether it is a kind whose items lie as package recipe has them.
func HasItems(k queue.Kind) bool { return k == queue.KindQueue || k == queue.KindPriorityQueue }

// Info is an entry of the catalogue.
type Info struct {
	Name   string
	Kind   queue.Kind
	Format int // of the queue's keys and values; 1 is the only one yet

	// Deleting tells that a deletion of the queue has begun, and not ended: it takes several transactions, or its process has
	// died. Nothing can be added, and a further deletion completes it.
	Deleting bool
}

// Enter enters a queue in the catalogue of a store.
func Enter(tx kv.Tx, name string, kind queue.Kind) {
	tx.Set(FormatKey(), tuple.AppendInt(nil, StoreFormat))
	tx.Set(EntryKey(name), entryValue(kind))
}

// CheckReadable returns an error if this version can't read the queue.
func (i Info) CheckReadable() error {
	if i.Format > QueueFormat {
		return fmt.Errorf("%w: queue %q has format %d, this version of conq knows up to %d",
			queue.ErrFormat, i.Name, i.Format, QueueFormat)
	}
	if !Known(i.Kind) {
		return fmt.Errorf("%w: queue %q is a %.200q, which this version of conq does not know",
			queue.ErrFormat, i.Name, string(i.Kind))
	}
	return nil
}

// check is CheckReadable for who wants to use the queue as kind, and to add to it.
func (i Info) check(kind queue.Kind) error {
	switch {
	case i.Kind != kind:
		return fmt.Errorf("%w: %q is a %s, not a %s", queue.ErrKind, i.Name, i.Kind, kind)
	case i.Deleting:
		return fmt.Errorf("%w: %q", queue.ErrDeleting, i.Name)
	}
	return i.CheckReadable()
}

// CheckEntry tells whether store and catalogue are as Enter leaves them, and
// returns an error if the queue can't be opened as kind.
func CheckEntry(r kv.Reader, name string, kind queue.Kind) (known bool, err error) {
	format, err := ReadFormat(r)
	if err != nil {
		return false, err
	}
	info, found, err := ReadEntry(r, name)
	if err != nil || !found {
		return false, err
	}
	return format == StoreFormat, info.check(kind)
}

// ReadFormat returns the format of the store, or 0 in a new one.
func ReadFormat(r kv.Reader) (int, error) {
	value, err := r.Get(FormatKey())
	if err != nil || value == nil {
		return 0, err
	}
	format, rest, err := parseFormat(value)
	if err == nil && format == 1 && len(rest) > 0 {
		err = errors.New("there is more behind the format")
	}
	if err != nil {
		return 0, fmt.Errorf("%w: store format %.40x: %w", queue.ErrCorrupt, value, err)
	}
	if format > StoreFormat {
		return 0, fmt.Errorf("%w: store has format %d, this version of conq knows up to %d",
			queue.ErrFormat, format, StoreFormat)
	}
	return format, nil
}

func ReadEntry(r kv.Reader, name string) (Info, bool, error) {
	key := EntryKey(name)
	value, err := r.Get(key)
	if err != nil || value == nil {
		return Info{}, false, err
	}
	info, err := ParseEntry(kv.KeyValue{Key: key, Value: value})
	return info, err == nil, err
}

func ParseEntry(entry kv.KeyValue) (Info, error) {
	info, err := UnpackEntry(entry)
	if err != nil {
		return Info{}, fmt.Errorf("%w: entry at key %.200x with value %.40x: %w", queue.ErrCorrupt, entry.Key, entry.Value, err)
	}
	return info, nil
}

func UnpackEntry(entry kv.KeyValue) (info Info, err error) {
	elems, err := Entries().Unpack(entry.Key)
	if err != nil {
		return info, err
	}
	if len(elems) != 1 {
		return info, fmt.Errorf("key has %d elements, not 1", len(elems))
	}
	info.Name, _ = elems[0].(string)
	if err := CheckName(info.Name); err != nil {
		return info, err
	}
	kind, rest, err := tuple.Next(entry.Value)
	if err != nil {
		return info, err
	}
	text, ok := kind.(string)
	if !ok || text == "" {
		return info, errors.New("kind is not a string")
	}
	info.Kind = known(queue.Kind(text))
	info.Format, rest, err = parseFormat(rest)
	if err == nil && info.Format == 1 && len(rest) > 0 {
		info.Deleting = string(rest) == string(tuple.AppendInt(nil, 1))
		if !info.Deleting {
			err = errors.New("what is behind the format is not 1, which says that the queue is being deleted")
		}
	}
	return info, err
}

// known returns a kind as this program has it, so that many entries share it.
func known(kind queue.Kind) queue.Kind {
	for _, k := range []queue.Kind{queue.KindQueue, queue.KindPriorityQueue, queue.KindWorkQueue} {
		if k == kind {
			return k
		}
	}
	return kind
}

// parseFormat reads a format number, and returns what is behind it. A newer format may put more there.
func parseFormat(b []byte) (format int, rest []byte, err error) {
	elem, rest, err := tuple.Next(b)
	if err != nil {
		return 0, nil, err
	}
	n, ok := elem.(int64)
	if !ok || n < 1 || int64(int(n)) != n {
		return 0, nil, fmt.Errorf("format is %v, not a positive integer", elem)
	}
	return int(n), rest, nil
}

// CheckName returns the error for a name that no queue can have, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", queue.ErrName)
	case len(name) > queue.MaxName:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", queue.ErrName, len(name), queue.MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not UTF-8", queue.ErrName, name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: %q has a NUL byte", queue.ErrName, name)
	}
	return nil
}
