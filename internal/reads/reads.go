// Package reads is for what is read for long: read transactions that begin anew when they have become too old, lists a page at a
// time, and readers that return nothing for ever. It imports the contract alone.
package reads

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// Errors for arguments that are missing.
var (
	ErrNoDB    = fmt.Errorf("conq: no store: db is nil: %w", kv.ErrInvalid)
	ErrContext = fmt.Errorf("conq: ctx is nil: %w", kv.ErrInvalid)
)

// TooOld tells whether a read should go on in a new transaction.
func TooOld(err error) bool { return errors.Is(err, kv.ErrTooOld) }

// View runs f in a read transaction, and a few times more if that was too old.
func View(ctx context.Context, db kv.DB, f func(kv.Reader) error) (err error) {
	if ctx == nil {
		return ErrContext
	}
	if db == nil {
		return ErrNoDB
	}
	for range 1 + kv.MaxTooOld {
		if err = db.ReadTransact(ctx, f); !TooOld(err) {
			break
		}
	}
	return err
}

// Each calls f with the pairs of r.
func Each(rd kv.Reader, r kv.Range, f func(kv.Reader, kv.KeyValue) error) error {
	return each(rd, r, kv.RangeOptions{}, f)
}

// Count counts the pairs of r, by their keys alone.
func Count(rd kv.Reader, r kv.Range) (n int, err error) {
	err = each(rd, r, keysOnly, func(kv.Reader, kv.KeyValue) error { n++; return nil })
	return n, err
}

var keysOnly = kv.RangeOptions{KeysOnly: true}

func each(rd kv.Reader, r kv.Range, o kv.RangeOptions, f func(kv.Reader, kv.KeyValue) error) error {
	for item, err := range rd.Range(r, o) {
		if err != nil {
			return err
		}
		if err := f(rd, item); err != nil {
			return err
		}
	}
	return nil
}

// Scan calls f with the pairs of r on one snapshot unless that takes longer than the
// engine allows. Then it goes on in a new one, behind the last pair that f took.
func Scan(ctx context.Context, db kv.DB, r kv.Range, f func(kv.Reader, kv.KeyValue) error) error {
	return scan(ctx, db, r, kv.RangeOptions{}, f)
}

// ScanCount counts the pairs of r, by their keys alone, as Scan reads them: nothing is counted twice.
func ScanCount(ctx context.Context, db kv.DB, r kv.Range) (n int, err error) {
	err = scan(ctx, db, r, keysOnly, func(kv.Reader, kv.KeyValue) error { n++; return nil })
	return n, err
}

func scan(ctx context.Context, db kv.DB, r kv.Range, o kv.RangeOptions, f func(kv.Reader, kv.KeyValue) error) error {
	for last := []byte(nil); ; {
		moved := false
		err := View(ctx, db, func(rd kv.Reader) error {
			if last != nil {
				r.Begin = kv.After(last)
			}
			return each(rd, r, o, func(rd kv.Reader, item kv.KeyValue) error {
				if err := f(rd, item); err != nil {
					return err
				}
				last, moved = item.Key, true
				return nil
			})
		})
		if !TooOld(err) || !moved {
			return err
		}
	}
}
