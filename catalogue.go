package conq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// MaxName is the length of the longest name of a queue, in bytes.
const MaxName = 1024

// Formats that this version writes and knows.
const (
	storeFormat = 1
	queueFormat = 1
)

// openTimeout bounds how long OpenQueue and OpenPriorityQueue take, as they have
// no context.
const openTimeout = 30 * time.Second

// Kind is what kind of queue a name stands for.
type Kind string

// The kinds of queues.
const (
	KindQueue         Kind = "queue"
	KindPriorityQueue Kind = "priority queue"
)

// Info is an entry of the catalogue.
type Info struct {
	Name   string
	Kind   Kind
	Format int // of the queue's keys and values; 1 is the only one yet
}

// Queues returns the queues of a store, by name. They are those that were opened
// at least once; an item that another program wrote under a name that was never
// opened here does not count.
//
// It reads one snapshot unless that takes longer than the engine allows; then it
// goes on behind the last name that it has read. A queue of a newer format, or of
// a kind that this version does not know, is among them. An entry that can't be
// read is an ErrCorrupt that names it; a store of a newer format, an ErrFormat.
func Queues(ctx context.Context, db kv.DB) ([]Info, error) {
	if err := checkStore(ctx, db); err != nil {
		return nil, err
	}
	var infos []Info
	err := scan(ctx, db, catalogue().Range(), func(_ kv.Reader, entry kv.KeyValue) error {
		info, err := parseEntry(entry)
		infos = append(infos, info)
		return err
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// Lookup returns the entry of one queue, and whether there is one. It does not
// make one. The error is an ErrName, an ErrCorrupt if the entry can't be read, or an
// ErrFormat if the store has a newer format. A queue of a newer format is no error.
func Lookup(ctx context.Context, db kv.DB, name string) (Info, bool, error) {
	if err := checkName(name); err != nil {
		return Info{}, false, err
	}
	if err := checkStore(ctx, db); err != nil {
		return Info{}, false, err
	}
	var info Info
	var found bool
	err := view(ctx, db, func(r kv.Reader) (err error) {
		info, found, err = readEntry(r, name)
		return err
	})
	return info, found, err
}

// checkStore returns an error if this version can't read the store.
func checkStore(ctx context.Context, db kv.DB) error {
	return view(ctx, db, func(r kv.Reader) error {
		_, err := readFormat(r)
		return err
	})
}

// register makes sure that the catalogue has the queue as kind.
func register(ctx context.Context, db kv.DB, name string, kind Kind) error {
	var known bool
	err := view(ctx, db, func(r kv.Reader) (err error) {
		known, err = checkEntry(r, name, kind)
		return err
	})
	if err != nil || known {
		return err
	}
	enter := func(tx kv.Tx) error {
		known, err := checkEntry(tx, name, kind)
		if err != nil || known {
			return err
		}
		tx.Set(formatKey(), tuple.AppendInt(nil, storeFormat))
		tx.Set(entryKey(name), tuple.AppendInt(tuple.AppendString(nil, string(kind)), queueFormat))
		return nil
	}
	for { // it looks before it writes, so it may run again after an unknown commit
		if err := db.Transact(ctx, enter); !isUnknown(err) || ctx.Err() != nil {
			return err
		}
	}
}

// opening returns the context in which a queue is opened, for all that it takes.
func opening(name string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), openTimeout,
		timeoutError(fmt.Sprintf("conq: opening queue %q took longer than %v", name, openTimeout)))
}

// checkEntry tells whether store and catalogue are as register leaves them, and
// returns an error if the queue can't be opened as kind.
func checkEntry(r kv.Reader, name string, kind Kind) (known bool, err error) {
	format, err := readFormat(r)
	if err != nil {
		return false, err
	}
	info, found, err := readEntry(r, name)
	switch {
	case err != nil || !found:
		return false, err
	case info.Kind != kind:
		return false, fmt.Errorf("%w: %q is a %s, not a %s", ErrKind, name, info.Kind, kind)
	case info.Format > queueFormat:
		return false, fmt.Errorf("%w: queue %q has format %d, this version of conq knows up to %d",
			ErrFormat, name, info.Format, queueFormat)
	}
	return format == storeFormat, nil
}

// readFormat returns the format of the store, or 0 in a new one.
func readFormat(r kv.Reader) (int, error) {
	value, err := r.Get(formatKey())
	if err != nil || value == nil {
		return 0, err
	}
	format, err := parseFormat(value)
	if err != nil {
		return 0, fmt.Errorf("%w: store format %.40x: %w", ErrCorrupt, value, err)
	}
	if format > storeFormat {
		return 0, fmt.Errorf("%w: store has format %d, this version of conq knows up to %d",
			ErrFormat, format, storeFormat)
	}
	return format, nil
}

func readEntry(r kv.Reader, name string) (Info, bool, error) {
	key := entryKey(name)
	value, err := r.Get(key)
	if err != nil || value == nil {
		return Info{}, false, err
	}
	info, err := parseEntry(kv.KeyValue{Key: key, Value: value})
	return info, err == nil, err
}

func parseEntry(entry kv.KeyValue) (Info, error) {
	info, err := unpackEntry(entry)
	if err != nil {
		return Info{}, fmt.Errorf("%w: entry at key %.200x with value %.40x: %w", ErrCorrupt, entry.Key, entry.Value, err)
	}
	return info, nil
}

func unpackEntry(entry kv.KeyValue) (info Info, err error) {
	elems, err := catalogue().Unpack(entry.Key)
	if err != nil {
		return info, err
	}
	if len(elems) != 1 {
		return info, fmt.Errorf("key has %d elements, not 1", len(elems))
	}
	info.Name, _ = elems[0].(string)
	if err := checkName(info.Name); err != nil {
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
	info.Kind = Kind(text)
	info.Format, err = parseFormat(rest)
	return info, err
}

// parseFormat reads a format number. A newer format may put more behind it.
func parseFormat(b []byte) (int, error) {
	elem, rest, err := tuple.Next(b)
	if err != nil {
		return 0, err
	}
	format, ok := elem.(int64)
	if !ok || format < 1 || int64(int(format)) != format {
		return 0, fmt.Errorf("format is %v, not a positive integer", elem)
	}
	if format == 1 && len(rest) > 0 {
		return 0, errors.New("there is more behind the format")
	}
	return int(format), nil
}

// checkName returns the error for a name that no queue can have, or nil.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: %q has a NUL byte", ErrName, name)
	}
	return nil
}
