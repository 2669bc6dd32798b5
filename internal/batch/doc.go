// Package batch has concurrent callers share work, as the callers of a queue's handle share transactions. A call is what
// one caller wants. Calls that come while a batch runs form the next one, and one of them, the leader, runs it for all.
// Batcher is for calls that are served at once, Waiters for calls that wait until there is something for them, and Gather
// has a leader wait for callers that are about to come. It knows nothing of queues: of this module it imports
// kv, for one error, and internal/linked.
//
// This is group commit without a committer. There is no goroutine to start or to stop, and a lone caller pays no switch of
// goroutines.
//
// # Invariants
//
//   - A call is in line or in a batch, or it is done. Only the lock's holder takes it out of the line.
//   - The first call in line leads as soon as there is room for another batch. It stays in line until it has formed
//     its batch. At most one leader at a time forms one.
//   - A caller is woken when its call leads or is done. It never misses that: the state changes first.
//   - The lock is not held while code of others runs: Run, Size, Take, or the methods of a context. The hooks of
//     WaitOptions are an exception: Observe and Stamp run under it.
package batch
