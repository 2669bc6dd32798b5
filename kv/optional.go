package kv

// What this file holds is optional for an engine: methods that its DB, Tx and Readers
// may have beside those of the contract. A wrapper of an engine passes them on, or loses
// speed only. Each has a function here that does without where the method is missing:
//
//	Lazily()                                of a Reader; Lazily
//	Prefetch(reads)                         of a Reader; Prefetch
//	NoSync()                                of a Tx; NoSync
//	Health(ctx)                             of a DB; HealthOf
//	Syncs() Syncs                           of a DB; SyncsOf
//	Persist()                               of a DB; Persist

// Lazily tells the engine, before the first read of a transaction, that it reads in one
// place and is over soon, as one dequeue is. An engine may then not keep later reads at the
// version of the first: if the store changes between two reads of the transaction, and what
// the first has seen with it, the second may fail with [ErrConflict], snapshot reads included. In [DB.Transact] a
// few such attempts are followed by ones that are not lazy; a function of [DB.ReadTransact]
// has to be tried again without Lazily.
//
// It also promises that r, a Tx or the Reader of a ReadTransact, and any other Reader of it,
// is not used after the function that got it has returned: the engine may use it again, for
// another transaction.
//
// Engines to which it makes no difference ignore it.
func Lazily(r Reader) {
	if r, ok := r.(interface{ Lazily() }); ok {
		r.Lazily()
	}
}

// Read is a read that a transaction is about to make: a Get of Key, or if that is nil, a Range.
type Read struct {
	Key     []byte
	Range   Range
	Options RangeOptions
}

// Prefetch tells the engine which reads a transaction is about to make beside the next one, so that it
// may ask for all of them at once: over a network they take as long as one, then. What they return,
// and what they conflict on, is the same, and a read that is not made after all conflicts with
// nothing. Prefetch counts as a read as far as the transaction's version is concerned.
//
// Engines that have a use for it have a method of their Readers, Prefetch([]Read), which copies what
// it needs. Others, and reads that are not valid, are left alone.
func Prefetch(r Reader, reads ...Read) {
	if r, ok := r.(interface{ Prefetch([]Read) }); ok {
		r.Prefetch(reads)
	}
}

// NoSync tells the engine that Transact need not wait for the disk on account of what tx writes. When it returns the death of the process can't undo
// that, but for some 10 ms a power failure can. What tx has read, but not through a snapshot, and what it has
// written if another one reads it that is not NoSync, are as durable when Transact returns as ever.
//
// It may be called at any time in the transaction. Engines of which the commits are safer anyway, or that promise no more in the first place,
// ignore it.
func NoSync(tx Tx) {
	if tx, ok := tx.(interface{ NoSync() }); ok {
		tx.NoSync()
	}
}

// Persist has transactions of db wait for a store that does not answer for as long as their contexts last, rather than fail with
// ErrUnavailable. It is for programs that are to outlive any outage. It may be called at any time.
func Persist(db DB) {
	if p, ok := db.(interface{ Persist() }); ok {
		p.Persist()
	}
}
