// Package kvext has what conq's own engines can do beyond the contract, package kv, and functions that do without where
// an engine, or a wrapper of one, can't: signals within a process, and reads that are answered from memory without a loop. An engine of
// somebody else needs none of it. It imports kv.
package kvext

import "github.com/conq-go/conq/kv"

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
func SignalsOf(db kv.DB) *Signals {
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
func NewsOf(db kv.DB) *Signals {
	if local, ok := db.(Local); ok {
		return local.Signals()
	}
	return nil
}

// Foreign tells whether tx is known to be a transaction of another store than db: that one
// process has db for itself, and it is not tx's. It is not known where stores are shared, nor
// where a DB or a Tx that does not implement [Local] stands between.
func Foreign(db kv.DB, tx kv.Tx) bool {
	store := SignalsOf(db)
	in, ok := tx.(Local)
	return ok && store != nil && in.Signals() != store
}

// LastKey returns the last key of a range, or nil if it has none. It is a Range with
// Limit 1, Reverse and KeysOnly, errors and conflicts included; but an engine that keeps
// the ends of ranges in memory need not set up a loop for it. It does so by a method of
// its Readers, LastKey(span, among Range) ([]byte, error). The key must not be changed.
//
// Mostly LastKey will be asked for other parts of among, too, which holds span: where the
// engine has to look, it may find out about those around.
func LastKey(r kv.Reader, span, among kv.Range) ([]byte, error) {
	if r, ok := inner(r).(interface {
		LastKey(span, among kv.Range) ([]byte, error)
	}); ok {
		return r.LastKey(span, among)
	}
	return lastKey(r, span)
}

// LastKeys returns what LastKey does for each of several ranges, in order. The keys are
// appended to a slice of the caller's, which may be nil. An engine may look for all of them
// at once, by a method of its Readers, LastKeys([]kv.Range, Range, [][]byte) ([][]byte, error).
func LastKeys(r kv.Reader, spans []kv.Range, among kv.Range, to [][]byte) ([][]byte, error) {
	if r, ok := inner(r).(interface {
		LastKeys([]kv.Range, kv.Range, [][]byte) ([][]byte, error)
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

func lastKey(r kv.Reader, span kv.Range) ([]byte, error) {
	for last, err := range r.Range(span, kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}

// Known returns the pairs of a range, as Range does, if the engine has all of them in
// memory, up to the limit, of which there must be one. Otherwise known is false, nothing
// has happened, and Range will tell. An engine that has pairs in memory says so by a method
// of its Readers, Known(Range, RangeOptions, []kv.KeyValue) ([]kv.KeyValue, bool, error).
//
// The pairs are appended to a slice of the caller's, which may be nil. Their keys must not be changed.
func Known(r kv.Reader, span kv.Range, o kv.RangeOptions, to []kv.KeyValue) (pairs []kv.KeyValue, known bool, err error) {
	if r, ok := inner(r).(interface {
		Known(kv.Range, kv.RangeOptions, []kv.KeyValue) ([]kv.KeyValue, bool, error)
	}); ok && o.Limit > 0 {
		return r.Known(span, o, to)
	}
	return to, false, nil
}

// inner returns the Reader that answers r's reads, if r only passes them on.
func inner(r kv.Reader) kv.Reader {
	for {
		w, ok := r.(interface{ Unwrap() kv.Reader })
		if !ok {
			return r
		}
		r = w.Unwrap()
	}
}
