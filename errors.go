package conq

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// Errors of this package, to be tested for with errors.Is. An item that is too
// large is a *kv.TooLargeError whose What is "item". Errors of the store itself
// (kv.ErrConflict, kv.ErrCommitUnknown, kv.ErrTooOld, kv.ErrClosed and so on)
// are passed on.
var (
	// ErrEmpty means that the queue has no item.
	ErrEmpty = errors.New("conq: queue is empty")

	// ErrClosed means that the handle was closed. It matches kv.ErrClosed, too, which
	// alone means that the store was.
	ErrClosed = fmt.Errorf("conq: handle is closed: %w", kv.ErrClosed)

	// ErrName means a name that no queue can have. A name is 1 to MaxName bytes
	// of UTF-8 without NUL.
	ErrName = errors.New("conq: bad queue name")

	// ErrKind means that a queue of this name exists, and is of another kind.
	ErrKind = errors.New("conq: queue is of another kind")

	// ErrFormat means that the store, or a queue, was written by a newer version
	// of conq in a format that this one does not know. Nothing was changed.
	ErrFormat = errors.New("conq: format is newer than this program")

	// ErrCorrupt means that an entry of the catalogue is not what any version of
	// conq writes.
	ErrCorrupt = errors.New("conq: catalogue is corrupt")

	// ErrDecode means that the bytes of an item are not what the queue's codec
	// reads, or that a part of them is missing. The item stays in the queue.
	ErrDecode = errors.New("conq: item does not decode")
)

var (
	errUnopened = errors.New("conq: queue was not opened: use OpenQueue or OpenPriorityQueue")
	errNoTx     = errors.New("conq: In was given no transaction")
	errNoDB     = errors.New("conq: no store: db is nil")
	errContext  = errors.New("conq: ctx is nil")
)

// timeoutError says what took too long where the caller has given no context. It matches
// context.DeadlineExceeded.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout tells, as net.Error does, that this is one.
func (timeoutError) Timeout() bool { return true }

// isTooOld tells whether a read should go on in a new transaction.
func isTooOld(err error) bool { return errors.Is(err, kv.ErrTooOld) }
