// Package linear checks that queues used by many clients at once behave as one
// queue used by one client at a time: it records what clients called and what
// came back, and has Porcupine look for an order of the calls that explains it.
//
//	[Run]       makes clients call random verbs on a few queues, and drains them
//	[Recorder]  writes down each call, with when it began and when it returned
//	[Verify]    looks for the order; [Check] does so for a test, and on failure
//	            prints the history up to the first wrong result and draws a picture
//	[CheckShared]  does so where processes share the store, which promises less to those that look
//	[Conserve]  checks only that nothing is lost, doubled or invented
//
// # The model
//
// One model serves both kinds of queue: a FIFO queue is a priority queue of one
// priority whose maximum nobody takes. The state is the set of items that are
// there. An item u is ahead of an item v of the same priority if u's put had
// returned before v's began, or if both are of one put and u came earlier in it.
// A put adds all its items at once. A take from the low end may return any item
// that none is ahead of: no lower priority, and nobody ahead in its own. A take
// from the high end likewise; among equals it wants the last, or with FIFOTies
// the first. A take finds nothing, and a length is 0, only where the set is empty.
//
// # Why the state is a set, and not a list
//
// Puts that overlap may come out in either order, so a list would have to guess
// it when the put happens, and the search would try all permutations of it. The
// set leaves it open until items are taken, so it is the same in whichever order
// puts are tried. Nothing is lost by it: a history of puts and takes that the
// set explains is explained by a list too (a queue fails only by an item that is
// invented, doubled, overtaken or overlooked), which a test confirms on random
// histories. (Where the last of equals is taken, that needs the order which earlier
// takes have shown; the state keeps it with each item.)
//
// What differs is a look from outside. The key of a put follows from a snapshot
// and is written at the commit; a put that others overtake in between gets in
// among, or ahead of, theirs. A client that has peeked before knows that it was not there.
// So with Peek, Len and batches the queues promise the order of puts that do not
// overlap, and that is what the set holds them to.
//
// # Two steps
//
// Where processes share a store, a take conflicts on what it removes and on nothing else. It
// happens where it reads, and its items are removed later. That shows to calls that look, Peek and
// Len. So there histories are checked twice: puts and takes alone ([History.PutsAndTakes]), strictly;
// and all calls in a model where a take has two steps ([History.TwoSteps]). With the first its items
// leave the set for another one, of those that go, and with the second they leave that. Other takes
// see the first set, those that look both.
//
// # Unknown outcomes
//
// A call that returned kv.ErrCommitUnknown has happened at any time after it was
// called, or never; any other error means never.
//
//   - A put whose items were seen later has happened before that. One of which
//     none was seen is left out; but a Len may have counted it.
//   - A take may have removed an item that nobody else got, when it was the first,
//     or nothing: from its call on, the state may lose such an item at any time.
//     These are forks, so the model is nondeterministic.
//
// Where consumers die with items reserved for them, which come back later than
// their turn, only [Conserve] can be asked for.
//
// Drain a queue before checking it, as [Run] does: the fewer items are left, the
// fewer may have been removed so.
//
// # Cost
//
// The search is exponential in the number of calls that overlap, not in the
// length of the history, and the state is as long as the queue. Histories of
// short queues and about 10 clients take some milliseconds for 1,000 calls, and now
// and then a few seconds if 5% of them have unknown outcomes. A search that does
// not end in time is a failure: [ErrTimeout].
package linear
