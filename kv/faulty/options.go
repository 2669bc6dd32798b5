package faulty

import (
	"cmp"
	"time"

	"github.com/conq-go/conq/kv"
)

// Options says what goes wrong. Probabilities are from 0, never, to 1, always;
// what is beyond counts as the nearer one. The zero value injects nothing.
//
// With high probabilities nothing may ever succeed: Transact tries again after
// each conflict, and kv.TransactOnce after each unknown outcome.
type Options struct {
	// Conflict is the probability that an attempt that could conflict fails with
	// ErrConflict after its function ran. Default: 0.
	Conflict float64

	// Dropped is the probability that a commit is not applied, and the outcome
	// unknown. Default: 0.
	Dropped float64

	// Applied is the probability that a commit is applied, and the outcome
	// unknown. Default: 0.
	Applied float64

	// Late is the probability that the outcome of a commit is unknown, and that it
	// is applied later if it still can be. Default: 0.
	//
	// Of Conflict, Dropped, Applied and Late at most one happens to an attempt;
	// if together they exceed 1, the later ones get what is left.
	Late float64

	// LateSteps is by how many steps a late commit is late at most; the package's
	// documentation says what a step is. Default: 20.
	LateSteps int

	// Choose, if not nil, is called for each attempt that is about to commit
	// writes, and decides in place of the four probabilities, so that a test can
	// go through all cases. It has to be safe for concurrent use if the store is
	// used so. Default: nil.
	Choose func() Fate

	// TooOld is the probability that a read fails with ErrTooOld, as all later ones
	// of its transaction do. A range counts as up to two reads: before its first
	// pair and before its second. Default: 0.
	TooOld float64

	// Cancel is the probability that the context of a transaction ends, with
	// ErrCanceled, at any call: as an attempt begins, at each read and write, and
	// before its commit. The transaction has a context of its own for that, derived
	// from the caller's. Default: 0.
	Cancel float64

	// Delay is the probability that a random pause of up to MaxDelay comes before
	// an attempt, a read or a commit, after the fixed ones below. Default: 0.
	Delay float64
	// MaxDelay is the longest such pause. Default: 1 ms.
	MaxDelay time.Duration

	// Latency is how long a transaction waits to be told which version is the
	// latest, at its first read or AddReadConflict, or before it commits writes without
	// having read: half of it passes before the store below fixes the version, half afterwards.
	// Default: 0.
	Latency time.Duration
	// ReadLatency is a pause before each read; a range is one, and so are all of
	// [kvext.LastKeys]. Default: 0.
	ReadLatency time.Duration
	// CommitLatency is how long a commit of writes takes: half of it passes before
	// the store below decides, half afterwards. Default: 0.
	//
	// All pauses end early if the context does, except those after a commit, whose
	// outcome is known by then.
	CommitLatency time.Duration

	// Cluster, if there is one, says how long requests take, in place of the three
	// latencies, and whatever else it says. [FoundationDB] and [Etcd] return Options
	// with one. Default: nil.
	Cluster *Cluster

	// Limits replaces limits of the store below where it is lower: Key, Value,
	// Transaction, Operations. Shared and UnknownCommits are set if they are set
	// in either. Age is not looked at. Default, for each field that is 0: that of
	// the store below.
	Limits kv.Limits
}

// Outcome is what becomes of a commit.
type Outcome int

const (
	Committed  Outcome = iota // as without faults
	Conflicted                // ErrConflict, if the transaction could conflict
	Dropped                   // ErrCommitUnknown, and it is not applied
	Applied                   // ErrCommitUnknown, and it is applied
	Late                      // ErrCommitUnknown, and it is applied later
)

// Fate is what Options.Choose decides.
type Fate struct {
	Outcome Outcome
	// After is by how many steps a Late commit is late; 0 holds it until Flush.
	After int
}

// Stats counts what was injected.
type Stats struct {
	Attempts  int // of transactions, and calls of ReadTransact
	Commits   int // that were acknowledged, also of nothing
	Conflicts int // injected, not the store's own
	Dropped   int // unknown outcomes that were not applied
	Applied   int // unknown outcomes that were
	Late      int // unknown outcomes that were held back
	Landed    int // of those, applied since
	Lost      int // of those, refused by the store since, or dropped by Close
	Held      int // of those, still held back
	TooOld    int // transactions that were made too old
	Canceled  int // transactions whose contexts were ended
	Delays    int // random pauses
}

const (
	defaultLateSteps = 20
	defaultMaxDelay  = time.Millisecond
)

// fate draws what becomes of a commit.
func (db *DB) fate() Fate {
	if db.o.Choose != nil {
		return db.o.Choose()
	}
	o := &db.o
	if !o.fails() {
		return Fate{}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	at := db.random.Float64()
	for i, p := range []float64{o.Conflict, o.Dropped, o.Applied, o.Late} {
		if at -= max(p, 0); at < 0 {
			return Fate{Conflicted + Outcome(i), 1 + db.random.IntN(cmp.Or(max(o.LateSteps, 0), defaultLateSteps))}
		}
	}
	return Fate{}
}

// fails tells whether any commit can.
func (o *Options) fails() bool { return o.Conflict > 0 || o.unknown() }

// unknown tells whether outcomes can be.
func (o *Options) unknown() bool {
	return o.Dropped > 0 || o.Applied > 0 || o.Late > 0 || o.Choose != nil
}

// limits returns those that hold over a store which has the given ones.
func (o *Options) limits(l kv.Limits) kv.Limits {
	l.Key = lower(l.Key, o.Limits.Key)
	l.Value = lower(l.Value, o.Limits.Value)
	l.Transaction = lower(l.Transaction, o.Limits.Transaction)
	l.Operations = lower(l.Operations, o.Limits.Operations)
	l.Shared = l.Shared || o.Limits.Shared
	l.UnknownCommits = l.UnknownCommits || o.Limits.UnknownCommits || o.unknown()
	return l
}

// lower returns the lower limit, where 0 is none.
func lower(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b)
	}
	return min(a, b)
}
