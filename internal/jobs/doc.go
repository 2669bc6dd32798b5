// Package jobs is the recipe of leased work queues: what each verb reads and
// writes in one transaction, in bytes. Package work makes an API of it, in which
// many callers share transactions and wait; its documentation has the guarantees.
//
// # States
//
// A job is in one state, has one entry in that state's index, one header, and its
// payload:
//
//	state      entry                            in the order of
//	ready      ("r", priority, place, id)       priority, then arrival
//	scheduled  ("s", due, id)                   when it becomes ready
//	leased     ("l", deadline, id) -> token     when its lease is over
//	blocked    ("b", key, priority, place, id)  priority, then arrival, of a key
//	dead       ("d", time, id)                  when it died
//	done       ("f", until, id)                 when it is forgotten
//
//	header     ("j", id)     rewritten by each verb; see [Job]
//	payload    ("v", id)     or ("v", id, 0), ("v", id, 1)... where the engine's values are smaller
//	result     ("w", id)     of a job that is done and kept
//	slots      ("k", key)    -> (slots in use, when the next job of the key may start, ready jobs with a slot, when blocked ones are looked at)
//	claim      ("u", unique) -> (id, until)
//	end        ("x", time, kind, text), of a claim that outlives its job, or of a key that has a rate
//	count      ("c", state, shard), by kv.Tx.Add
//	periodic   ("p", name)   and ("n", next, name)
//	wake       ("y", time, key), of a key whose blocked jobs are looked at then
//	queue      ("q", "settings"), with whether it is paused, and ("q", "rate")
//
// All of it is behind (b"conq", "work", queue). Times are microseconds since 1970.
//
// # Conflicts
//
// A verb on one job reads that job's header, and so conflicts with other verbs on
// it and nothing else, but for a job with a key, whose slots it reads where it takes
// or frees one. Put reads nothing that conflicts unless the job has a key or
// is unique: where its place is comes from a snapshot read, as in the recipe of
// priority queues. Reserve conflicts on the headers that it takes and, in strict order,
// on the range of entries up to the last of them.
package jobs
