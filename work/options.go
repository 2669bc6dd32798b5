package work

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/jobs"
)

// Order is the order in which jobs are leased.
type Order int

// The orders.
const (
	// NearlyStrict is by priority and arrival, but for what others are taking: a handle whose Reserve has collided with that of another
	// process passes over the first jobs for up to a second after that, up to 250 of them, and over the same one up to 64
	// times in a row. Reserves of one handle at the same time take jobs one behind the other; one that is alone is strict. So are jobs of one Key, where KeyLimit is 1, and a store that one process has to itself.
	NearlyStrict Order = iota
	Strict             // by priority and arrival, although processes that reserve collide
	Relaxed            // approximately so: any of the first few hundred
)

// Rate limits how many jobs start: after a rest up to N at once, and then one in each Per/N. So in the first Per of a burst up
// to 2N-1 start, and N in each that follows. The zero Rate is no limit.
type Rate struct {
	N   int
	Per time.Duration // 1 µs to 30 days
}

// Options configure a handle: what belongs to one process. How the queue works is in its Settings.
type Options struct {
	// Settings are stored as those of the queue, if they differ from those that are. Default: those that are stored count.
	Settings *Settings

	// Backoff returns how long a job waits after an attempt that failed in this handle; the first attempt is 1. Less than 0 is 0.
	// Default: Settings.Backoff.
	Backoff func(attempt int) time.Duration

	// Skew is how far the clocks of machines that share the store may differ. Other workers get a job only
	// when its lease has been over for that long. Default: 1 s on a store that processes share, else 0.
	Skew time.Duration

	// findable has jobs be found by one read. Jobs that were put so by earlier versions have a key for it.
	findable bool

	// Holder names this process in the jobs that it leases. Default: host name and process id.
	Holder string

	// NoCombining gives each call a transaction of its own. Default: false.
	NoCombining bool

	// Observe is called for each event, in the goroutine of a caller or of the handle, also at the same time, once the event is durable. It must
	// return quickly, and must not call the handle. Default: none.
	Observe func(Event)

	// MakeLater has Open leave the store as it is if there is no such queue: it is made with its first job. Default: false.
	MakeLater bool

	// Logger gets what goes wrong in the background, that Open has changed the settings, and which jobs a process that has ended left. Default: none.
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

// complete checks the options, and sets defaults.
func (o *Options) complete(shared bool) error {
	if o.Skew == 0 && shared {
		o.Skew = time.Second
	}
	o.Holder = cmp.Or(o.Holder, DefaultHolder())
	if o.Skew < 0 {
		return fmt.Errorf("Options.Skew is %v: it can't be negative", o.Skew)
	}
	if o.Settings != nil {
		s, err := o.Settings.Complete()
		if err != nil {
			return fmt.Errorf("Options.Settings: %w", err)
		}
		o.Settings = &s
	}
	return checkText("Options.Holder", o.Holder)
}

// DefaultHolder is the Holder of a process that has set none: host name and process id.
func DefaultHolder() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", strings.ToValidUTF8(host, "?"), os.Getpid())
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

func checkTimeout(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("a time limit of %v: it can be %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

// NoTimeout is the Timeout of a job whose attempts may run without limit, also where Settings.Timeout is one.
const NoTimeout time.Duration = -1

// ParseTimeout reads a Job.Timeout: a duration, or "none".
func ParseTimeout(text string) (time.Duration, error) {
	if text == "none" {
		return NoTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalid("a time limit of %.40q: it is as 1.5s, 2m or 1h30m, or none", text)
	}
	return d, nil
}

func timeoutMicros(d time.Duration) int64 {
	if d == NoTimeout {
		return jobs.NoTimeout
	}
	return d.Microseconds()
}

func (r Rate) valid() bool {
	return r == Rate{} || r.N > 0 && r.N <= math.MaxInt32 && r.Per >= time.Microsecond && r.Per <= MaxLease
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
	EventExpired // leases expired, or were of a runner whose process has ended: the jobs are retried, or dead; these are among the jobs of an EventDue, too
)

// contextError is for a verb that was given no context.
func contextError(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	return nil
}
