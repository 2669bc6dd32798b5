package jobs

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Settings are how a queue works, whoever its handles are: they are stored with it. Times are in microseconds.
type Settings struct {
	Lease           int64 // of jobs that have none of their own
	MaxAttempts     int64 // of jobs that have none of their own; 0 is without end
	KeyLimit        int64 // how many jobs of a key may be out of blocked; at least 1
	Concurrency     int64 // how many may be leased at once; 0 is any number
	Rate            Rate  // of starts in the queue
	KeyRate         Rate  // of starts of one key
	Keep            int64 // how long jobs that are done are kept
	Backoff         Backoff
	Strict          bool  // reserve the first job, although processes collide
	Relaxed         bool  // reserve any of the first few hundred, so that processes don't collide
	UniqueWhileDead bool  // a dead job keeps its claim
	Timeout         int64 // how long an attempt of a job that has none of its own may run; 0 is without limit
}

const second = int64(time.Second / time.Microsecond)

// DefaultSettings are those of a queue for which none are stored.
var DefaultSettings = Settings{
	Lease: 30 * second, MaxAttempts: 20, KeyLimit: 1,
	Backoff: Backoff{Kind: Polynomial, Base: second, Max: 24 * 3600 * second, Power: 4, Jitter: 100},
}

// BackoffKind is how the time until the next attempt grows.
type BackoffKind int64

// The kinds of backoff: Base, Base * 2^(attempt-1), Base * attempt^Power.
const (
	Constant BackoffKind = iota + 1
	Exponential
	Polynomial
)

// Backoff is how long a job waits after a failed attempt.
type Backoff struct {
	Kind      BackoffKind
	Base, Max int64
	Power     int64 // of a polynomial
	Jitter    int64 // thousandths by which the time is longer or shorter, at random
}

// After returns how long a job waits after an attempt; the first one is 1.
func (b Backoff) After(attempt int64) int64 {
	d := float64(b.Base)
	switch n := float64(max(1, attempt)); b.Kind {
	case Exponential:
		d *= math.Exp2(n - 1)
	case Polynomial:
		d *= math.Pow(n, float64(b.Power))
	}
	jitter := float64(b.Jitter) / 1000
	return int64(min(d, float64(b.Max)) * (1 - jitter + 2*jitter*rand.Float64()))
}

// state is what every transaction of a queue may have to know: one key has it all.
type state struct {
	version  int64 // of the settings; 0 if none were ever stored
	paused   bool
	settings Settings
}

const stateFormat = 1

const (
	flagPaused = 1 << iota
	flagRelaxed
	flagUniqueWhileDead
	flagStrict
)

// ints are the integers that are stored, in order. New ones come last, so that a state without them is read with their defaults.
func (s *state) ints(flags *int64) []*int64 {
	o := &s.settings
	return []*int64{
		&s.version, flags, &o.Lease, &o.MaxAttempts, &o.KeyLimit, &o.Concurrency, &o.Rate.N, &o.Rate.Period, &o.KeyRate.N, &o.KeyRate.Period,
		&o.Keep, (*int64)(&o.Backoff.Kind), &o.Backoff.Base, &o.Backoff.Max, &o.Backoff.Power, &o.Backoff.Jitter, &o.Timeout,
	}
}

func (s *state) encode() []byte {
	var flags int64
	for flag, set := range map[int64]bool{flagPaused: s.paused, flagRelaxed: s.settings.Relaxed, flagUniqueWhileDead: s.settings.UniqueWhileDead, flagStrict: s.settings.Strict} {
		if set {
			flags |= flag
		}
	}
	b := withInts(nil, stateFormat)
	for _, i := range s.ints(&flags) {
		b = tuple.AppendInt(b, *i)
	}
	return b
}

// decodeState reads a state, with defaults for what it does not have.
func decodeState(key, b []byte, defaults Settings) (s state, err error) {
	s.settings = defaults
	if b == nil {
		return s, nil
	}
	format, rest, ok := tuple.NextInt(b)
	if !ok || format != stateFormat {
		return s, corrupt(key, "the settings have format %d, this version of conq knows %d", format, stateFormat)
	}
	var flags int64
	for _, i := range s.ints(&flags) {
		if len(rest) == 0 {
			break
		}
		if *i, rest, ok = tuple.NextInt(rest); !ok {
			return s, corrupt(key, "the settings are not integers")
		}
	}
	if len(rest) > 0 || s.version < 0 || flags >= flagStrict<<1 {
		return s, corrupt(key, "the settings are of a newer version of conq")
	}
	s.paused, s.settings.Relaxed, s.settings.UniqueWhileDead = flags&flagPaused != 0, flags&flagRelaxed != 0, flags&flagUniqueWhileDead != 0
	s.settings.Strict = flags&flagStrict != 0
	if err := s.settings.valid(); err != nil {
		return s, corrupt(key, "%v", err)
	}
	return s, nil
}

