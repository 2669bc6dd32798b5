package kv

// Lazily tells the engine, before the first read of a transaction, that it reads in one
// place and is over soon, as one dequeue is. An engine may then spare itself what keeps
// later reads at the version of the first: if the store changes between two reads of
// the transaction, and what the first has seen with it, snapshot reads included, the second
// may fail with [ErrConflict]. What [LastKey] has returned through a snapshot is not of that:
// the transaction may go on at a later version. In [DB.Transact] a few such attempts are followed by
// ones that are not lazy; who reads lazily in [DB.ReadTransact] tries again himself, without
// Lazily.
//
// It also promises that r, a Tx or the Reader of a ReadTransact, and any other Reader of it,
// is not used after the function that got it has returned: the engine may use it again, for
// another transaction.
//
// Engines to whom it makes no difference ignore it.
func Lazily(r Reader) {
	if r, ok := r.(interface{ Lazily() }); ok {
		r.Lazily()
	}
}
