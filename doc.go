// Package conq is durable, transactional FIFO queues and double-ended priority
// queues, shared by many goroutines at once, and by many processes where the
// store allows it. They are FoundationDB's "Queues" and "Priority Queues" recipes
// on any ordered store with transactions: one directory on disk, or a cluster.
//
// # Basics
//
// [Open] opens a store, a [kv.DB]: a directory, or the URL of another engine.
// [OpenQueue] opens a [Queue] of a name in it, [OpenPriorityQueue] a
// [PriorityQueue]; a [Codec] says how values are stored: [Bytes], [String],
// [JSON], [Tuple], or one of your own.
//
//	db, err := conq.Open(ctx, "data")
//	q, err := conq.OpenQueue(ctx, db, "emails", conq.JSON[Email]())
//	err = q.Enqueue(ctx, Email{To: "a@example.org"})
//	email, err := q.Dequeue(ctx) // ErrEmpty if there is none
//
// Methods of a queue run in a transaction of their own. In gives the same methods
// as a part of yours: here an item moves from one queue to another, or stays.
//
//	err = db.Transact(ctx, func(tx kv.Tx) error {
//		email, err := q.In(tx).Dequeue()
//		if err != nil {
//			return err
//		}
//		return p.In(tx).Push(email, 1)
//	})
//
// When a method returns without an error, what it did is as durable as the engine
// promises: with the embedded store, unless told otherwise, on disk. An error
// other than kv.ErrCommitUnknown means that nothing was changed. That one means
// that it may have been, or not: a cluster gives it only when ctx ended before the
// outcome was known, the embedded store only when writing to disk has failed, and
// it has to be opened again. Calls that share a transaction get it, too, if a codec or
// Options.Observe panics in one of them.
//
// # Many clients
//
// Handles are made to be shared: calls that are made while a transaction of the
// handle is under way share the next one. Consumers in many processes, which can't,
// write requests that one of them serves for all ([Staging]). [Queue.DequeueWait]
// and its kin wait for items without polling. [Options] has the choices, and
// docs/internals/concurrency.md how it works.
//
// # Caveats
//
//   - The function given to Transact runs again after a conflict. Do in it nothing
//     that can't be repeated, or do it in kv.Tx.OnCommit; and return the errors of
//     reads from it.
//   - An item is gone once its Dequeue or Pop has returned. A consumer that fails
//     after that has lost it, unless its work is in the same transaction.
//   - What goes through In is not combined: there, consumers of one queue want the
//     same item, so their transactions conflict and run again.
//   - The item of a consumer that dies while it takes it by staging comes back to
//     its place after some seconds; until then it is missing. A program that takes only
//     through In calls [Queue.Reclaim] for that.
//   - Len and All read the whole queue. When that takes longer than the engine
//     allows for one snapshot, they go on with a later one.
//   - The body of a loop over All may see an item before it is durable; its
//     Enqueue has not returned then. What another method returned is durable.
//   - A name belongs to a kind of queue for good: Clear removes items, not the
//     entry in the catalogue. The codec is not stored; two handles with different
//     codecs will see ErrDecode.
//   - An item is at most half as large as a transaction of the engine may be: 32 MiB
//     in the embedded store.
//
// # Key space
//
// The items of queue NAME are at (NAME, index, random), those of a priority queue
// at (NAME, priority, count, random), in FoundationDB's tuple encoding, as the
// recipes have it: a Python or Java program that follows them shares the queue.
// A payload over the engine's limit for values has its number of pieces as one
// more element of its key, and its further pieces, like the catalogue and the
// format of the store, behind a byte string that is no name. A newer format is
// refused by its number.
//
// # Ownership
//
// Values are encoded before a method returns and may be changed afterwards. What
// methods return belongs to the caller.
package conq
