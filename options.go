package conq

import (
	"io"
	"log/slog"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/queue"
)

// Options are the options of a handle. The zero value is the default. None is
// stored: handles of one queue may differ.
type Options struct {
	// FIFOTies makes what pops and looks at [Max] take, among items of the highest
	// priority, the one that was pushed first. Without it they take the one that
	// was pushed last, which is the last key of the queue, as FoundationDB's
	// recipes do. At [Min] it is always the one that was pushed first. It means
	// nothing to a Queue. Default: false.
	FIFOTies bool

	// NoCombining has each call run in a transaction of its own. Otherwise calls
	// that are made while a transaction of the handle is under way share the next
	// one. Where commits may be unknown (kv.Limits.UnknownCommits), at most 64 of a
	// handle are under way at the same time then. Default: false.
	NoCombining bool

	// Staging says when items are taken by staged requests. Default: StagingAuto.
	Staging Staging

	// Observe is told what the handle does, in the goroutine that does it: that of a
	// caller, or one in which the handle serves staged requests of others. It must
	// be quick, safe for concurrent use, and not use the handle. It should not panic:
	// that goes to the caller whose goroutine it is, after the transaction, and what
	// that has taken may be lost; or it ends the process. Default: none, which costs nothing.
	Observe func(Event)

	// Logger is told what an operator may want to know: at level Warn that items
	// were put back which a consumer never collected, at Debug that StagingAuto
	// begins to stage. Default: nothing is logged.
	Logger *slog.Logger

	// Random is where the 20 random bytes of each key are read from. It must be
	// safe for concurrent use if the handle is used so, and must never repeat
	// itself, or items overwrite each other. A call that gets an error from it has added
	// nothing; io.ErrNoProgress if it goes on to return nothing. Default: crypto/rand.
	Random io.Reader
}

// Staging says when items are taken by staged requests: written beside the queue,
// where they conflict with nothing, and served together by one of the handles that
// have written them. That is for consumers in many processes, whose transactions would
// conflict with each other at the head of the queue.
type Staging int

const (
	// StagingAuto stages where other processes share the store, from when two
	// transactions that take items have conflicted, or another handle has staged a
	// request, until neither has happened for a while.
	StagingAuto Staging = iota
	// StagingAlways stages every request, where other processes share the store.
	StagingAlways
	// StagingNever stages none. Requests of others are served by them, and compete
	// with this handle.
	StagingNever
)

// Event is something that a handle has done.
type Event struct {
	Queue string
	Kind  EventKind

	// Calls is how many calls of the handle, or requests of any, it was for; also those
	// for which nothing was left.
	Calls int
	// Items is how many items were added, taken, or put back; for Requested, how many
	// are wanted; for Waiting, how many callers wait now, at all ends of the queue.
	Items int
	// Attempts is how often the transaction ran: one more than it met conflicts. It is 0
	// for what is neither Added nor Taken.
	Attempts int
}

// EventKind is what has been done.
type EventKind int

const (
	Added     EventKind = iota // a transaction has enqueued or pushed
	Taken                      // a transaction has dequeued or popped
	Requested                  // a staged request was written
	Fulfilled                  // a transaction has served staged requests
	Collected                  // a staged request has got its items
	Expired                    // items that a consumer never collected were put back
	Waiting                    // the number of waiting callers has changed
)

// String returns a lower-case name.
func (k EventKind) String() string { return handle.EventKind(k).String() }

// inner returns the options as package handle has them.
func (o Options) inner() handle.Options {
	h := handle.Options{
		FIFOTies: o.FIFOTies, NoCombining: o.NoCombining, Staging: handle.Staging(o.Staging), Logger: o.Logger, Random: o.Random,
	}
	if o.Observe != nil {
		h.Observe = func(e handle.Event) {
			o.Observe(Event{e.Queue, EventKind(e.Kind), e.Calls, e.Items, e.Attempts})
		}
	}
	return h
}

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
