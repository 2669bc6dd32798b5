package work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// Settings are how a queue works. They are stored with it, so they hold for all handles, programs and servers, however these were
// opened: a change holds at once for transactions that begin after it. Each field's zero value is its default.
type Settings struct {
	// Lease is how long a worker has a job before others get it, unless it extends the lease: 1 ms to 30 days.
	// Job.Lease overrides it. Default: 30 s.
	Lease time.Duration

	// MaxAttempts is how often a job is tried before it is dead; -1 is no limit. Job.MaxAttempts overrides it. Default: 20.
	MaxAttempts int

	// Backoff is how long a job waits after a failed attempt. Default: attempt^4 seconds, at most a day, 10 % more or less.
	Backoff Backoff

	// KeyLimit is how many jobs of one key may be ready or leased at once. Others are blocked. Default: 1,
	// so that jobs of a key run one after the other.
	KeyLimit int

	// Concurrency is how many jobs of the queue may be leased at once. Default: no limit.
	Concurrency int

	// Rate and KeyRate limit how often jobs of the queue, and jobs of one key, start. Default: no limit.
	Rate, KeyRate Rate

	// Keep is how long acknowledged jobs are kept for inspection, with their results. Default: not at all.
	Keep time.Duration

	// Order is NearlyStrict, Strict or Relaxed. Default: NearlyStrict.
	Order Order

	// UniqueWhileDead has a dead job hold its Unique until it is deleted. Default: a dead job holds it no longer.
	UniqueWhileDead bool

	// Timeout is how long an attempt may run, as far as Run knows of it: 1 ms to 30 days; 0, or NoTimeout, is without limit. See ErrTimeout.
	// Job.Timeout overrides it. Default: 0.
	Timeout time.Duration
}

// Backoff is how long a job waits after its failed attempts. The zero Backoff is the default: attempt^4 seconds, at most a day, 10 % more
// or less.
type Backoff struct {
	Kind   BackoffKind
	Base   time.Duration // what the first attempt costs, up to 30 days. Default: 1 s
	Max    time.Duration // the most, up to 365 days. Default: a day
	Power  int           // of a polynomial, 1 to 10. Default: 4
	Jitter float64       // the part by which a wait is longer or shorter, at random: 0 to 1. Default: 0
}

// BackoffKind is how the waits of a job grow.
type BackoffKind int

// The kinds of backoff.
const (
	Constant    BackoffKind = BackoffKind(jobs.Constant)    // Base
	Exponential BackoffKind = BackoffKind(jobs.Exponential) // Base, twice Base, four times...
	Polynomial  BackoffKind = BackoffKind(jobs.Polynomial)  // Base * attempt^Power
)

var backoffKinds = map[BackoffKind]string{Constant: "constant", Exponential: "exponential", Polynomial: "polynomial"}

// String returns the kind's name.
func (k BackoffKind) String() string { return backoffKinds[k] }

const maxBackoff = 365 * 24 * time.Hour

var defaultSettings = settingsOf(jobs.DefaultSettings)

func (b *Backoff) complete() error {
	if *b == (Backoff{}) {
		*b = defaultSettings.Backoff
	}
	if b.Kind == 0 {
		b.Kind = Polynomial
	}
	setDefault(&b.Base, time.Second)
	setDefault(&b.Max, 24*time.Hour)
	if b.Kind == Polynomial {
		setDefault(&b.Power, 4)
	}
	switch {
	case backoffKinds[b.Kind] == "":
		return fmt.Errorf("Backoff.Kind is %d: it can be Constant, Exponential or Polynomial", int(b.Kind))
	case b.Base < time.Microsecond || b.Base > MaxLease:
		return fmt.Errorf("Backoff.Base is %v: it can be 1 µs to %v", b.Base, MaxLease)
	case b.Max < time.Microsecond || b.Max > maxBackoff:
		return fmt.Errorf("Backoff.Max is %v: it can be 1 µs to %v", b.Max, maxBackoff)
	case b.Kind == Polynomial && (b.Power < 1 || b.Power > 10), b.Kind != Polynomial && b.Power != 0:
		return fmt.Errorf("Backoff.Power is %d: it can be 1 to 10, of a polynomial", b.Power)
	case !(b.Jitter >= 0 && b.Jitter <= 1):
		return fmt.Errorf("Backoff.Jitter is %v: it can be 0 to 1", b.Jitter)
	}
	b.Jitter = math.Round(1000*b.Jitter) / 1000 // as it is stored
	return nil
}

