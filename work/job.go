package work

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/jobs"
)

// Errors of verbs, to be tested for with errors.Is.
var (
	// ErrLeaseLost means that the lease is over, or was taken away: nothing was changed, and somebody else may have the job.
	ErrLeaseLost = jobs.ErrLeaseLost

	// ErrDuplicate means that a job of the same Unique is there, or was within its UniqueFor. A
	// *DuplicateError has its id.
	ErrDuplicate = jobs.ErrDuplicate

	// ErrNotFound means that there is no job of that id, or no periodic job of that name.
	ErrNotFound = jobs.ErrNotFound

	// ErrState means that the verb does not apply to a job in its state.
	ErrState = jobs.ErrState

	// ErrCorrupt means that what is stored is not what this package writes. The error names the key.
	ErrCorrupt = jobs.ErrCorrupt

	// ErrInvalid means an argument that is out of its bounds. The error names both.
	ErrInvalid = errors.New("invalid argument")

	// ErrCancelled is the cause of a handler's context whose job was cancelled.
	ErrCancelled = errors.New("job was cancelled")
)

// DuplicateError says which job is there already.
type DuplicateError = jobs.Duplicate

// State is where a job is.
type State = jobs.State

// The states of a job.
const (
	Ready     = jobs.Ready
	Scheduled = jobs.Scheduled
	Leased    = jobs.Leased
	Blocked   = jobs.Blocked
	Dead      = jobs.Dead
	Done      = jobs.Done
)

// ParseState returns the state of that name: ready, scheduled, leased, blocked, dead or done.
func ParseState(name string) (State, error) { return jobs.ParseState(name) }

// ID is a job's. It is unique in the store, never changes, and never comes again.
type ID int64

// Job is how a job is put. The zero value is a job that is ready at once.
type Job struct {
	// Priority: the lowest is first.
	Priority int64

	// Delay or At, of which only one can be set, is when the job is ready. Default: at once.
	Delay time.Duration
	At    time.Time

	// Key: of jobs with the same one, only Options.KeyLimit are ready or leased at once. At most MaxText bytes.
	Key string

	// Unique: while a job with the same one is not done, Put returns ErrDuplicate. At most MaxText bytes.
	Unique string

	// UniqueFor is how long that holds at least, from Put on.
	UniqueFor time.Duration

	// MaxAttempts and Lease are in place of those of Options.
	MaxAttempts int
	Lease       time.Duration

	// Meta is handed to workers as it is. At most MaxMeta bytes.
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

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
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
	setDefault(&j.MaxAttempts, o.MaxAttempts)
	n := jobs.New{
		Findable: o.Findable,
		Payload:  payload, Priority: j.Priority, Key: j.Key, Unique: j.Unique, UniqueFor: j.UniqueFor.Microseconds(),
		MaxAttempts: int64(max(0, j.MaxAttempts)), Lease: j.Lease.Microseconds(), Meta: j.Meta,
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
		if !utf8.ValidString(name + value) {
			return n, invalid("metadata %q is not UTF-8", name)
		}
	}
	if bytes > MaxMeta {
		return n, invalid("metadata have %d bytes, %d are allowed", bytes, MaxMeta)
	}
	if j.Lease != 0 {
		if err := checkLease(j.Lease); err != nil {
			return n, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	for _, err := range []error{checkText("Key", j.Key), checkText("Unique", j.Unique)} {
		if err != nil {
			return n, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return n, nil
}

// Info is all that there is to know of a job.
type Info[T any] struct {
	ID          ID
	State       State
	Priority    int64
	Attempts    int // that have begun
	MaxAttempts int // 0 is without end
	Created     time.Time
	Time        time.Time // when it is ready, its lease is over, it died, or is forgotten; zero in other states
	Key, Unique string
	Holder      string // of its last lease
	Cancelled   bool
	Meta        map[string]string
	Lease       time.Duration // how long its leases are; 0 is up to the handle
	Failures    []Failure     // the last few, oldest first
	History     History
	Value       T // if DecodeError is nil
	Payload     []byte
	DecodeError error
}

// History is what has happened to a job. Attempts that ended in a release are not among Info.Attempts, but here.
type History struct {
	Delay    time.Duration // that Put or Release asked for last
	Releases int
	Expiries int // leases that ran out
	Buries   int // how often it died
	Kicks    int
}

func historyOf(h jobs.History) History {
	return History{time.Duration(h.Delay) * time.Microsecond, int(h.Releases), int(h.Expiries), int(h.Buries), int(h.Kicks)}
}

// Failure is how an attempt ended.
type Failure struct {
	Attempt int
	Time    time.Time
	Error   string
	Holder  string
}

func failures(of *jobs.Job) (all []Failure) {
	for _, f := range of.Failures {
		all = append(all, Failure{int(f.Attempt), timeOf(f.Time), f.Error, f.Holder})
	}
	return all
}

// Filter says which jobs; the zero Filter is all.
type Filter struct {
	State       State  // 0 is any
	Key         string // "" is any
	Contains    string // in the payload or the error of an attempt; "" is any
	MinAttempts int
	Holder      string    // of its last lease; "" is any
	Before      time.Time // it was put; the zero time is any

	// Reverse has pages and lists begin with the last one.
	Reverse bool
}

func (f Filter) jobs() jobs.Filter {
	in := jobs.Filter{State: f.State, Key: f.Key, Contains: f.Contains, MinAttempts: int64(f.MinAttempts), Holder: f.Holder, Reverse: f.Reverse}
	if !f.Before.IsZero() {
		in.Before = micros(f.Before)
	}
	return in
}

// String says what the filter says.
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
