package jobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
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
	schedule, err := parseCron(spec)
	if err != nil {
		return 0, fmt.Errorf("cron expression %q: %w: it has five fields, as \"0 3 * * *\", or is as \"@every 90s\" or \"@daily\"", spec, err)
	}
	next := schedule.Next(time.UnixMicro(max(1, after)))
	if next.IsZero() {
		return 0, fmt.Errorf("cron expression %q is never due", spec)
	}
	return next.UnixMicro(), nil
}

// parseCron is cron.ParseStandard, which panics on some input, and with Sunday also as 7.
func parseCron(spec string) (s cron.Schedule, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it does not parse")
		}
	}()
	return cron.ParseStandard(withSundayAsZero(spec))
}

// withSundayAsZero writes days of the week up to 7, which is Sunday for other crons, as the parser takes them.
func withSundayAsZero(spec string) string {
	fields := strings.Fields(spec)
	if len(fields) < 5 {
		return spec
	}
	last := len(fields) - 1
	parts := strings.Split(fields[last], ",")
	for i, part := range parts {
		parts[i] = daysUpToSeven(part)
	}
	fields[last] = strings.Join(parts, ",")
	return strings.Join(fields, " ")
}

// daysUpToSeven lists the days of a part as 7, 5-7 or 1-7/2. Others stay as they are, and the parser says what is wrong with them.
func daysUpToSeven(part string) string {
	days, every, stepped := strings.Cut(part, "/")
	from, to, ranged := strings.Cut(days, "-")
	if !ranged {
		to = from
	}
	first, err := strconv.Atoi(from)
	step, stepErr := 1, error(nil)
	if stepped {
		step, stepErr = strconv.Atoi(every)
	}
	if to != "7" || err != nil || stepErr != nil || first < 0 || first > 7 || step < 1 {
		return part
	}
	var list []string
	for day := first; day <= 7; day += step {
		list = append(list, strconv.Itoa(day%7))
	}
	return strings.Join(list, ",")
}
