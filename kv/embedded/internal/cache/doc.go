// Package cache keeps in memory what lies where reads begin, at the two ends of queues, so that a
// dequeue or an enqueue does not search the LSM tree, and costs the same at any depth. It knows
//
//   - hot ranges: parts of the key space with all pairs in them, in a [Cache];
//   - last keys: what is left of a hot range when it is evicted, as an enqueue or a push needs the
//     last key of its queue or priority, and no value. They take less memory;
//   - tombstone gaps: parts in which there are at most tombstones, in [Gaps]. Each item that is
//     taken from a queue leaves one, which the next read from the tree would have to step over.
//
// # Filling
//
// What a read has found in the store comes in by [Cache.Fill], if nothing has been written there
// since the version of that read: its caller knows. From then on [Cache.Commit] keeps it up to date.
// It is called for each commit, with the store's lock held, so before any transaction can begin that
// is to see the commit. What is known is what is true at the latest version. It also says since which
// version: an older reader can't use it, and reads its snapshot.
//
// # Evicting
//
// Bytes are bounded. Hot ranges between the ends of queues are evicted first, the newest before the
// others, and then those that were not used for the longest. So a queue that is short enough is here as
// a whole, and one that is filled does not push out the ends of others. What nobody asks for, goes by and by, too ([Cache.Rest]). Nothing here makes a read right or wrong: all of it may be forgotten at any time.
//
// # Cutting
//
// A hot range grows from what lies behind it when a reader has taken its pairs. One with too many
// pairs is cut in two. Priorities with many items get ranges of their own, as they are cut where
// backward reads begin; and those with one item stay together.
//
// # Locks
//
// A Cache and Gaps may be used by many goroutines. In the engine locks are taken in this order: a
// transaction's, the store's, the one for applying to Pebble, the backlog's, a Cache's, that of Gaps.
//
// Keys and values that are returned are the cache's: they must not be changed.
package cache
