package queue

import (
	"errors"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// Errors about queues, to be tested for with errors.Is. Those about jobs are in package work, those of stores in
// package kv: an argument that is not allowed is a kv.ErrInvalid, an item that is too large a *kv.TooLargeError.
var (
	// ErrEmpty means that the queue has no item, or no job that could be leased.
	ErrEmpty = errors.New("conq: queue is empty")

	// ErrClosed means that the handle was closed. It matches kv.ErrClosed, too, which
	// alone means that the store was.
	ErrClosed = fmt.Errorf("conq: handle is closed: %w", kv.ErrClosed)

	// ErrName means a name that no queue can have. A name is 1 to MaxName bytes
	// of UTF-8 without NUL.
	ErrName = errors.New("conq: bad queue name")

	// ErrKind means that a queue of this name exists, and is of another kind.
	ErrKind = errors.New("conq: queue is of another kind")

	// ErrFormat means that the store, a queue or a dump was written by a newer version
	// of conq in a format that this one does not know. Nothing was changed.
	ErrFormat = errors.New("conq: format is newer than this program")

	// ErrCorrupt means that what is stored is not what any version of conq writes: an entry of the
	// catalogue, or something of a work queue. The error says which.
	ErrCorrupt = errors.New("conq: store is corrupt")

	// ErrDecode means that the bytes of an item are not what the queue's codec
	// reads, or that a part of them is missing. The item stays in the queue.
	ErrDecode = errors.New("conq: item does not decode")

	// ErrNoQueue means that there is no queue of a name that has to be there.
	ErrNoQueue = errors.New("conq: there is no such queue")

	// ErrDeleting means that a queue is being deleted, which takes several transactions, or was not completed: until a deletion
	// of it has ended, nothing can be added.
	ErrDeleting = errors.New("conq: queue is being deleted")

	// ErrDump means that what Load was given is not a dump, or is not all of it, or has
	// changed on its way. The error says where, and what is wrong.
	ErrDump = errors.New("conq: dump is broken")

	// ErrNotEmpty means that a queue has items, and should not.
	ErrNotEmpty = errors.New("conq: queue is not empty")
)
