// Package etcd is the engine for etcd clusters over etcd's own client. It is tested
// with 3.7; 3.4, the oldest that was tried, passes kvtest too. It registers the scheme
// etcd:
//
//	etcd://host:2379
//	etcd://h1:2379,h2:2379,h3:2379/prefix?ca=ca.pem&cert=cert.pem&key=key.pem
//	etcd://user@host:2379/prefix        password in CONQ_ETCD_PASSWORD
//
// See [ParseURL] for all of it. Any number of processes may open a store at once.
//
// # Versions
//
// A version is a revision of the cluster. The first read of a transaction is
// linearizable: the members agree on how far they are, so it sees all that was
// acknowledged before, and fixes the revision. All other reads are at this
// revision, from the member alone, as what a revision holds does not change. What
// the transaction has written so far is laid over it. It takes no lease and no
// lock.
//
// There is no limit of age. But once the cluster has compacted the revision, reads
// fail with kv.ErrTooOld, and Transact runs the function again. A commit does not
// need the revision to be still there.
//
// # Conflicts
//
// A commit is one transaction of etcd, whose comparisons are the conflict check:
//
//   - Of each key that was read by Get: it is still of the revision in which it was
//     changed last. Absent keys are of revision 0.
//   - Of each range that was read: no key in it was changed after the revision. Keys
//     that were not there then are seen by that too, but not those that have gone.
//   - So of each key that was found in a range, too, as of one that was read by Get. Where
//     there is no room for so many, nobody may have removed keys of their family: keys of a
//     family begin alike, up to the first NUL behind the first byte, with the name of a queue.
//     A commit that removes keys changes the marker of their family, and one that has read
//     such a range compares it. Where there is no room for so many markers, one comparison is
//     for all, and any key that is removed from the store is a conflict.
//   - No range was written to since the revision, see below.
//
// A key that was absent, was set by another transaction and then cleared by a third,
// is as it was: that is no conflict, as the transaction might as well have read it
// just before its commit.
//
// ClearRange and AddWriteConflict write to ranges, also where there is no key whose
// revision could tell. Such a commit changes a marker, which all others compare,
// and leaves the ranges in a log. A commit that finds the marker changed gets what is new in
// the log with the same answer. If none of that meets what it has read, it
// is sent again, compared to the newer marker, without running its function again.
// One in 32 commits that add to the log removes its oldest entries if there are more than
// 512, and notes up to which revision. An older transaction conflicts.
//
// Add is a read and a write when the transaction commits: a comparison inside of
// the transaction tells a changed number from a conflict, and then only the
// commit is repeated, not the function. So Adds do not conflict. What a key that this store
// has added to has become it remembers, so that the next Add costs no round trip; if others have
// changed it, the commit fails with what it is, and is sent again.
//
// AddReadConflict of what was not read before reads it, without values. Of a single
// key that this store has set in an earlier transaction, which also had a conflict
// on it, it knows the revision: that is how outcome keys (see kv.Once) cost no
// round trip.
//
// # Round trips
//
// A transaction that reads one range and writes costs two: the read and the commit.
// What the transaction tells of by kv.Prefetch is asked for together with that, and the last
// keys of up to 64 ranges with one request, so that a push to as many priorities costs what
// one to one does. A member counts the keys of a range
// that it is asked for, and can return the last ones only by sorting all; so the store
// remembers where keys were at the ends of ranges, and asks for narrow ranges. That
// decides on the number of requests only, never on what is read.
//
// Requests go to one member, the leader if it tells, and to another one as soon as
// it does not answer. Without a leader nothing commits, until there is a new one.
//
// # Unknown outcomes
//
// Reads are repeated until they are answered, for up to Options.Patience. A commit
// is sent once. If there is no answer in Options.Timeout, the connection breaks, or
// the leader is lost, the error is kv.ErrCommitUnknown: it may have happened, and may
// even happen later. Only where gRPC is known not to have sent it, as there was no
// connection, or the server has refused it for a token that is no longer valid, since
// users were changed, or as too many requests wait there, it is sent again. Other refusals are returned as they are: nothing
// was done. The exception is that the database has no space left: etcd says so of the
// commits that fill it, which it has done, too. That is an unknown outcome, unless the
// cluster's revision tells that nobody has committed anything since the transaction read.
// kv.TransactOnce finds out what has happened.
//
// A context that ends makes every read and wait end at once. A commit under way
// gets another 250 ms, in which a working cluster answers, as giving it up leaves
// its outcome unknown.
//
// # Watches
//
// A watch is a watch of etcd, on one stream for all. It begins after the commit; what was
// changed between is looked up. When the member is changed, or the watch is lost, it tells
// its owner to look again. A connection that silently leads nowhere is noticed by the next
// request, or after 15 s.
//
// # Limits
//
// etcd takes 128 comparisons, 128 operations and 1.5 MiB in a transaction, unless
// its servers are told otherwise. Of Limits.Operations, which is 128, a key or range
// that was read takes one, a written key one, both of one key one, and a key that is added to two. So does each key in a range of
// several families. Where there is no room to compare all keys that were found in ranges of one
// family, it is a conflict if any other is removed there. What is needed beside, for ranges that
// are cleared around keys that are set, markers, or the log, goes into transactions inside of the
// transaction, which etcd counts apart. A transaction has 1.25 MiB of keys and values; the rest of the 1.5
// is for what is compared, and one with very many very long keys read fails with
// kv.ErrTooLarge in spite of all. A key has 4 KiB, a value 512 KiB. Payloads of
// queues are split over several values, up to 640 KiB.
//
// # Compaction
//
// Until the cluster's history is compacted, a read of a range steps over all
// keys that were removed from it, a tenth of a millisecond for some hundred, and the
// database grows. So have the servers compact often, as by
//
//	etcd --auto-compaction-mode=periodic --auto-compaction-retention=1m
//
// or, on a cluster that has no other users, the stores: compact=1000 in the URL.
//
// # Keys
//
// prefix is "conq" if the URL has none.
//
//	prefix NUL "d" key      a key of the store, with its value
//	prefix NUL "f"          format of all this: "2"; another one is refused
//	prefix NUL "w"          changed when ranges are written to
//	prefix NUL "x" random   ranges that a transaction has written to
//	prefix NUL "y"          up to which revision that was forgotten
//	prefix NUL "r" number   changed when keys of a family with that number are removed:
//	                        a byte, the sum of what they begin with (FNV-1a) modulo 256
package etcd
