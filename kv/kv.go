// Package kv is the contract between conq's queues and the ordered key-value
// stores that hold them: strictly serializable transactions over byte keys in
// byte order. It imports the standard library only. Everything above this
// package is written against it, and every store below it ("engine") passes
// the conformance suite in kv/kvtest unchanged.
//
// # The model
//
// A [DB] holds keys and values. All access is inside a transaction:
// [DB.Transact] runs a function with a [Tx] and commits what it wrote, all or
// nothing; [DB.ReadTransact] runs one with a [Reader] and writes nothing.
//
//   - Isolation is strict serializability: committed transactions behave as if
//     each ran alone, in an order that agrees with real time. A transaction
//     that begins after another was acknowledged sees it.
//   - All reads of a transaction see the store at one version, no older than
//     the moment of its first read, overlaid with the transaction's own writes.
//     Snapshot reads do too.
//   - Concurrency is optimistic. Reads take no locks; they leave conflict
//     ranges. A transaction commits only if nothing in its read conflict ranges
//     was written by another one since the version that it read. Otherwise it
//     is run again.
//   - Writes never wait for, nor conflict with, other writes. A transaction
//     that reads nothing, or only through [Reader.Snapshot], always commits, unless
//     it is older than Limits.Age.
//   - A transaction without writes and write conflict ranges always commits,
//     unless it has a Watch and is older than that.
//
// # What a read conflicts on
//
//   - Get: that key alone, present or absent. A key that the transaction itself
//     has set or cleared (by Clear or ClearRange) does not touch the store, and
//     so does not conflict. Whether one that it set and then added to does is up
//     to the engine.
//   - Range: exactly what was covered. A loop that is left early, or ended by
//     the limit, conflicts on the part from where it began (the end of the range
//     when Reverse) to the last key that it returned, that key included. A loop
//     that ran out conflicts on the whole range, also when it returned nothing:
//     a key that appears there later is a conflict. What was covered counts at
//     the commit also if the loop was left hanging (iter.Pull). An engine may
//     leave out keys that the transaction itself has set or cleared.
//   - Through Snapshot: nothing.
//   - AddReadConflict adds a range by hand, AddWriteConflict makes other
//     readers of the range conflict without a write.
//
// Set, Clear, ClearRange and Add are writes to the keys that they name. Whether
// clearing a key that is absent counts as one is up to the engine.
//
// # Keys and values
//
// A key is 1 to Limits.Key bytes and does not begin with 0xff. A value is 0 to
// Limits.Value bytes; an empty value differs from an absent one. Arguments are
// copied before a method returns, and what is returned belongs to the caller;
// both may be changed afterwards.
//
// # Errors
//
// Reads return errors at once. Methods of a Tx that return none keep the first
// one (a key or value over the limit, a range that ends before it begins, also
// given to AddReadConflict, AddWriteConflict or Watch): the commit fails with
// it, and nothing is written. Until then the transaction goes on, but whether it
// sees what the bad write would have changed is not specified. Bad input never
// panics: with a nil context, or a nil function, a transaction fails with ErrInvalid
// and runs nothing. The function given to Transact must return the errors that it got
// from its reads (wrapped or not), so that retryable ones are seen.
//
// # Writing an engine
//
// Implement DB, Tx and Reader, pass kvtest.Run, and call [Register] in an init
// function. kv/memory is the smallest complete example.
package kv

import (
	"context"
	"iter"
	"time"
)

// DB is an open store. It is safe for concurrent use.
type DB interface {
	// Transact runs f in a transaction and commits it. It returns nil only when
	// the commit is as durable as the engine promises.
	//
	// On a conflict f runs again, with jittered backoff, until it commits or ctx
	// ends; so f may run any number of times and must have no effect outside of
	// the transaction that it can't repeat (see [Tx.OnCommit]). [ErrTooOld] is
	// retried too, but only [MaxTooOld] times, as a function that always takes
	// too long would never end.
	//
	// An error from f ends the transaction with nothing written and is returned
	// as it is, except one that matches [ErrConflict] or [ErrTooOld], which is
	// retried like that of a commit. f may also panic or end its goroutine:
	// nothing is written, and the store goes on.
	//
	// When ctx ends first, the error wraps ctx's cause and, if an attempt had
	// conflicted, [ErrConflict]; nothing was written. Once a commit has begun, ctx
	// is no longer looked at if the engine will know the outcome shortly: nil or
	// an error is then the truth. Where an engine can't know it, the error is
	// [ErrCommitUnknown] and Transact does not try again; [TransactOnce] does.
	Transact(ctx context.Context, f func(Tx) error) error

	// ReadTransact runs f with a consistent, read-only view. It leaves no
	// conflicts. It runs f once, so that f may have effects: an ErrTooOld that a
	// read returned is for f to deal with, and with [Lazily] so is an ErrConflict.
	ReadTransact(ctx context.Context, f func(Reader) error) error

	// Limits returns the engine's limits, which do not change while it is open.
	Limits() Limits

	// Close ends the store. Transactions under way, and calls that come later,
	// fail with [ErrClosed]; commits under way are finished first, but functions
	// given to Transact are not waited for, so that one may call Close. A second
	// call does nothing and returns nil.
	Close() error
}

