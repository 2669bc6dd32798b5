package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container need not have the zones of expressions
)

// Schedule is a parsed expression.
type Schedule struct {
	zone  *time.Location
	every time.Duration // 0 where there are fields

	// the bits of each field
	minutes, hours, days, months, weekdays uint64
	eitherDay                              bool // the day of the month or that of the week is enough
}

// field is what one field of an expression may have.
type field struct {
	name     string
	min, max int
	names    []string // of min and those after it
}

var (
	monthNames   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	fields = []field{
		{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil}, {"month", 1, 12, monthNames}, {"day of the week", 0, 7, weekdayNames},
	}
)

const (
	weekdayField = 4
	lastWeekday  = 6 // of "*"; 7 is Sunday once more
)

var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const everyPrefix = "@every "

// Parse reads an expression of five fields, a descriptor as @daily, or "@every 90s"; "CRON_TZ=zone " or "TZ=zone " may be in
// front. One that is never due is an error.
func Parse(spec string) (*Schedule, error) {
	s := &Schedule{zone: time.Local}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		zone, rest, found := strings.Cut(spec[strings.Index(spec, "=")+1:], " ")
		if !found {
			return nil, errors.New("there is nothing behind the time zone")
		}
		var err error
		if s.zone, err = time.LoadLocation(zone); err != nil {
			return nil, &ZoneError{zone, err}
		}
		spec = strings.TrimSpace(rest)
	}
	if text, found := strings.CutPrefix(spec, everyPrefix); found {
		every, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		s.every = max(time.Second, every.Truncate(time.Second))
		return s, nil
	}
	if strings.HasPrefix(spec, "@") {
		of, known := descriptors[spec]
		if !known {
			return nil, fmt.Errorf("there is no %.50q", spec)
		}
		spec = of
	}
	return s, s.parseFields(strings.Fields(spec))
}

// ZoneError is of an expression whose time zone is not known on this machine.
type ZoneError struct {
	Zone string
	Err  error
}

func (e *ZoneError) Error() string { return fmt.Sprintf("time zone %.100q: %v", e.Zone, e.Err) }

// Unwrap returns what the search for the zone has met with.
func (e *ZoneError) Unwrap() error { return e.Err }

func (s *Schedule) parseFields(texts []string) error {
	if len(texts) != len(fields) {
		return fmt.Errorf("it has %d fields, not five", len(texts))
	}
	var whole [5]bool // has a * or ?
	for i, to := range []*uint64{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays} {
		var err error
		if *to, whole[i], err = fields[i].parse(texts[i]); err != nil {
			return fmt.Errorf("%s: %w", fields[i].name, err)
		}
	}
	const sundays = 1 | 1<<7
	if s.weekdays&sundays != 0 {
		s.weekdays = s.weekdays&^sundays | 1
	}
	s.eitherDay = !whole[2] && !whole[weekdayField]
	if !s.eitherDay && !s.hasDate() {
		return errNever
	}
	return nil
}

var errNever = errors.New("it is never due")

// hasDate tells whether there is a day of a month that matches, in some year.
func (s *Schedule) hasDate() bool {
	for month := 1; month <= 12; month++ {
		longest := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if s.months&(1<<month) != 0 && bits.TrailingZeros64(s.days) <= longest {
			return true
		}
	}
	return false
}

// parse returns the bits of a list, and whether it has a * or ? that stands for any value.
func (f field) parse(list string) (set uint64, any bool, err error) {
	for part := range strings.SplitSeq(list, ",") {
		if part == "" {
			continue
		}
		some, star, err := f.parsePart(part)
		if err != nil {
			return 0, false, err
		}
		set, any = set|some, any || star
	}
	if set == 0 {
		return 0, false, errors.New("it is empty")
	}
	return set, any, nil
}

// parsePart reads one of: * ? 3 3-5, and any of these with /2 behind it.
func (f field) parsePart(part string) (set uint64, star bool, err error) {
	span, stepText, stepped := strings.Cut(part, "/")
	from, to, ranged := strings.Cut(span, "-")
	first, last, step := f.min, f.last(), 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, false, fmt.Errorf("%.50q: the step is a number from 1 on", part)
		}
	}
	if star = from == "*" || from == "?"; !star {
		if first, err = f.value(from); err != nil {
			return 0, false, err
		}
		switch {
		case ranged:
			if last, err = f.value(to); err != nil {
				return 0, false, err
			}
		case !stepped:
			last = first
		default:
			last = max(first, last) // 5/10 is from 5 to the end
		}
	}
	if first > last {
		return 0, false, fmt.Errorf("%.50q: the range ends before it begins", part)
	}
	for i := first; i <= last; i += min(step, 64) {
		set |= 1 << i
	}
	return set, star && step == 1, nil
}

// last is the last value of *.
func (f field) last() int {
	if f.max == fields[weekdayField].max {
		return lastWeekday
	}
	return f.max
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("%.50q: it can be %d to %d", text, f.min, f.max)
	}
	return v, nil
}
