// Package handle is what the handle of a queue does: in bytes, and once for both kinds of queues. Package conq puts types on
// it, and servers use it as it is. A kind is what makes the keys of new items, and an order for each end, which says which items come
// first and what a take conflicts on. Both are of package recipe; all else here does not know the kind. It may import what
// works on any engine (batch, staging, outcome, layout, catalogue, reads, budget), and no engine.
//
// # The way of one add
//
//	Handle.Add         checks sizes
//	adder.serve        joins the batch that forms while other transactions run (internal/batch):
//	                   one, or on a cluster several
//	adder.run          one caller leads, and merges what all of them add
//	gathering.claim    waits a moment if consumers are about to come, and claims those that wait
//	outcome.Do         runs the transaction, until its outcome is known:
//	  addBatch.live      callers that have given up leave, but not if a commit may have happened
//	  addBatch.handOver  in the first attempt, if the queue is empty: items go to callers that wait
//	  queue.add          the others get keys of the recipe and are written; waiters are told
//	claim.deliver      callers that were handed items return with them
//
// # The way of one staged take
//
//	Handle.Take        finds the end
//	taker.serve        joins a batch, as above
//	taker.serveSome    by the recipe first (takeIn); after a conflict, or if others have staged
//	                   requests, by staging for a while
//	taker.serveStaged  staging.Take writes one request for the batch, waits until it is served, and
//	                   finds the result; or serves all requests itself, and takes its own items
//	                   first. In the transaction that collects them:
//	  taker.splitStaged  the items are decoded and given to the callers in order; an item that does
//	                     not decode, and what is behind it, goes back under its key
//	takeBatch.deliver  callers get their results; if some are left, the next transaction is theirs
//
// A take that waits (TakeWait) goes through batch.Waiters: the caller that has waited longest leads,
// and takes for those behind it, too. Where other processes share the store, leaders of handles
// stand in a line (waitingline.go).
//
// # Invariants
//
//   - An item is decoded in the transaction that takes it. One that does not decode stays.
//   - What a transaction returns is made anew in each attempt, and not used again: after an unknown
//     commit it may be an earlier attempt that counts.
//   - Items are handed over in the first attempt only, and never where items may be staged.
//   - A caller that gives up gets nothing, and nothing is lost for it.
package handle