// Reader reads a store at one version. It is valid until the function that it
// was passed to returns, and is not safe for concurrent use.
type Reader interface {
	// Get returns the value of key, or nil if it is absent. An empty value is
	// not nil.
	Get(key []byte) ([]byte, error)

	// Range returns the pairs of r in key order, or in reverse. The loop ends
	// after the first error, which comes with a zero KeyValue. The loop's body
	// may write to the transaction: a key that the loop has returned can be
	// changed or cleared freely; whether it sees what its body adds, changes or
	// clears ahead of it is not specified. A sequence can be ranged over more than once and
	// reads anew each time.
	Range(r Range, opts RangeOptions) iter.Seq2[KeyValue, error]

	// Snapshot returns a Reader of the same version and the same writes whose
	// reads do not conflict.
	Snapshot() Reader

	// Context returns the context that the transaction was started with. Reads
	// fail with its cause once it has ended.
	Context() context.Context
}

// Tx is a transaction: a Reader whose reads conflict, plus writes. It is valid
// until the function that it was passed to returns; later reads fail with
// [ErrClosed] and later writes do nothing. It is not safe for concurrent use.
type Tx interface {
	Reader

	// Set stores a value.
	Set(key, value []byte)

	// Clear removes a key. Clearing an absent key is not an error.
	Clear(key []byte)

	// ClearRange removes all keys of r.
	ClearRange(r Range)

	// Add adds delta to the little-endian two's complement 64-bit integer at
	// key without reading it, so that any number of transactions can count in
	// one key without a conflict. An absent key counts as 0; a value of another
	// length is cut off or padded with zero bytes to 8; overflow wraps around.
	// A later Get in the same transaction does read, and conflicts.
	Add(key []byte, delta int64)

	// AddReadConflict makes the transaction conflict as if it had read r in the store,
	// also where it has written to r itself.
	AddReadConflict(r Range)

	// AddWriteConflict makes others conflict as if the transaction had written
	// to r.
	AddWriteConflict(r Range)

	// Watch returns a channel that tells when key's value is no longer what this
	// transaction saw, or left there if it wrote the key. The channel is closed
	// when the value has changed; or it delivers one error, then is closed: the
	// cause of ctx once the context given to Transact ends, ErrClosed if the
	// store closes, ErrConflict if this attempt did not commit, ErrCommitUnknown
	// if it is unknown whether it did.
	// It may also tell of a change when there was none, or of one that was
	// undone since, so look again; but an engine that does so as a rule makes
	// its users busy. It never misses a change that lasts: one between this
	// transaction's version and its commit counts. It does not conflict.
	Watch(key []byte) <-chan error

	// OnCommit has f called once this attempt has committed durably, before
	// Transact returns, also if it has written nothing. f runs in the goroutine
	// of Transact, may run other transactions, and sees this one. Functions run in the
	// order in which they were added; if one panics or ends its goroutine, those behind
	// it run all the same, and that goes on to the caller. They are the place for effects
	// outside of the store. A nil f is ignored.
	OnCommit(f func())
}

// KeyValue is a stored pair.
type KeyValue struct {
	Key, Value []byte
}

// Range is the keys from Begin on, up to and not including End. An empty Begin
// is the first key of the store; an empty End is behind its last key.
type Range struct {
	Begin, End []byte
}

// RangeOptions says how a range is read. The zero value reads all of it,
// forwards.
type RangeOptions struct {
	// Limit is the number of pairs to return at most. It also tells the engine
	// how much to fetch. Negative is an error. Default: 0, no limit.
	Limit int

	// Reverse returns the last key first. Default: false.
	Reverse bool

	// KeysOnly says that the values will not be looked at: an engine may spare
	// itself to fetch them, and then they are whatever comes easily. Default: false.
	KeysOnly bool
}

// Limits says what an engine can take. Sizes are in bytes.
type Limits struct {
	// Key is the largest key.
	Key int
	// Value is the largest value.
	Value int
	// Transaction is the largest transaction: the sum of the sizes of the keys
	// and values that it sets. What else it writes counts too: a Clear with its
	// key, a ClearRange with its bounds, an Add with its key and 8 bytes.
	Transaction int
	// Operations is the largest number of writes, and reads that conflict, in one
	// transaction that writes, or 0 when there is no such limit. A single key counts once,
	// however often it is read and written; of reads there may be one fewer.
	Operations int
	// Age is how long after its first read a transaction may read, and commit
	// what it wrote, before both fail with ErrTooOld, or 0 when there is no such
	// limit. One that only reads, or only writes, may commit at any age if it has
	// no Watch: that counts as a read, as what has changed since has to be known.
	Age time.Duration
	// Shared tells that other processes may write to the store at the same time.
	Shared bool
	// UnknownCommits tells that Transact may return ErrCommitUnknown from a store
	// that goes on working, as there is a network in between. Where it is false,
	// a store that returns it has failed for good. See [Once].
	UnknownCommits bool
}

// MaxTooOld is how often Transact runs a function again because its
// transaction was too old.
const MaxTooOld = 2
