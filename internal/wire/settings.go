package wire

import (
	"fmt"

	"github.com/conq-go/conq/work"
)

// Settings are how a work queue works. What is left out is its default.
type Settings struct {
	Version         *int64   `json:"version,omitempty" minimum:"0" doc:"Grows with each change, and is 0 as long as there was none. In a change: the version that it begins with. If another one is stored by then, nothing is changed. Default: whatever is stored."`
	Lease           Duration `json:"lease,omitzero" doc:"How long a worker has a job before others get it: 1ms to 720h. Default: 30s."`
	MaxAttempts     int      `json:"max_attempts,omitempty" doc:"How often a job is tried before it is dead; -1 is without end. Default: 20."`
	Backoff         string   `json:"backoff,omitempty" maxLength:"200" doc:"How long a job waits after a failed attempt, as \"exponential base=1s max=1h jitter=0.1\": constant, exponential or polynomial, the last with power=4. Default: polynomial base=1s max=24h0m0s power=4 jitter=0.1."`
	KeyLimit        int      `json:"key_limit,omitempty" doc:"How many jobs of one key may be ready or leased at once. Default: 1."`
	Concurrency     int      `json:"concurrency" required:"false" doc:"How many jobs may be leased at once; 0 is any number. Default: 0."`
	Rate            string   `json:"rate,omitempty" maxLength:"100" doc:"How many jobs may start, as 100/s or 10/1m30s; none is any number. Default: none."`
	KeyRate         string   `json:"key_rate,omitempty" maxLength:"100" doc:"The same, of the jobs of one key. Default: none."`
	Keep            Duration `json:"keep" required:"false" doc:"How long acknowledged jobs are kept, with their results. Default: 0s."`
	Order           string   `json:"order,omitempty" enum:"nearly-strict,strict,relaxed" doc:"Default: nearly-strict, which is strict on a store that one process has."`
	UniqueWhileDead bool     `json:"unique_while_dead" required:"false" doc:"A dead job holds its unique text until it is deleted. Default: false."`
	Timeout         Timeout  `json:"timeout" required:"false" doc:"How long an attempt may run before its worker is to end it: 1ms to 720h; 0s, or none, is without limit. Default: 0s."`
}

// SettingsOf returns settings with their version.
func SettingsOf(s work.Settings, version int64) Settings {
	return Settings{
		Version: &version, Lease: Duration{s.Lease}, MaxAttempts: s.MaxAttempts, Backoff: s.Backoff.String(), KeyLimit: s.KeyLimit,
		Concurrency: s.Concurrency, Rate: s.Rate.String(), KeyRate: s.KeyRate.String(), Keep: Duration{s.Keep}, Order: s.Order.String(),
		UniqueWhileDead: s.UniqueWhileDead, Timeout: Timeout{s.Timeout},
	}
}

// Settings returns them, and the version that they are a change of, or -1 for any. What is wrong is a kv.ErrInvalid.
func (s *Settings) Settings() (of work.Settings, version int64, err error) {
	of = work.Settings{
		Lease: s.Lease.Duration, MaxAttempts: s.MaxAttempts, KeyLimit: s.KeyLimit, Concurrency: s.Concurrency, Keep: s.Keep.Duration,
		UniqueWhileDead: s.UniqueWhileDead, Timeout: s.Timeout.Duration,
	}
	version = -1
	if s.Version != nil {
		version = *s.Version
	}
	for _, text := range []struct {
		name, value string
		parse       func(string) error
	}{
		{"backoff", s.Backoff, func(t string) (err error) { of.Backoff, err = work.ParseBackoff(t); return err }},
		{"rate", s.Rate, func(t string) (err error) { of.Rate, err = work.ParseRate(t); return err }},
		{"key_rate", s.KeyRate, func(t string) (err error) { of.KeyRate, err = work.ParseRate(t); return err }},
		{"order", s.Order, func(t string) (err error) { of.Order, err = work.ParseOrder(t); return err }},
	} {
		if text.value == "" {
			continue
		}
		if err := text.parse(text.value); err != nil {
			return of, version, fmt.Errorf("%s: %w", text.name, err)
		}
	}
	of, err = of.Complete()
	return of, version, err
}
