package kv

// Lazily tells the engine, before the first read of tx, that tx reads in one place
// and is over soon, as one dequeue is. An engine may then spare itself what keeps
// later reads at the version of the first: if the store changes between two reads of
// tx, and what the first has seen with it, snapshot reads included, the second may
// fail with [ErrConflict]. Such an attempt is followed by one that is not lazy.
//
// It also promises that neither tx nor a Reader of it is used after the function that got
// tx has returned: the engine may use it again, for another transaction.
//
// Engines to whom it makes no difference ignore it.
func Lazily(tx Tx) {
	if t, ok := tx.(interface{ Lazily() }); ok {
		t.Lazily()
	}
}
