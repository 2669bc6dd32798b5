package work

import (
	"strconv"
	"strings"
	"time"
)

// Token returns a text from which Queue.Held makes this lease again, also in another process. Whoever has the token can
// end the lease, so keep it secret.
func (l *Lease[T]) Token() string {
	if l.remote != nil {
		return l.remote.token
	}
	keyed := int64(0)
	if l.frees() {
		keyed = 1
	}
	var b []byte
	for i, n := range []int64{l.token, int64(l.Attempt), l.length.Microseconds(), keyed} {
		if i > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendUint(b, uint64(n), 36) // the first may be negative
	}
	return string(b)
}

// Held returns the lease of a job from its token. It reads nothing, so only ID and Attempt of the lease are set, and only
// its methods tell whether it is over. The error is kv.ErrInvalid if the text is not a token.
func (q *Queue[T]) Held(id ID, token string) (*Lease[T], error) {
	var n [4]int64
	fields := strings.Split(token, "-")
	for i := range n {
		var u uint64
		var err error
		if len(fields) == len(n) {
			u, err = strconv.ParseUint(fields[i], 36, 64)
		}
		if n[i] = int64(u); err != nil || len(fields) != len(n) || n[i] < 0 && i > 0 {
			return nil, q.wrap(invalid("%.60q is no token of a lease", token))
		}
	}
	length := time.Duration(n[2]) * time.Microsecond
	if checkLease(length) != nil || n[1] > 1<<31 {
		return nil, q.wrap(invalid("%.60q is no token of a lease", token))
	}
	return &Lease[T]{ID: id, Attempt: int(n[1]), queue: q, token: n[0], length: length, keyed: n[3] != 0}, nil
}
