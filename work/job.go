package work

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// Errors to test for with errors.Is.
var (
	// ErrLeaseLost means that the lease is over, or was taken away. Nothing was changed, and another worker may have the job.
	ErrLeaseLost = jobs.ErrLeaseLost

	// ErrDuplicate means that there is a job with the same Unique, or was one within its UniqueFor. The
	// *DuplicateError has its id.
	ErrDuplicate = jobs.ErrDuplicate

	// ErrNotFound means that there is no job with that id, or no periodic job with that name.
	ErrNotFound = jobs.ErrNotFound

	// ErrState means that this can't be done to a job in its state.
	ErrState = jobs.ErrState

	// ErrChanged means that the settings of a queue are no longer those that a change of them began with.
	ErrChanged = jobs.ErrChanged

	// ErrCancelled is the cause with which a handler's context ends when its job was cancelled.
	ErrCancelled = errors.New("job was cancelled")

	// ErrTimeout is the cause with which a handler's context ends when its attempt has run for the Timeout of its job.
	ErrTimeout = errors.New("timed out")
)

// DuplicateError is an ErrDuplicate with the job that exists.
type DuplicateError struct {
	ID     ID
	Unique string
}

func (d *DuplicateError) Error() string {
	return fmt.Sprintf("%v: job %d has %q", ErrDuplicate, d.ID, d.Unique)
}

// Is makes it an ErrDuplicate.
func (d *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// told returns an error of the recipe as this package has it.
func told(err error) error {
	if d, ok := errors.AsType[*jobs.Duplicate](err); ok {
		return &DuplicateError{ID(d.ID), d.Unique}
	}
	return err
}

// State is the state of a job.
type State int

// The states of a job.
const (
	Ready     State = State(jobs.Ready)     // to be reserved
	Scheduled State = State(jobs.Scheduled) // ready at its time
	Leased    State = State(jobs.Leased)    // held by a worker until its deadline
	Blocked   State = State(jobs.Blocked)   // until a slot of its key is free
	Dead      State = State(jobs.Dead)      // given up; kept to be looked at
	Done      State = State(jobs.Done)      // acknowledged, and kept for a while
)

// String returns the state's name, in lower case.
func (s State) String() string { return jobs.State(s).String() }

// ParseState returns the state with that name: ready, scheduled, leased, blocked, dead or done. For others the error is kv.ErrInvalid.
func ParseState(name string) (State, error) {
	s, err := jobs.ParseState(name)
	return State(s), err
}

// ID identifies a job. It is unique in the store, never changes, and is never used again.
type ID int64

// Job is how a job is put. The zero Job has priority 0 and is ready at once.
type Job struct {
	// Priority is any int64. The lowest comes first.
	Priority int64

	// Delay or At is when the job becomes ready. Only one of them may be set. Default: at once.
	Delay time.Duration
	At    time.Time

	// Key limits concurrency: of the jobs with the same Key only Settings.KeyLimit are ready or leased at once; the
	// others are blocked. At most MaxText bytes.
	Key string

	// Unique prevents duplicates: while there is a job with the same Unique that is not done, Put returns
	// ErrDuplicate. At most MaxText bytes.
	Unique string

	// UniqueFor makes that hold for at least so long after Put, even if the job is done sooner.
	UniqueFor time.Duration

	// MaxAttempts and Lease override those of the queue's Settings.
	MaxAttempts int
	Lease       time.Duration

	// Timeout is how long each attempt may run, in place of Settings.Timeout: 1 ms to 30 days, or NoTimeout. Default: as the settings say.
	Timeout time.Duration

	// Meta is passed to workers unchanged. At most MaxMeta bytes.
	Meta map[string]string
}

// micros is a time as jobs have it.
func micros(t time.Time) int64 { return t.UnixMicro() }

// timeOf is the reverse of micros; 0 is no time.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// span is a number of microseconds as a duration, or the longest one: a job may be put for the year 9999, and that is 292 years.
func span(us int64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", kv.ErrInvalid, fmt.Errorf(format, args...))
}

func checkText(what, s string) error {
	switch {
	case len(s) > MaxText:
		return fmt.Errorf("%s has %d bytes, %d are allowed", what, len(s), MaxText)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q is not UTF-8", what, s)
	}
	return nil
}

// check returns what is wrong with j, and how to put it.
func (o *Options) check(j Job, payload []byte, now time.Time) (jobs.New, error) {
	n := jobs.New{
		Findable: o.findable,
		Payload:  payload, Priority: j.Priority, Key: j.Key, Unique: j.Unique, UniqueFor: j.UniqueFor.Microseconds(),
		MaxAttempts: int64(j.MaxAttempts), Lease: j.Lease.Microseconds(), Timeout: timeoutMicros(j.Timeout), Meta: j.Meta,
	}
	switch {
	case j.Delay != 0 && !j.At.IsZero():
		return n, invalid("both Delay and At are set")
	case j.Delay < 0:
		return n, invalid("a delay of %v: it can't be negative", j.Delay)
	case !j.At.IsZero() && (j.At.Year() < 1970 || j.At.Year() > 9999):
		return n, invalid("At is in the year %d: it can be 1970 to 9999", j.At.Year())
	case j.MaxAttempts < -1:
		return n, invalid("MaxAttempts is %d: it can be -1 (without end) or from 1 on", j.MaxAttempts)
	case j.UniqueFor < 0 || j.UniqueFor > 0 && j.Unique == "":
		return n, invalid("UniqueFor is %v: it can't be negative, and needs Unique", j.UniqueFor)
	}
	if !j.At.IsZero() {
		n.At = micros(j.At)
	} else if j.Delay > 0 {
		n.At = micros(now.Add(j.Delay))
	}
	bytes := 0
	for name, value := range j.Meta {
		bytes += len(name) + len(value)
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return n, invalid("metadata %q is not UTF-8", name)
		}
	}
	if bytes > MaxMeta {
		return n, invalid("metadata have %d bytes, %d are allowed", bytes, MaxMeta)
	}
	if j.Lease != 0 {
		if err := checkLease(j.Lease); err != nil {
			return n, fmt.Errorf("%w: %w", kv.ErrInvalid, err)
		}
	}
	if j.Timeout != 0 && j.Timeout != NoTimeout {
		if err := checkTimeout(j.Timeout); err != nil {
			return n, invalid("Timeout: %w, or NoTimeout", err)
		}
	}
	for _, err := range []error{checkText("Key", j.Key), checkText("Unique", j.Unique)} {
		if err != nil {
			return n, fmt.Errorf("%w: %w", kv.ErrInvalid, err)
		}
	}
	return n, nil
}

