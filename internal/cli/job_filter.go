package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

// conditions are those of a filter of jobs: flags of conq jobs, and parts of --all-matching.
var conditions = []struct {
	name, usage string
	set         func(f *work.Filter, value string) error
}{
	{"state", "only jobs that are in this `state`: ready, scheduled, leased, blocked, dead or done", func(f *work.Filter, value string) (err error) {
		f.State, err = work.ParseState(value)
		return err
	}},
	{"key", "only jobs of this `key`", func(f *work.Filter, value string) error {
		f.Key = value
		return nil
	}},
	{"contains", "only jobs with this `text` in the item or in an error", func(f *work.Filter, value string) error {
		f.Contains = value
		return nil
	}},
	{"min-attempts", "only jobs that were tried at least `N` times", func(f *work.Filter, value string) error {
		n, err := parseInteger("min-attempts", value)
		f.MinAttempts = int(n)
		return err
	}},
	{"holder", "only jobs that were leased last by this `holder`", func(f *work.Filter, value string) error {
		f.Holder = value
		return nil
	}},
	{"before", "only jobs put before this `time`, as 2030-01-02T03:04:05Z, or so long ago, as 24h", func(f *work.Filter, value string) (err error) {
		f.Before, err = parseBefore(value)
		return err
	}},
}

// parseBefore reads a time, or how long ago it was.
func parseBefore(value string) (time.Time, error) {
	if ago, err := time.ParseDuration(value); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		err = fmt.Errorf("before %.40q: it is a time, as 2030-01-02T03:04:05Z, or how long ago, as 24h", value)
	}
	return at, err
}

// registerConditions has a command take conditions as flags. One without a value is none.
func registerConditions(cmd *cobra.Command, f *work.Filter) {
	for _, c := range conditions {
		cmd.Flags().Func(c.name, c.usage, func(value string) error {
			if value == "" {
				return nil
			}
			return c.set(f, value)
		})
	}
}

// parseFilter reads the conditions of --all-matching.
func parseFilter(s string) (f work.Filter, err error) {
	if s == "" || s == "all" {
		return f, nil
	}
	for _, text := range splitConditions(s) {
		if err := setCondition(&f, text); err != nil {
			return f, usagef("--all-matching %.100q: a filter is as state=dead,key=K,contains=TEXT,min-attempts=3 (%w)", s, err)
		}
	}
	return f, nil
}

// splitConditions splits at commas that are not behind a backslash. Behind one any character stands for itself.
func splitConditions(s string) []string {
	parts, escaped := []string{""}, false
	for _, r := range s {
		last := &parts[len(parts)-1]
		switch {
		case escaped:
			*last, escaped = *last+string(r), false
		case r == '\\':
			escaped = true
		case r == ',':
			parts = append(parts, "")
		default:
			*last += string(r)
		}
	}
	if escaped {
		parts[len(parts)-1] += "\\"
	}
	return parts
}

func setCondition(f *work.Filter, text string) error {
	name, value, _ := strings.Cut(text, "=")
	for _, c := range conditions {
		switch {
		case c.name != name:
		case value == "":
			return fmt.Errorf("%s has no value", name)
		default:
			return c.set(f, value)
		}
	}
	return fmt.Errorf("%.60q is no condition", text)
}