// At returns the queue as it works in the transaction of r, by the settings that are stored. It reads one key, and that conflicts
// with a change of the settings. Verbs that depend on settings are those of what At returns.
func (q *Queue) At(r kv.Reader) (*Queue, error) {
	value, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if known := q.latest.Load(); known != nil && bytes.Equal(known.stored, value) && (value == nil) == (known.stored == nil) {
		return known, nil
	}
	now, err := decodeState(q.state, value, q.defaults)
	if err != nil {
		return nil, err
	}
	at := *q
	at.config.Settings, at.version, at.paused, at.stored = now.settings, now.version, now.paused, value
	q.latest.Store(&at)
	return &at, nil
}

// readState returns what is stored of the settings, or nil. Where one process has the store that is by a range read, as the engine keeps
// what that has found in memory.
func (q *Queue) readState(r kv.Reader) ([]byte, error) {
	if q.far() {
		return r.Get(q.state)
	}
	for pair, err := range r.Range(kv.KeyRange(q.state), kv.RangeOptions{Limit: 1}) {
		return pair.Value, err
	}
	return nil, nil
}

// Limited tells whether the end of a lease may let another job start.
func (q *Queue) Limited() bool { return q.config.Concurrency > 0 }

// Latest returns the queue as it worked in the last transaction for which At was called, for what has no transaction.
func (q *Queue) Latest() *Queue {
	if known := q.latest.Load(); known != nil {
		return known
	}
	return q
}

// Settings returns the settings and their version, which is 0 if none were ever stored.
func (q *Queue) Settings() (Settings, int64) { return q.config.Settings, q.version }

// SetSettings stores settings, unless they are those that are stored, and returns their version. The error is an ErrChanged if from is not the version
// that is stored, nor -1.
func (q *Queue) SetSettings(tx kv.Tx, s Settings, from int64) (version int64, err error) {
	at, err := q.At(tx)
	switch {
	case err != nil:
		return 0, err
	case from >= 0 && from != at.version:
		return 0, ErrChanged
	case at.version > 0 && s == at.config.Settings:
		return at.version, nil
	}
	next := state{at.version + 1, at.paused, s}
	tx.Set(q.state, next.encode())
	return next.version, nil
}

// Pause has Reserve return nothing until it is called with false.
func (q *Queue) Pause(tx kv.Tx, paused bool) error {
	at, err := q.At(tx)
	if err == nil {
		next := state{at.version, paused, at.config.Settings}
		tx.Set(q.state, next.encode())
	}
	return err
}

// Paused tells whether the queue is paused. The queue is one of At.
func (q *Queue) Paused() bool { return q.paused }

// valid returns what can't be of settings that are stored, or come from elsewhere.
func (s *Settings) valid() error {
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{s.Lease > 0 && isLease(s.Lease), "a lease that is not up to 30 days"},
		{s.MaxAttempts >= 0 && s.MaxAttempts <= math.MaxInt32, "a number of attempts that can't be"},
		{s.KeyLimit >= 1 && s.KeyLimit <= math.MaxInt32, "a limit of jobs of a key that can't be"},
		{s.Concurrency >= 0 && s.Concurrency <= math.MaxInt32, "a concurrency that can't be"},
		{s.Rate.valid() && s.KeyRate.valid(), "a rate that can't be"},
		{isDuration(s.Keep), "a time to keep jobs that can't be"},
		{s.Backoff.valid(), "a backoff that can't be"},
		{isLease(s.Timeout), "a time limit that is not up to 30 days"},
	} {
		if !c.ok {
			return fmt.Errorf("the settings have %s", c.what)
		}
	}
	return nil
}

func (b Backoff) valid() bool {
	return b.Kind >= Constant && b.Kind <= Polynomial && b.Base >= 0 && isDuration(b.Base) && isDuration(b.Max) && b.Power >= 0 && b.Power <= 100 &&
		b.Jitter >= 0 && b.Jitter <= 1000
}

func (r Rate) valid() bool {
	return r == Rate{} || r.N > 0 && r.N <= math.MaxInt32 && r.Period > 0 && isLease(r.Period)
}
