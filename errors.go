package conq

import (
	"context"
	"errors"

	"github.com/conq-go/conq/errs"
	"github.com/conq-go/conq/kv"
)

// Errors of this package, to be tested for with errors.Is. An item that is too
// large is a *kv.TooLargeError whose What is "item". Errors of the store itself
// (kv.ErrConflict, kv.ErrCommitUnknown, kv.ErrTooOld, kv.ErrClosed and so on)
// are passed on.
var (
	// ErrEmpty means that the queue has no item.
	ErrEmpty = errs.ErrEmpty

	// ErrClosed means that the handle was closed. It matches kv.ErrClosed, too, which
	// alone means that the store was.
	ErrClosed = errs.ErrClosed

	// ErrName means a name that no queue can have. A name is 1 to MaxName bytes
	// of UTF-8 without NUL.
	ErrName = errs.ErrName

	// ErrKind means that a queue of this name exists, and is of another kind.
	ErrKind = errs.ErrKind

	// ErrFormat means that the store, a queue or a dump was written by a newer version
	// of conq in a format that this one does not know. Nothing was changed.
	ErrFormat = errs.ErrFormat

	// ErrCorrupt means that an entry of the catalogue is not what any version of
	// conq writes.
	ErrCorrupt = errs.ErrCorrupt

	// ErrDecode means that the bytes of an item are not what the queue's codec
	// reads, or that a part of them is missing. The item stays in the queue.
	ErrDecode = errs.ErrDecode

	// ErrNoQueue means that there is no queue of a name that has to be there.
	ErrNoQueue = errs.ErrNoQueue

	// ErrDump means that what Load was given is not a dump, or is not all of it, or has
	// changed on its way. The error says where, and what is wrong.
	ErrDump = errs.ErrDump

	// ErrNotEmpty means that a queue has items, and should not.
	ErrNotEmpty = errs.ErrNotEmpty
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
