package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/cron"
)

// maxSpec bounds the bytes of a cron expression.
const maxSpec = 1024

// CheckCron returns what is wrong with an expression. A time between ticks that can't be kept is wrong, too: the parser
// rounds it to a second.
func CheckCron(spec string) error {
	if _, err := CronTick(spec, 0); err != nil {
		return err
	}
	_, text, _ := strings.Cut(spec, "@every ")
	if every, err := time.ParseDuration(text); err == nil && (every < time.Second || every%time.Second != 0) {
		return fmt.Errorf("cron expression %q: @every takes whole seconds, from 1s on", spec)
	}
	return nil
}

// CronTick returns when an expression is due next after a time.
func CronTick(spec string, after int64) (int64, error) {
	if len(spec) > maxSpec {
		return 0, fmt.Errorf("cron expression has %d bytes, %d are allowed", len(spec), maxSpec)
	}
	schedule, err := cron.Parse(spec)
	if zone := (*cron.ZoneError)(nil); errors.As(err, &zone) {
		return 0, fmt.Errorf("cron expression %q: %w", spec, err)
	}
	if err != nil {
		return 0, fmt.Errorf("cron expression %q: %w: it has five fields, as \"0 3 * * *\", or is as \"@every 90s\" or \"@daily\"", spec, err)
	}
	next := schedule.Next(time.UnixMicro(max(1, after)))
	if next.IsZero() || next.Year() > lastYear {
		return 0, fmt.Errorf("cron expression %q is never due", spec)
	}
	return next.UnixMicro(), nil
}

// lastYear is the last one whose microseconds are sure to be an int64.
const lastYear = 290_000
