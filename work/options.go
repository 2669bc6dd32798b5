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

// Order says in which order jobs are leased.
type Order int

// The orders.
const (
	Strict  Order = iota // by priority and arrival
	Relaxed              // roughly so: any of the first few hundred, so that processes do not collide
)

// Rate is a number of starts in a time; the zero Rate is no limit.
type Rate struct {
	N   int
	Per time.Duration
}

// Options are the choices of a handle. Those of the handles of one queue should be the same.
type Options struct {
	// Lease is how long a worker that reserves by this handle has a job before others get it, unless it extends the
	// lease: 1 ms to 30 days. Default: 30 s. A job may have its own.
	Lease time.Duration

	// MaxAttempts is how often a job is tried before it is dead; -1 is without end. Default: 20.
	// A job may have its own.
	MaxAttempts int

	// Backoff returns how long a job waits after a failed attempt, of which 1 is the first.
	// Default: attempt^4 seconds, up to a day, give or take 10 %.
	Backoff func(attempt int) time.Duration

	// KeyLimit is how many jobs of one key may be ready or leased at once. Others are blocked. Default: 1,
	// so that jobs of a key run one after the other.
	KeyLimit int

	// Concurrency is how many jobs of the queue may be leased at once. Default: any number.
	Concurrency int

	// Rate and KeyRate bound how often jobs of the queue, and of one key, start.
	Rate, KeyRate Rate

	// Keep is how long jobs that were acknowledged are kept to be looked at. Default: not at all.
	Keep time.Duration

	// Skew is how far the clocks of machines that share the store may differ: so much later than its
	// deadline a lease ends for others. Default: 1 s on a store that is shared, else 0.
	Skew time.Duration

	// Order is strict or relaxed. Default: Strict. A store that one process has for itself is always strict.
	Order Order

	// Findable has jobs that are put by this handle found by their ids alone: see Find. It costs a key a job.
	Findable bool

	// Holder names this process in the jobs that it holds. Default: host name and process id.
	Holder string

	// NoCombining gives each call a transaction of its own.
	NoCombining bool

	// Observe is called for each event, in the goroutine of a caller, after the event is durable. It must
	// return soon, and must not call the handle. Default: none.
	Observe func(Event)

	// Logger gets what an operator may want to know. Default: none.
	Logger *slog.Logger
}

// Bounds of what a job may have.
const (
	MaxText     = 1024                // bytes of a key, a unique name, the name of a periodic job
	MaxMeta     = 16 << 10            // bytes of all metadata
	MaxLease    = 30 * 24 * time.Hour // and MinLease: of leases
	MinLease    = time.Millisecond
	MaxPriority = math.MaxInt64
	MinPriority = math.MinInt64
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
	if !shared {
		o.Order = Strict
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
		return fmt.Errorf("Options.Rate %v or KeyRate %v: both numbers have to be positive, and Per at most 30 days", o.Rate, o.KeyRate)
	case o.Keep < 0 || o.Skew < 0:
		return fmt.Errorf("Options.Keep %v or Skew %v is negative", o.Keep, o.Skew)
	case o.Order != Strict && o.Order != Relaxed:
		return fmt.Errorf("Options.Order is %d: it can be Strict or Relaxed", o.Order)
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
	return r == Rate{} || r.N > 0 && r.Per > 0 && r.Per <= MaxLease
}

func (r Rate) micros() jobs.Rate { return jobs.Rate{N: int64(r.N), Period: r.Per.Microseconds()} }

// Event is something that has happened to jobs, for observers.
type Event struct {
	Kind     EventKind
	Queue    string
	Jobs     int // how many
	Calls    int // that shared the transaction, but for EventDue and EventExpired
	Attempts int // of the transaction, likewise

	// Dead is how many of the jobs of an EventFailed or EventExpired are dead: it was their last attempt.
	Dead int

	// Each is the jobs of an EventReserved, EventAcked or EventFailed.
	Each []EventJob
}

// EventJob is one job of an event.
type EventJob struct {
	ID     ID
	Waited time.Duration // of EventReserved: since it became ready
}

// EventKind says what has happened.
type EventKind int

// The kinds of events.
const (
	EventPut EventKind = iota + 1
	EventReserved
	EventEnded // released, buried, extended, or changed by an operator
	EventDue   // scheduled jobs that became ready, leases that ran out, and more; part of another event's transaction
	EventAcked
	EventFailed  // an attempt, after which the job is tried again or dead
	EventExpired // leases that ran out, after which the job is tried again or dead; part of an EventDue
)

// contextError is for a verb that was given no context.
func contextError(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("work: ctx is nil")
	}
	return nil
}