// Complete returns the settings with all defaults set, or what is wrong with them, as kv.ErrInvalid.
func (s Settings) Complete() (Settings, error) {
	setDefault(&s.Lease, defaultSettings.Lease)
	setDefault(&s.MaxAttempts, defaultSettings.MaxAttempts)
	setDefault(&s.KeyLimit, defaultSettings.KeyLimit)
	if s.Timeout == NoTimeout {
		s.Timeout = 0
	}
	const most = math.MaxInt32
	switch err := s.Backoff.complete(); {
	case err != nil:
		return s, invalid("%w", err)
	case checkLease(s.Lease) != nil:
		return s, invalid("Lease: %w", checkLease(s.Lease))
	case s.MaxAttempts < -1 || s.MaxAttempts > most:
		return s, invalid("MaxAttempts is %d: it can be -1 (without end) or 1 to %d", s.MaxAttempts, most)
	case s.KeyLimit < 1 || s.KeyLimit > most:
		return s, invalid("KeyLimit is %d: it can be 1 to %d", s.KeyLimit, most)
	case s.Concurrency < 0 || s.Concurrency > most:
		return s, invalid("Concurrency is %d: it can be 0 (any number) or 1 to %d", s.Concurrency, most)
	case !s.Rate.valid():
		return s, invalid("Rate is %d in %v: there can be 1 to %d in 1 µs to 30 days", s.Rate.N, s.Rate.Per, most)
	case !s.KeyRate.valid():
		return s, invalid("KeyRate is %d in %v: there can be 1 to %d in 1 µs to 30 days", s.KeyRate.N, s.KeyRate.Per, most)
	case s.Keep < 0:
		return s, invalid("Keep is %v: it can't be negative", s.Keep)
	case s.Timeout != 0 && checkTimeout(s.Timeout) != nil:
		return s, invalid("Timeout: %w, or 0 for none", checkTimeout(s.Timeout))
	case orders[s.Order] == "":
		return s, invalid("Order is %d: it can be NearlyStrict, Strict or Relaxed", int(s.Order))
	}
	for _, d := range []*time.Duration{&s.Lease, &s.Rate.Per, &s.KeyRate.Per, &s.Keep, &s.Backoff.Base, &s.Backoff.Max, &s.Timeout} {
		*d = d.Truncate(time.Microsecond) // as it is stored
	}
	return s, nil
}

// jobs returns completed settings as they are stored.
func (s Settings) jobs() jobs.Settings {
	b := s.Backoff
	return jobs.Settings{
		Lease: s.Lease.Microseconds(), MaxAttempts: int64(max(0, s.MaxAttempts)), KeyLimit: int64(s.KeyLimit), Concurrency: int64(s.Concurrency),
		Rate: s.Rate.micros(), KeyRate: s.KeyRate.micros(), Keep: s.Keep.Microseconds(), Strict: s.Order == Strict, Relaxed: s.Order == Relaxed, UniqueWhileDead: s.UniqueWhileDead,
		Timeout: s.Timeout.Microseconds(),
		Backoff: jobs.Backoff{
			Kind: jobs.BackoffKind(b.Kind), Base: b.Base.Microseconds(), Max: b.Max.Microseconds(), Power: int64(b.Power),
			Jitter: int64(math.Round(1000 * b.Jitter)),
		},
	}
}

func settingsOf(s jobs.Settings) Settings {
	b := s.Backoff
	of := Settings{
		Lease: span(s.Lease), MaxAttempts: int(s.MaxAttempts), KeyLimit: int(s.KeyLimit), Concurrency: int(s.Concurrency),
		Rate: rateOf(s.Rate), KeyRate: rateOf(s.KeyRate), Keep: span(s.Keep), UniqueWhileDead: s.UniqueWhileDead, Timeout: span(s.Timeout),
		Backoff: Backoff{BackoffKind(b.Kind), span(b.Base), span(b.Max), int(b.Power), float64(b.Jitter) / 1000},
	}
	if s.MaxAttempts == 0 {
		of.MaxAttempts = -1
	}
	switch {
	case s.Relaxed:
		of.Order = Relaxed
	case s.Strict:
		of.Order = Strict
	}
	return of
}

func rateOf(r jobs.Rate) Rate { return Rate{int(r.N), span(r.Period)} }

// Configure stores settings in place of those that there are. Transactions that begin after it has returned work by them, wherever
// they are. Jobs that are blocked by a limit that is higher now are let in.
func (q *Queue[T]) Configure(ctx context.Context, s Settings) error {
	_, err := q.ConfigureFrom(ctx, s, -1)
	return err
}

