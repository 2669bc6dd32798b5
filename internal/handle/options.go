package handle

import (
	"io"
	"log/slog"
	"time"
)

// Options are the options of a handle. The zero value is the default. None is
// stored: handles of one queue may differ.
type Options struct {
	// FIFOTies has the items of the highest priority come in the order of their pushes.
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

// stagingTime is how long StagingAuto stages at least after the last reason to do so, and stagingTakes for how many takes, as long as
// the first of them has taken: long enough not to try at each turn, and short enough to find out that the others have gone.
const (
	stagingTime    = 100 * time.Millisecond
	stagingTakes   = 8
	longestStaging = 10 * time.Second
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

var eventNames = [...]string{"added", "taken", "requested", "fulfilled", "collected", "expired", "waiting"}

// String returns a lower-case name.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventNames) {
		return "unknown"
	}
	return eventNames[k]
}
