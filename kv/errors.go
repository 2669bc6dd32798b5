package kv

import (
	"errors"
	"fmt"
)

var (
	// ErrConflict means that another transaction wrote what this one read. It
	// reaches a caller of Transact only together with the reason for which it
	// was not tried again.
	ErrConflict = errors.New("kv: transaction conflicts with another one")

	// ErrCommitUnknown means that the transaction may or may not have been
	// committed, and may even be committed later. [TransactOnce] finds out.
	ErrCommitUnknown = errors.New("kv: unknown whether the transaction was committed")

	// ErrTooLarge means that a key, a value or a transaction exceeds the limits
	// of the engine. Nothing was written. The error is a *TooLargeError.
	ErrTooLarge = errors.New("kv: too large")

	// ErrTooOld means that the transaction has lasted longer than Limits.Age, or
	// that its version is no longer kept. Nothing was written.
	ErrTooOld = errors.New("kv: transaction is too old")

	// ErrClosed means that the store, or the transaction, has ended.
	ErrClosed = errors.New("kv: closed")

	// ErrUnavailable means that the store has not answered for as long as it was tried, as most of the members of a cluster are
	// down. Nothing was written, unless the error is an ErrCommitUnknown, too: it can be tried again.
	ErrUnavailable = errors.New("kv: store does not answer")

	// ErrReadOnly means that the store was opened for, or allows only, reading.
	ErrReadOnly = errors.New("kv: store is read-only")

	// ErrFull means that a store takes nothing more, as its disk is full: it has no space, or no inodes. Nothing was written.
	ErrFull = errors.New("free some space, or inodes if those are used up, and try again")

	// ErrFailed means that the store has failed, as its disk did, and must be opened again.
	ErrFailed = errors.New("kv: store has failed and must be opened again")

	// ErrInvalid means an argument that no engine takes: an empty key, a key
	// that begins with 0xff, a range that ends before it begins, a negative
	// limit, a nil context or function. Nothing was written.
	ErrInvalid = errors.New("invalid argument")
)

// TooLargeError says what was too large. errors.Is matches it with ErrTooLarge.
type TooLargeError struct {
	What        string // "key", "value", "transaction", or what a higher layer names
	Size, Limit int
	Unit        string // of Size and Limit: "bytes" or "operations"
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("kv: %s of %d %s is over the limit of %d", e.What, e.Size, e.Unit, e.Limit)
}

// Is tells that this is an ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
