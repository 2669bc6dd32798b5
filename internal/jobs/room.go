package jobs

import (
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
)

// What things take of a transaction at most, where payloads are not written.
const (
	startOperations = 12 // to lease a job that has no key, or to have one wait
	handOperations  = 10 // to hand a slot on
	putOperations   = 12 // to put a job
	verbOperations  = 14 + handOperations

	putBytes    = 1 << 10  // of a job that is put, beside what its user has given
	keysBytes   = 12 << 10 // of all keys that a verb writes
	headerBytes = 96 << 10 // of a header
)

// Fits tells whether one more verb on a job fits into a transaction that is counted. The first one always does.
func (q *Queue) Fits(tx kv.Tx) bool {
	return budget.Fits(tx, verbOperations, keysBytes+2*q.maxHeader())
}

// startFits tells whether it fits to lease a job, with another one of its key that comes in for it.
func (q *Queue) startFits(tx kv.Tx, j *Job) bool {
	if j.Key != "" {
		return q.Fits(tx)
	}
	return q.smallFits(tx, startOperations)
}

// smallFits is Fits for what writes one header at most.
func (q *Queue) smallFits(tx kv.Tx, operations int) bool {
	return budget.Fits(tx, operations, keysBytes+q.maxHeader())
}

// leastHeader is how large headers may be on any engine, in bytes.
const leastHeader = 2 << 10

// maxHeader is the largest header, in bytes. Errors of attempts are left out, the oldest first, where it would be larger.
// A payload, a result and a header of the largest size, with all keys of a job, go into one transaction.
func (q *Queue) maxHeader() int {
	n := headerBytes
	if q.limits.Value > 0 {
		n = min(n, q.limits.Value)
	}
	if q.limits.Transaction > 0 {
		n = min(n, q.limits.Transaction/4)
	}
	return max(n, leastHeader)
}

// checkResult returns the error for a result that is too large to be kept, or nil.
func (q *Queue) checkResult(result []byte) error {
	half := q.limits.Transaction / 2
	limit := min(budget.MaxPayload(q.limits), max(half/4, half-q.maxHeader()-keysBytes))
	if half > 0 && len(result) > limit {
		return &kv.TooLargeError{What: "result", Size: len(result), Limit: limit, Unit: "bytes"}
	}
	return nil
}

// header returns the header of a job as it is stored.
func (q *Queue) header(j *Job) []byte {
	b := j.encode()
	for len(b) > q.maxHeader() && len(j.Failures) > 0 {
		j.Failures = j.Failures[1:]
		b = j.encode()
	}
	return b
}

// PutsFit tells whether some more jobs fit into a transaction that is counted.
func (q *Queue) PutsFit(tx kv.Tx, all []New) bool {
	operations, bytes := 0, 0
	for i := range all {
		operations += putOperations + budget.Pieces(q.limits, len(all[i].Payload))
		bytes += putBytes + all[i].size()
	}
	return budget.Fits(tx, operations, bytes)
}

// Size is about how many bytes of a job are its user's.
func (n *New) Size() int { return n.size() }

func (n *New) size() int {
	size := len(n.Payload) + 4*len(n.Key) + 4*len(n.Unique)
	for name, value := range n.Meta {
		size += 8 + len(name) + len(value)
	}
	return size
}

// CheckNew returns the error for a job whose header is too large for the engine once it is leased by a holder, or nil.
func (q *Queue) CheckNew(n *New, holder string) error {
	if n.size()-len(n.Payload) < q.maxHeader()/4 {
		return nil // it can't be
	}
	j := Job{Key: n.Key, Unique: n.Unique, Meta: n.Meta, Holder: holder}
	if size, most := len(j.encode()), q.maxHeader()-putBytes-2*smallPayload; size > most {
		return &kv.TooLargeError{What: "job without its payload", Size: size, Limit: most, Unit: "bytes"}
	}
	return nil
}
