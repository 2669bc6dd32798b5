// Package work has queues of jobs. A worker does not take a job away, it leases it: if the
// worker dies, the job comes back.
//
//	q, err := work.Open(ctx, db, "emails", conq.JSON[Email](), work.Options{Lease: 30 * time.Second})
//	id, err := q.Put(ctx, Email{To: "a@b"}, work.Job{Priority: 5})
//
//	err = work.Run(ctx, q, func(ctx context.Context, job *work.Lease[Email]) error {
//		return send(ctx, job.Value) // nil acknowledges the job; after an error it is retried
//	}, work.RunOptions{Workers: 16})
//
// # What is promised
//
// A job for which Put has returned is done at least once: it stays in the queue until it is
// acknowledged or deleted, or has failed too often and is kept as a dead job. A job has at most
// one unexpired lease. A worker whose lease is over can change nothing: each method compares the
// lease's token, and returns ErrLeaseLost. What a worker writes to the same store in the transaction
// of [Lease.In] happens exactly once.
//
// Jobs are leased by priority, the lowest first, and within a priority in order of arrival. A job that
// comes back has its old place. With Options.Order Relaxed this order is approximate, and workers in
// several processes do not collide.
//
// # What is not promised
//
// A job may run twice: if its worker takes longer than its lease, or dies after it has done its work
// and before it has acknowledged the job. Leases are measured by clocks: the clocks of machines
// that share a store must not differ by more than Options.Skew.
//
// # Concurrency
//
// All types but [Tx] and [LeaseTx] are safe for concurrent use. Concurrent calls on one handle share
// transactions. A method that changes a job conflicts with others that change the same job, and if the job has
// a key, with those that take or free a slot of the key. Where other processes share the store, a Reserve
// conflicts only on the jobs that it leases, and takes effect at the version at which it has read.
package work