// Info is all that is known of a job.
type Info[T any] struct {
	ID          ID
	State       State
	Priority    int64
	Attempts    int // attempts that have begun
	MaxAttempts int // 0 is no limit
	Created     time.Time
	Time        time.Time // when it becomes ready, its lease is over, it died, or is removed; zero if ready or blocked
	Key, Unique string
	Holder      string // of its last lease
	Cancelled   bool
	Meta        map[string]string
	Lease       time.Duration // length of its leases; 0 is that of the handle that reserves it
	Timeout     time.Duration // of each attempt, its own or the queue's; 0 is without limit
	Failures    []Failure     // the last few, oldest first
	History     History
	Value       T // if DecodeError is nil
	Payload     []byte
	DecodeError error
}

// History counts what has happened to a job. Attempts that ended with a release count here, and not in Info.Attempts.
type History struct {
	Delay    time.Duration // the last delay that Put or Release was given
	Releases int
	Expiries int // leases that expired
	Buries   int // how often it died
	Kicks    int
}

func historyOf(h jobs.History) History {
	return History{span(h.Delay), int(h.Releases), int(h.Expiries), int(h.Buries), int(h.Kicks)}
}

// Failure is a failed attempt.
type Failure struct {
	Attempt int       `json:"attempt"`
	Time    time.Time `json:"time"`
	Error   string    `json:"error"`
	Holder  string    `json:"holder,omitempty"`
}

func failures(of *jobs.Job) (all []Failure) {
	for _, f := range of.Failures {
		all = append(all, Failure{int(f.Attempt), timeOf(f.Time), f.Error, f.Holder})
	}
	return all
}

// Filter selects jobs that match all of its fields. The zero Filter selects all jobs.
type Filter struct {
	State       State  // 0 is any
	Key         string // "" is any
	Contains    string // a text in the payload or in an attempt's error; "" is any
	MinAttempts int
	Holder      string    // who had the last lease; "" is any
	Before      time.Time // the job was put before; the zero time is any

	// Reverse makes pages and lists begin at the end.
	Reverse bool
}

func (f Filter) jobs() jobs.Filter {
	in := jobs.Filter{State: jobs.State(f.State), Key: f.Key, Contains: f.Contains, MinAttempts: int64(f.MinAttempts), Holder: f.Holder, Reverse: f.Reverse}
	if !f.Before.IsZero() {
		in.Before = max(micros(f.Before), 1) // 0 is any
	}
	return in
}

// String describes the filter in words.
func (f Filter) String() string {
	var parts []string
	if f.State != 0 {
		parts = append(parts, f.State.String())
	}
	if f.Key != "" {
		parts = append(parts, fmt.Sprintf("of key %q", f.Key))
	}
	if f.Contains != "" {
		parts = append(parts, fmt.Sprintf("that contain %q", f.Contains))
	}
	if f.MinAttempts > 0 {
		parts = append(parts, fmt.Sprintf("with at least %d attempts", f.MinAttempts))
	}
	if f.Holder != "" {
		parts = append(parts, fmt.Sprintf("last held by %q", f.Holder))
	}
	if !f.Before.IsZero() {
		parts = append(parts, "put before "+f.Before.UTC().Format(time.RFC3339))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}
