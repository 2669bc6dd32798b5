package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// jobOrders are what a work queue can have.
var jobOrders = []string{work.Strict.String(), work.NearlyStrict.String(), work.Relaxed.String()}

// askSet shows the settings of a work queue as a form.
func (d *Dashboard) askSet(c *confirm) error {
	var s work.Settings
	var version int64
	err := d.withWork(c.visit, c.Queue.Name, func(q *queues.Work) (err error) {
		s, version, err = q.Settings(c.visit)
		return err
	})
	c.Title, c.Button = "Settings of "+visible(c.Queue.Name), "Set"
	c.Detail = "They are stored with the queue, and hold at once for all its workers, wherever these run. An empty field is the default."
	c.Fields = []field{
		{Name: "lease", Label: "Lease", Value: s.Lease.String(), Help: "How long a worker has a job before others get it."},
		{Name: "tries", Label: "Most attempts", Value: strconv.Itoa(s.MaxAttempts), Help: "A job is dead then; -1 is without end."},
		{Name: "backoff", Label: "Backoff", Value: s.Backoff.String(), Help: "How long a job waits after a failed attempt: constant, exponential or polynomial, with base, max, jitter, and power of a polynomial."},
		{Name: "keylimit", Label: "Key limit", Value: strconv.Itoa(s.KeyLimit), Help: "How many jobs of one key may be ready or leased at once."},
		{Name: "concurrency", Label: "Concurrency", Value: noneOr(s.Concurrency), Help: "How many jobs may be leased at once, or none for any number."},
		{Name: "rate", Label: "Rate", Value: s.Rate.String(), Help: "How many jobs may start, as 100/s or 10/1m30s, or none for any number."},
		{Name: "keyrate", Label: "Key rate", Value: s.KeyRate.String(), Help: "The same, of the jobs of one key."},
		{Name: "keep", Label: "Keep", Value: noneOr(s.Keep), Help: "How long acknowledged jobs are kept, with their results, or none."},
		{Name: "order", Label: "Order", Value: s.Order.String(), Kind: "choice", Choices: jobOrders, Help: "strict; nearly-strict: but for what other processes are taking; or relaxed: roughly."},
		{Name: "held", Label: "Unique while dead", Value: map[bool]string{true: "yes", false: "no"}[s.UniqueWhileDead], Kind: "choice", Choices: []string{"yes", "no"}, Help: "yes: a dead job holds its unique text until it is deleted."},
		{Name: "timeout", Label: "Timeout", Value: noneOr(s.Timeout), Help: "How long an attempt may run before its worker ends it, or none."},
		{Name: "version", Kind: "hidden", Value: strconv.FormatInt(version, 10)},
	}
	return err
}

func (d *Dashboard) doSet(c *confirm) (queues.Task, error) {
	s, version, err := settingsOf(c)
	if err != nil {
		return queues.Task{}, wrong("%v", err)
	}
	return d.onQueue(c, "", "All workers work by the new settings.", func(ctx context.Context, q *queues.Work) error {
		_, err := q.ConfigureFrom(ctx, s, version)
		if errors.Is(err, work.ErrChanged) {
			err = fmt.Errorf("%w: open the form again to see what they are", err)
		}
		return err
	})
}

// settingsOf reads what was typed, and the version of the settings that were shown.
func settingsOf(c *confirm) (s work.Settings, version int64, err error) {
	version, err = integer(c.query.Get("version"), "version")
	for _, f := range []struct {
		name, label string
		read        func(text string) error
	}{
		{"lease", "Lease", reading(&s.Lease, duration)},
		{"keep", "Keep", reading(&s.Keep, orNone(duration))},
		{"timeout", "Timeout", reading(&s.Timeout, orNone(duration))},
		{"tries", "Most attempts", reading(&s.MaxAttempts, number)},
		{"keylimit", "Key limit", reading(&s.KeyLimit, number)},
		{"concurrency", "Concurrency", reading(&s.Concurrency, orNone(number))},
		{"backoff", "Backoff", reading(&s.Backoff, work.ParseBackoff)},
		{"rate", "Rate", reading(&s.Rate, work.ParseRate)},
		{"keyrate", "Key rate", reading(&s.KeyRate, work.ParseRate)},
		{"order", "Order", reading(&s.Order, work.ParseOrder)},
		{"held", "Unique while dead", reading(&s.UniqueWhileDead, yesOrNo)},
	} {
		if text := strings.TrimSpace(c.query.Get(f.name)); text != "" && err == nil {
			if err = f.read(text); err != nil {
				err = fmt.Errorf("%s: %w", f.label, err)
			}
		}
	}
	if err == nil {
		s, err = s.Complete()
	}
	return s, version, err
}

// reading returns what sets a value to what a text says.
func reading[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*to, err = parse(text)
		return err
	}
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

// noneOr is what orNone reads.
func noneOr[T comparable](value T) string {
	if value == *new(T) {
		return "none"
	}
	return fmt.Sprint(value)
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		err = wrong("%.40q is no duration: it is as 1.5s, 2m or 1h30m.", text)
	}
	return d, err
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		err = wrong("%.40q is no integer.", text)
	}
	return n, err
}

func yesOrNo(text string) (bool, error) {
	if text != "yes" && text != "no" {
		return false, wrong("%.40q is neither yes nor no.", text)
	}
	return text == "yes", nil
}
