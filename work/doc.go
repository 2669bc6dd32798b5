// Package work is queues of jobs: items that are leased to a worker rather than taken,
// and come back when the worker dies.
//
//	q, err := work.Open(db, "emails", conq.JSON[Email](), work.Options{Lease: 30 * time.Second})
//	id, err := q.Put(ctx, Email{To: "a@b"}, work.Job{Priority: 5})
//
//	err = work.Run(ctx, q, func(ctx context.Context, job *work.Lease[Email]) error {
//		return send(ctx, job.Value) // nil acknowledges, an error is tried again later
//	}, work.RunOptions{Workers: 16})
//
// # What is promised
//
// A job that Put has acknowledged is done at least once: it leaves the queue only by an
// acknowledgement, by Delete, or to the dead ones when it has failed too often. No two
// holders have a job whose leases have not run out. A holder whose lease is over can change
// nothing: each verb compares its token, and returns ErrLeaseLost. What a handler
// writes to the same store in the transaction of [Lease.In] is done exactly once.
//
// Jobs are ready in the order of their priority, the lowest first, and of their
// arrival. One that comes back has its old place. With Options.Order Relaxed that holds roughly, and
// workers in several processes do not collide.
//
// # What is not promised
//
// A job may run twice, where its worker is slower than its lease, or dies after its effects and
// before its acknowledgement. Leases are measured by clocks: where several machines share a
// store, they have to agree up to Options.Skew.
//
// # Concurrency
//
// All types but [Tx] and [LeaseTx] are safe for concurrent use. Calls of many goroutines on
// one handle share transactions. A verb conflicts with other verbs on the same job; for a
// job with a key also with those that take or free a slot of it. Where other processes share the store,
// a Reserve conflicts on the jobs that it takes alone, and counts as done when it has read.
package work
