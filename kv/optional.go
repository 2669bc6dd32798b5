package kv

// What this file holds is optional for an engine: methods that its DB, Tx and Readers
// may have beside those of the contract. A wrapper of an engine passes them on, or loses
// speed only. Each has a function here that does without where the method is missing:
//
//	Signals() *Signals                      of a DB and its Txs; SignalsOf, NewsOf, Foreign
//	Lazily()                                of a Reader; Lazily
//	LastKey(span, among)                    of a Reader; LastKey
//	LastKeys(spans, among, to)              of a Reader; LastKeys
//	Known(span, options, to)                of a Reader; Known
//	Prefetch(reads)                         of a Reader; Prefetch
//	NoSync()                                of a Tx; NoSync
//	Health(ctx)                             of a DB; HealthOf
//	Syncs() Syncs                           of a DB; SyncsOf
//	Persist()                               of a DB; Persist

// Local is implemented by engines, and where one process has the store for itself by their
// transactions. Users of one DB can tell each other in memory that something has
// changed, which costs less than a key that is written and watched.
type Local interface {
	// Signals returns the signals of the DB, the same each time, or nil if
	// there are none.
	Signals() *Signals
}

// SignalsOf returns the signals of a store, or nil if it has none: then its
// users may be in several processes, or a commit may happen that nobody is told
// of, and they have to watch a key.
func SignalsOf(db DB) *Signals {
	signals := NewsOf(db)
	if signals == nil {
		return nil
	}
	if l := db.Limits(); l.Shared || l.UnknownCommits {
		return nil
	}
	return signals
}

// NewsOf returns the signals of db, or nil if it has none: users of db itself can be woken by
// them, and others, who may be in other processes, have to watch a key besides.
func NewsOf(db DB) *Signals {
	if local, ok := db.(Local); ok {
		return local.Signals()
	}
	return nil
}

// Foreign tells whether tx is known to be a transaction of another store than db: that one
// process has db for itself, and it is not tx's. It is not known where stores are shared, nor
// where a DB or a Tx that does not implement [Local] stands between.
func Foreign(db DB, tx Tx) bool {
	store := SignalsOf(db)
	in, ok := tx.(Local)
	return ok && store != nil && in.Signals() != store
}

// Lazily tells the engine, before the first read of a transaction, that it reads in one
// place and is over soon, as one dequeue is. An engine may then not keep later reads at the
// version of the first: if the store changes between two reads of the transaction, and what
// the first has seen with it, the second may fail with [ErrConflict], snapshot reads included.
// After [LastKey] through a snapshot it goes on at a later version instead. In [DB.Transact] a
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

// LastKey returns the last key of a range, or nil if it has none. It is a Range with
// Limit 1, Reverse and KeysOnly, errors and conflicts included; but an engine that keeps
// the ends of ranges in memory need not set up a loop for it. It does so by a method of
// its Readers, LastKey(span, among Range) ([]byte, error). The key must not be changed.
//
// Mostly LastKey will be asked for other parts of among, too, which holds span: where the
// engine has to look, it may find out about those around.
func LastKey(r Reader, span, among Range) ([]byte, error) {
	if r, ok := r.(interface {
		LastKey(span, among Range) ([]byte, error)
	}); ok {
		return r.LastKey(span, among)
	}
	return lastKey(r, span)
}

// LastKeys returns what LastKey does for each of several ranges, in order. The keys are
// appended to a slice of the caller's, which may be nil. An engine may look for all of them
// at once, by a method of its Readers, LastKeys([]Range, Range, [][]byte) ([][]byte, error).
func LastKeys(r Reader, spans []Range, among Range, to [][]byte) ([][]byte, error) {
	if r, ok := r.(interface {
		LastKeys([]Range, Range, [][]byte) ([][]byte, error)
	}); ok {
		return r.LastKeys(spans, among, to)
	}
	for _, span := range spans {
		key, err := LastKey(r, span, among)
		if err != nil {
			return nil, err
		}
		to = append(to, key)
	}
	return to, nil
}

func lastKey(r Reader, span Range) ([]byte, error) {
	for last, err := range r.Range(span, RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}

// Known returns the pairs of a range, as Range does, if the engine has all of them in
// memory, up to the limit, of which there must be one. Otherwise known is false, nothing
// has happened, and Range will tell. An engine that has pairs in memory says so by a method
// of its Readers, Known(Range, RangeOptions, []KeyValue) ([]KeyValue, bool, error).
//
// The pairs are appended to a slice of the caller's, which may be nil. Their keys must not be changed.
func Known(r Reader, span Range, o RangeOptions, to []KeyValue) (pairs []KeyValue, known bool, err error) {
	if r, ok := r.(interface {
		Known(Range, RangeOptions, []KeyValue) ([]KeyValue, bool, error)
	}); ok && o.Limit > 0 {
		return r.Known(span, o, to)
	}
	return to, false, nil
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
