// Package combine lets concurrent calls share work: calls that come while a batch
// is being served form the next one, which is then served as a whole. It is how
// the concurrent callers of a queue's handle share transactions, and knows of
// neither.
//
// It is group commit without a committer: the batch is run by one of its own
// callers. So there is no goroutine to start, to stop or to wait for, and a lone
// caller pays one allocation and no switch of goroutines.
//
// # Invariants
//
//   - One call leads at a time: from when it finds the combiner idle, or is woken to
//     lead, until it passes the lead on. Only it takes a batch and calls Run.
//   - While nobody leads, nobody waits.
//   - A call is in the list of those that wait or out of it, and what takes it
//     out (a leader that takes it into its batch, one that makes it the next
//     leader, its context, Close) does so under the lock. So each call that
//     waited is woken once for that, or left by itself.
//   - A call that waits watches for the end of its context, or relies on the call
//     before it, which has the same context, and watches or relies in turn. When a
//     leader takes calls out of the list, it has the one that is first then watch.
//   - The lock is never held while code of others runs: Run, Size, Observe, or
//     the methods of a context.
package combine