// ConfigureFrom is Configure if the version of the settings is the one given, and returns the new one. The error is ErrChanged if they have another
// version by now. -1 is any version.
func (q *Queue[T]) ConfigureFrom(ctx context.Context, s Settings, version int64) (int64, error) {
	s, err := s.Complete()
	if err != nil {
		return 0, q.wrap(err)
	}
	stored := int64(0)
	err = q.verb(ctx, verb{announce: true, do: func(at *jobs.Queue, tx kv.Tx, _ int64) (err error) {
		if stored, err = at.SetSettings(tx, s.jobs(), version); err != nil {
			return err
		}
		return q.entry.Enlist(tx)
	}})
	if err != nil {
		return 0, err
	}
	return stored, q.admit(ctx)
}

// admit lets in jobs that are blocked by a limit that is higher now.
func (q *Queue[T]) admit(ctx context.Context) error {
	var after []byte
	for {
		var next []byte
		err := q.verb(ctx, verb{announce: true, do: func(q *jobs.Queue, tx kv.Tx, now int64) (err error) {
			next, err = q.Admit(tx, now, after, admitted)
			return err
		}})
		if err != nil || next == nil {
			return err
		}
		after = next
	}
}

// Settings returns the settings of the queue, and their version, which grows with each change and is 0 as long as none were stored.
func (q *Queue[T]) Settings(ctx context.Context) (s Settings, version int64, err error) {
	err = q.view(ctx, func(r kv.Reader) error {
		at, err := q.recipe.At(r)
		if err == nil {
			var stored jobs.Settings
			stored, version = at.Settings()
			s = settingsOf(stored)
		}
		return err
	})
	return s, version, err
}

// String is as in "10/1s", which ParseRate reads; no limit is "none".
func (r Rate) String() string {
	if r == (Rate{}) {
		return "none"
	}
	return fmt.Sprintf("%d/%v", r.N, r.Per)
}

// ParseRate reads a rate as "100/s", "10/1m30s" or "none". A unit may be written without a number.
func ParseRate(text string) (Rate, error) {
	if text == "none" {
		return Rate{}, nil
	}
	number, per, found := strings.Cut(text, "/")
	if per != "" && strings.Trim(per, "µsmhun") == "" {
		per = "1" + per
	}
	n, err := strconv.Atoi(number)
	d, perErr := time.ParseDuration(per)
	r := Rate{n, d}
	if !found || err != nil || perErr != nil || r == (Rate{}) || !r.valid() {
		return Rate{}, invalid("rate %q: it is as 100/s, 10/1m30s or none, with 1 to %d in 1 µs to 30 days", text, math.MaxInt32)
	}
	return r, nil
}

// String is as in "exponential base=1s max=1h0m0s jitter=0.1", which ParseBackoff reads.
func (b Backoff) String() string {
	if b.complete() != nil {
		return "invalid"
	}
	text := fmt.Sprintf("%v base=%v max=%v", b.Kind, b.Base, b.Max)
	if b.Kind == Polynomial {
		text += fmt.Sprintf(" power=%d", b.Power)
	}
	return text + fmt.Sprintf(" jitter=%v", b.Jitter)
}

// ParseBackoff reads a backoff: constant, exponential or polynomial, and behind it any of base=, max=, power= and jitter=, separated by
// blanks or commas. "default" is the zero Backoff.
func ParseBackoff(text string) (b Backoff, err error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	if len(words) == 1 && words[0] == "default" {
		return Backoff{}, nil
	}
	wrong := func() error {
		return invalid("backoff %q: it is as \"exponential base=1s max=1h jitter=0.1\", or constant, or polynomial with power=4, or default", text)
	}
	if len(words) == 0 {
		return b, wrong()
	}
	for kind, name := range backoffKinds {
		if words[0] == name {
			b.Kind = kind
		}
	}
	if b.Kind == 0 {
		return b, wrong()
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "base":
			b.Base, err = time.ParseDuration(value)
		case "max":
			b.Max, err = time.ParseDuration(value)
		case "power":
			b.Power, err = strconv.Atoi(value)
		case "jitter":
			b.Jitter, err = strconv.ParseFloat(value, 64)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return Backoff{}, wrong()
		}
	}
	if err := b.complete(); err != nil {
		return Backoff{}, invalid("backoff %q: %w", text, err)
	}
	return b, nil
}

// String returns the order's name.
func (o Order) String() string { return orders[o] }

var orders = map[Order]string{NearlyStrict: "nearly-strict", Strict: "strict", Relaxed: "relaxed"}

// ParseOrder reads "nearly-strict", "strict" or "relaxed".
func ParseOrder(text string) (Order, error) {
	for o, name := range orders {
		if text == name {
			return o, nil
		}
	}
	return 0, invalid("order %q: it can be nearly-strict, strict or relaxed", text)
}
