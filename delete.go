package conq

import (
	"context"

	"github.com/conq-go/conq/internal/remove"
	"github.com/conq-go/conq/kv"
)

// DeleteQueue deletes a queue of any kind, with all that the store has of it: items, jobs, periodic jobs, settings, and its entry in the
// catalogue. The error is an ErrNoQueue if there is none, or an ErrFormat if it, or the store, was written by a newer version.
//
// Others see it vanish at once, in one transaction. That conflicts with no enqueue or push: one at the same time comes before it, and its item is
// gone, or after it. Only if a work queue has more jobs than one transaction can look at, or is busy, the deletion takes three steps. From the
// first on nothing can be added (the error is an ErrDeleting), and jobs are no longer found by their ids alone; else the queue works until the last
// step, in which all of it goes. If the process dies between, [Info.Deleting] tells, and calling DeleteQueue again completes it.
//
// Handles that are open stay valid, here and in other processes. What adds (enqueue, push, put, a periodic job, a setting) makes the queue
// anew, with its entry, in the same transaction; if the name is that of a queue of another kind by then, it is an ErrKind, and nothing is written. What takes or
// looks finds it empty. Leases are lost. Who waits goes on waiting, and gets what is added to the new queue.
func DeleteQueue(ctx context.Context, db kv.DB, name string) error {
	return remove.Queue(ctx, db, name)
}
