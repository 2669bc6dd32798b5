// Package foundationdb is the engine for FoundationDB 7.3 clusters, over the
// official Go binding with API version 730. It registers the scheme foundationdb:
//
//	foundationdb:                             the default cluster file
//	foundationdb:/etc/foundationdb/fdb.cluster
//	foundationdb:/etc/foundationdb/fdb.cluster?prefix=a&timeout=5s&retries=20
//
// See [Options] for what follows the question mark. The keys of a store are the
// cluster's, behind the prefix, so queues are shared with every program that uses
// FoundationDB's recipes.
//
// # Building
//
// The binding needs cgo and FoundationDB's client package (libfdb_c and its headers,
// version 7.3), so it is only in programs that are built with
//
//	CGO_ENABLED=1 go build -tags foundationdb
//
// Without the tag the package is there too, links nothing of it, and opening a
// store fails with [ErrNotBuilt].
//
// # Transactions
//
// Reads go to the cluster as snapshot reads, at the version that the first of them
// gets. Writes stay in memory, and what is read is merged with them. The commit
// hands over the read conflict ranges first and the writes second, since the
// client library would leave keys that the transaction itself has written out of
// a conflict range that is added later. So a conflict is exactly what kv says,
// also for a loop that is left early, where the library's own conflict would be all
// that was fetched, and for AddReadConflict of keys that were written before.
//
// A range read with a limit of up to 256 asks for all of it at once; one with a
// larger limit, or none, comes in batches, and the next one is asked for before the
// last pair of one is used. The values that a transaction watches are read
// together. AddReadConflict waits for the transaction's version, as it conflicts
// with what is committed from then on. A transaction that writes nothing is not
// sent: it commits by itself.
//
// # Retries
//
// After an error that passes (a conflict, a version that is too old or not there
// yet, an overloaded or locked cluster) the library's OnError waits and makes its
// transaction as new, and the function runs again. After a conflict the pause is a
// random part of a time that doubles from 10 ms to 100 ms. That goes on until the
// context ends, or for Options.Timeout, or Options.Retries times; and kv.MaxTooOld
// times after kv.ErrTooOld. In ReadTransact, whose function runs once, it is the
// read that is repeated, at the same version; kv.ErrTooOld if the library has
// forgotten it, as it does when the cluster's own version changes.
//
// A context that ends makes every wait end at once; the client library's
// transaction is cancelled. Only a commit under way gets another 100 ms, in which
// a working cluster answers, as giving it up leaves its outcome unknown.
//
// # Watches
//
// A watch is a goroutine with a transaction of its own, which begins after the
// commit: it compares the value with the one that the transaction left there, and
// then waits with a watch of the library's. So a watch does not conflict, lasts as
// long as the caller's context, and is set off by a change of the value alone,
// not by one that was undone meanwhile. The library allows 10,000 at a time for a
// cluster in a process; one more compares the value once a second until there is room.
//
// # Limits
//
//	key          10,000 bytes, less the prefix
//	value        100,000 bytes
//	transaction  9,500,000 bytes of keys and values
//	age          5 s
//
// FoundationDB's limit for a transaction is 10,000,000 bytes of all that is sent:
// keys once more for their conflict ranges, and about 75 bytes for each write. A
// transaction of very many small writes can exceed that below the limit of 9,500,000, and
// then fails with a kv.TooLargeError of about that size and the limit of
// 10,000,000. FoundationDB itself recommends to stay below 1,000,000.
//
// # Errors
//
//	1007 transaction_too_old                      kv.ErrTooOld
//	1020 not_committed                            kv.ErrConflict
//	1021 commit_unknown_result                    kv.ErrCommitUnknown
//	1039 cluster_version_changed, at the commit   kv.ErrCommitUnknown
//	1025 and 1101 cancelled, at the commit        kv.ErrCommitUnknown, and why
//	1022, 1030, 1031, 1100, 2017, 4000, 4100,
//	     at the commit                            kv.ErrCommitUnknown
//	2004 key_outside_legal_range, 2005 inverted   kv.ErrInvalid
//	2023 transaction_read_only                    kv.ErrReadOnly
//	2101, 2102, 2103 too large                    kv.ErrTooLarge, a *kv.TooLargeError
//	others                                        *Error
//
// Those after which OnError has one try again (1009, 1037, 1038, 1042, 1051, 1078,
// 1213, 1223, and 1039 elsewhere) match kv.ErrConflict. Like it they reach the caller
// of Transact only with the reason for which there is no other try.
//
// # Closing
//
// Close ends what is open of the store: transactions, reads and watches fail with
// kv.ErrClosed. The connection to the cluster and the library's network thread,
// which all stores of a process share, stay until the process ends. A program that uses
// the binding beside shares them, too: it must ask for API version 730, as the binding
// takes one in a process, and must not close an fdb.Database of the same cluster file,
// which is that of the stores.
package foundationdb
