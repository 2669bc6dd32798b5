package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const setLong = `Set how a work queue works: its limits, retries and leases. The settings are stored with
the queue. They hold at once for all workers, wherever they run, and stay until they
are set again. Flags that are not given leave theirs as it is. With the queue alone
it prints the settings. A work queue is made if there is none.

A rate is as 100/s or 10/1m30s. Rates, --concurrency, --keep and --timeout may be none. A backoff is as "exponential base=1s max=1h
jitter=0.1", or constant, or polynomial with power=4, or default.`

const setExample = `  conq set emails --concurrency 10 --rate 100/s
  conq set emails --max-attempts 5 --backoff "exponential base=2s max=10m"
  conq set emails`

// setting is a flag of set.
type setting struct {
	name string
	copy func(to, from *work.Settings)
	zero bool // it may be 0, which is not its default otherwise
}

// settingFlags registers flags that say settings.
func settingFlags(flags *pflag.FlagSet, s *work.Settings) []setting {
	flags.DurationVar(&s.Lease, "lease", 0, "how long a worker has a job before others get it")
	integerFlag(flags, &s.MaxAttempts, "max-attempts", "", 0, "how often a job is tried before it is dead; -1 is without end")
	flags.Var(parsed[work.Backoff]{&s.Backoff, work.ParseBackoff}, "backoff", "how long a job waits after a failed attempt")
	integerFlag(flags, &s.KeyLimit, "key-limit", "", 0, "how many jobs of one key may be ready or leased at once")
	flags.Var(parsed[int]{&s.Concurrency, orNone(parseCount)}, "concurrency", "how many jobs may be leased at once, or none for any number")
	flags.Var(parsed[work.Rate]{&s.Rate, work.ParseRate}, "rate", "how many jobs may start, as 100/s, or none for any number")
	flags.Var(parsed[work.Rate]{&s.KeyRate, work.ParseRate}, "key-rate", "how many jobs of one key may start, as 1/10s, or none for any number")
	flags.Var(parsed[time.Duration]{&s.Keep, orNone(time.ParseDuration)}, "keep", "how long acknowledged jobs are kept, with their results, or none")
	flags.Var(parsed[work.Order]{&s.Order, work.ParseOrder}, "order", "strict; nearly-strict: but for what other processes are taking; or relaxed: roughly")
	flags.BoolVar(&s.UniqueWhileDead, "unique-while-dead", false, "a dead job holds its --unique until it is deleted")
	flags.Var(parsed[time.Duration]{&s.Timeout, work.ParseTimeout}, "timeout", "how long an attempt may run before its worker ends it, or none")
	return []setting{
		{"lease", func(to, from *work.Settings) { to.Lease = from.Lease }, false},
		{"max-attempts", func(to, from *work.Settings) { to.MaxAttempts = from.MaxAttempts }, false},
		{"backoff", func(to, from *work.Settings) { to.Backoff = from.Backoff }, true},
		{"key-limit", func(to, from *work.Settings) { to.KeyLimit = from.KeyLimit }, false},
		{"concurrency", func(to, from *work.Settings) { to.Concurrency = from.Concurrency }, true},
		{"rate", func(to, from *work.Settings) { to.Rate = from.Rate }, true},
		{"key-rate", func(to, from *work.Settings) { to.KeyRate = from.KeyRate }, true},
		{"keep", func(to, from *work.Settings) { to.Keep = from.Keep }, true},
		{"order", func(to, from *work.Settings) { to.Order = from.Order }, true},
		{"unique-while-dead", func(to, from *work.Settings) { to.UniqueWhileDead = from.UniqueWhileDead }, true},
		{"timeout", func(to, from *work.Settings) { to.Timeout = from.Timeout }, true},
	}
}

// parsed is a flag whose text a function reads.
type parsed[T any] struct {
	value *T
	parse func(string) (T, error)
}

func (p parsed[T]) Set(text string) (err error) {
	*p.value, err = p.parse(text)
	return err
}

func (p parsed[T]) String() string { return "" }

func (p parsed[T]) Type() string {
	switch any(p.value).(type) {
	case *time.Duration:
		return "duration"
	case *int:
		return "int"
	}
	return "text"
}

// orNone reads what parse does, or none, which is 0.
func orNone[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (value T, err error) {
		if text != "none" {
			value, err = parse(text)
		}
		return value, err
	}
}

func parseCount(text string) (n int, err error) {
	err = integer[int]{"number", &n}.Set(text)
	return n, err
}

func (a *app) set() *cobra.Command {
	var wanted work.Settings
	cmd := &cobra.Command{Use: "set QUEUE", Short: "Set how a work queue works: limits, rates, retries", Long: setLong, Example: setExample, Args: onlyQueueArgument}
	all := settingFlags(cmd.Flags(), &wanted)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var given []setting
		for _, s := range all {
			if flag := cmd.Flags().Lookup(s.name); flag.Changed {
				if given = append(given, s); !s.zero && (flag.Value.String() == "0" || flag.Value.String() == "0s") {
					return usagef("--%s can't be 0", s.name)
				}
			}
		}
		if len(given) == 0 {
			return a.withJobs(ctx, args[0], func(q jobQueue) error { return a.showSettings(ctx, q) })
		}
		if _, err := wanted.Complete(); err != nil { // before a queue is made
			return usage(err)
		}
		return a.withNewJobs(ctx, args[0], 0, func(q jobQueue) error { return usage(changeSettings(ctx, q, given, &wanted)) })
	}
	return cmd
}

// changeSettings changes some settings, and leaves the others as they are, also where somebody else changes them at the same time.
func changeSettings(ctx context.Context, q jobQueue, given []setting, wanted *work.Settings) error {
	for {
		s, version, err := q.Settings(ctx)
		if err != nil {
			return err
		}
		for _, g := range given {
			g.copy(&s, wanted)
		}
		if _, err = q.ConfigureFrom(ctx, s, version); !errors.Is(err, work.ErrChanged) {
			return err
		}
	}
}

func (a *app) showSettings(ctx context.Context, q jobQueue) error {
	s, version, err := q.Settings(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(wire.SettingsOf(s, version))
	}
	w := a.table()
	for _, row := range settingRows(s) {
		fmt.Fprintf(w, "%s\t%s\n", row.name, row.value)
	}
	return w.Flush()
}

type settingRow struct{ name, value string }

// settingRows are settings as set takes them.
func settingRows(s work.Settings) []settingRow {
	concurrency := "none"
	if s.Concurrency > 0 {
		concurrency = count(s.Concurrency)
	}
	span := func(d time.Duration) string {
		if d == 0 {
			return "none"
		}
		return d.String()
	}
	attempts := "without end"
	if s.MaxAttempts > 0 {
		attempts = count(s.MaxAttempts)
	}
	return []settingRow{
		{"lease", s.Lease.String()}, {"max attempts", attempts}, {"backoff", s.Backoff.String()}, {"key limit", count(s.KeyLimit)},
		{"concurrency", concurrency}, {"rate", s.Rate.String()}, {"key rate", s.KeyRate.String()}, {"keep", span(s.Keep)},
		{"order", s.Order.String()}, {"unique while dead", map[bool]string{true: "yes", false: "no"}[s.UniqueWhileDead]},
		{"timeout", span(s.Timeout)},
	}
}
