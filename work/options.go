package work

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// Order is the order in which jobs are leased.
type Order int

// The orders.
const (
	Strict  Order = iota // by priority and arrival
	Relaxed              // approximately so: any of the first few hundred, so that processes do not collide
)

// Rate limits how many jobs start: after a rest up to N at once, and then one in each Per/N. So in the first Per of a burst up
// to 2N-1 start, and N in each that follows. The zero Rate is no limit.
type Rate struct {
	N   int
	Per time.Duration // 1 µs to 30 days
}

// Options configure a handle. All handles of a queue should have the same.
type Options struct {
	// Lease is how long a worker has a job before others get it, unless it extends the lease: 1 ms to 30 days.
	// Default: 30 s. Job.Lease overrides it.
	Lease time.Duration

	// MaxAttempts is how often a job is tried before it is dead; -1 is no limit. Default: 20.
	// Job.MaxAttempts overrides it.
	MaxAttempts int

	// Backoff returns how long a job waits after a failed attempt; the first attempt is 1. Less than 0 is 0.
	// Default: attempt^4 seconds, at most a day, with 10 % jitter.
	Backoff func(attempt int) time.Duration

	// KeyLimit is how many jobs of one key may be ready or leased at once. Others are blocked. Default: 1,
	// so that jobs of a key run one after the other.
	KeyLimit int

	// Concurrency is how many jobs of the queue may be leased at once. Default: no limit.
	Concurrency int

	// Rate and KeyRate limit how often jobs of the queue, and jobs of one key, start. Default: no limit.
	Rate, KeyRate Rate

	// Keep is how long acknowledged jobs are kept for inspection, with their results. Default: not at all.
	Keep time.Duration

	// Skew is how far the clocks of machines that share the store may differ. Other workers get a job only
	// when its lease has been over for that long. Default: 1 s on a store that processes share, else 0.
	Skew time.Duration

	// Order is Strict or Relaxed. Default: Strict. The order of a store that one process has to itself is always
	// strict.
	Order Order

	// Findable lets Find look up jobs that this handle puts by their ids alone. It costs one more key for each job.
	Findable bool

	// Holder names this process in the jobs that it leases. Default: host name and process id.
	Holder string

	// NoCombining gives each call a transaction of its own. Default: false.
	NoCombining bool

	// Observe is called for each event, in the goroutine of a caller, once the event is durable. It must
	// return quickly, and must not call the handle. Default: none.
	Observe func(Event)

	// Logger gets what goes wrong in the background. Default: none.
	Logger *slog.Logger
}

// Limits of what a job may have.
const (
	MaxText     = 1024     // bytes of a key, a unique name, the name of a periodic job
	MaxMeta     = 16 << 10 // bytes of all metadata together
	MinLease    = time.Millisecond
	MaxLease    = 30 * 24 * time.Hour
	MinPriority = math.MinInt64
	MaxPriority = math.MaxInt64
)

func defaultBackoff(attempt int) time.Duration {
	const day = 24 * time.Hour
	d := day
	if attempt < 18 { // 18^4 s is more than a day
		d = time.Duration(attempt*attempt*attempt*attempt) * time.Second
	}
	return time.Duration(float64(min(d, day)) * (0.9 + 0.2*rand.Float64()))
}

// complete checks the options, and sets defaults.
func (o *Options) complete(shared bool) error {
	setDefault(&o.Lease, 30*time.Second)
	setDefault(&o.MaxAttempts, 20)
	setDefault(&o.KeyLimit, 1)
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	if o.Skew == 0 && shared {
		o.Skew = time.Second
	}
	if o.Holder == "" {
		host, _ := os.Hostname()
		o.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	switch {
	case checkLease(o.Lease) != nil:
		return fmt.Errorf("Options.Lease: %w", checkLease(o.Lease))
	case o.MaxAttempts < -1:
		return fmt.Errorf("Options.MaxAttempts is %d: it can be -1 (without end) or from 1 on", o.MaxAttempts)
	case o.KeyLimit < 1:
		return fmt.Errorf("Options.KeyLimit is %d: it can be from 1 on", o.KeyLimit)
	case o.Concurrency < 0:
		return fmt.Errorf("Options.Concurrency is %d: it can be 0 (any number) or from 1 on", o.Concurrency)
	case !o.Rate.valid() || !o.KeyRate.valid():
		return fmt.Errorf("Options.Rate %v or KeyRate %v: N can be from 1 on, and Per 1 µs to 30 days", o.Rate, o.KeyRate)
	case o.Keep < 0 || o.Skew < 0:
		return fmt.Errorf("Options.Keep %v or Skew %v is negative", o.Keep, o.Skew)
	case o.Order != Strict && o.Order != Relaxed:
		return fmt.Errorf("Options.Order is %d: it can be Strict or Relaxed", o.Order)
	}
	if !shared {
		o.Order = Strict
	}
	return checkText("Options.Holder", o.Holder)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func checkLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("a lease of %v: it can be %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

func (r Rate) valid() bool {
	return r == Rate{} || r.N > 0 && r.Per >= time.Microsecond && r.Per <= MaxLease
}

func (r Rate) micros() jobs.Rate { return jobs.Rate{N: int64(r.N), Period: r.Per.Microseconds()} }

// Event tells Options.Observe what a transaction has done to jobs.
type Event struct {
	Kind     EventKind
	Queue    string
	Jobs     int // number of jobs
	Calls    int // number of calls that shared the transaction; not set in EventDue and EventExpired
	Attempts int // how often the transaction ran; not set in EventDue and EventExpired

	// Dead is, in EventFailed and EventExpired, how many of the jobs are dead now, as this was their last attempt.
	Dead int

	// Each has the jobs of an EventReserved, EventAcked or EventFailed.
	Each []EventJob
}

// EventJob is one job of an event.
type EventJob struct {
	ID     ID
	Waited time.Duration // in EventReserved: how long the job was ready
}

// EventKind is what has happened.
type EventKind int

// The kinds of events.
const (
	EventPut EventKind = iota + 1
	EventReserved
	EventEnded // released, buried, extended, or changed by an operator
	EventDue   // scheduled jobs became ready, leases expired, and so on, in the transaction of another event
	EventAcked
	EventFailed  // an attempt failed: the job is retried, or dead
	EventExpired // leases expired: the jobs are retried, or dead; these are among the jobs of an EventDue, too
)

// contextError is for a verb that was given no context.
func contextError(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	return nil
}
