package conq

import "github.com/conq-go/conq/queue"

// Errors of this package, to be tested for with errors.Is. An item that is too
// large is a *kv.TooLargeError whose What is "item"; another argument that is not
// allowed is kv.ErrInvalid. Errors of the store itself (kv.ErrConflict,
// kv.ErrCommitUnknown, kv.ErrTooOld, kv.ErrClosed and so on) are passed on.
var (
	// ErrEmpty means that the queue has no item.
	ErrEmpty = queue.ErrEmpty

	// ErrClosed means that the handle was closed. It matches kv.ErrClosed, too, which
	// alone means that the store was.
	ErrClosed = queue.ErrClosed

	// ErrName means a name that no queue can have. A name is 1 to MaxName bytes
	// of UTF-8 without NUL.
	ErrName = queue.ErrName

	// ErrKind means that a queue of this name exists, and is of another kind.
	ErrKind = queue.ErrKind

	// ErrFormat means that the store, a queue or a dump was written by a newer version
	// of conq in a format that this one does not know. Nothing was changed.
	ErrFormat = queue.ErrFormat

	// ErrCorrupt means that an entry of the catalogue is not what any version of
	// conq writes.
	ErrCorrupt = queue.ErrCorrupt

	// ErrDecode means that the bytes of an item are not what the queue's codec
	// reads, or that a part of them is missing. The item stays in the queue.
	ErrDecode = queue.ErrDecode

	// ErrNoQueue means that there is no queue of a name that has to be there.
	ErrNoQueue = queue.ErrNoQueue

	// ErrDeleting means that a queue is being deleted, which takes several transactions, or was not completed: until a deletion
	// of it has ended, nothing can be added.
	ErrDeleting = queue.ErrDeleting

	// ErrDump means that what Load was given is not a dump, or is not all of it, or has
	// changed on its way. The error says where, and what is wrong.
	ErrDump = queue.ErrDump

	// ErrNotEmpty means that a queue has items, and should not.
	ErrNotEmpty = queue.ErrNotEmpty
)
