package cron

import (
	"math/bits"
	"time"
)

// A schedule is searched for so many years. The rarest one, of February 29, may have to wait for a few leap years.
const searched = 50

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// Next returns the first time after another one at which the schedule is due, or the zero time if that is in no year that
// is searched.
func (s *Schedule) Next(after time.Time) time.Time {
	from := time.Unix(after.Unix()+1, 0).In(s.zone)
	if s.every > 0 {
		return time.Unix(after.Unix(), 0).In(s.zone).Add(s.every)
	}
	end := from.AddDate(searched, 0, 0)
	for from.Before(end) {
		_, until := from.ZoneBounds() // as long as clocks are as far from UTC as now
		if until.IsZero() || until.After(end) {
			until = end
		}
		_, offset := from.Zone()
		ahead := int64(offset)
		if wall, found := s.nextWall(from.Unix()+ahead, until.Unix()+ahead); found {
			return time.Unix(wall-ahead, 0).In(s.zone)
		}
		from = until
	}
	return time.Time{}
}

// nextWall returns the first matching time of a clock that never changes, from one to before another one. Times are
// seconds, as Unix counts them.
func (s *Schedule) nextWall(from, until int64) (at int64, found bool) {
	from += floorMod(-from, minute)
	for from < until {
		midnight := from - floorMod(from, day)
		year, month, date := time.Unix(midnight, 0).UTC().Date()
		switch {
		case s.months&(1<<month) == 0:
			from = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix()
			continue
		case s.dayMatches(date, weekday(midnight)):
			if of, found := s.nextOfDay(from - midnight); found {
				return midnight + of, midnight+of < until
			}
		}
		from = midnight + day
	}
	return 0, false
}

// weekday returns the day of the week: January 1st, 1970 was a Thursday.
func weekday(midnight int64) int { return int(floorMod(midnight/day+4, 7)) }

// floorMod is a modulo that is never negative.
func floorMod(a, b int64) int64 { return ((a % b) + b) % b }

func (s *Schedule) dayMatches(date, weekday int) bool {
	isDate, isWeekday := s.days&(1<<date) != 0, s.weekdays&(1<<weekday) != 0
	if s.eitherDay {
		return isDate || isWeekday
	}
	return isDate && isWeekday
}

// nextOfDay returns the first matching minute of a day, in seconds, from one on.
func (s *Schedule) nextOfDay(from int64) (at int64, found bool) {
	h, m := from/hour, from%hour/minute
	if s.hours&(1<<h) != 0 {
		if rest := s.minutes >> m << m; rest != 0 {
			return h*hour + int64(bits.TrailingZeros64(rest))*minute, true
		}
	}
	rest := s.hours >> (h + 1) << (h + 1)
	if rest == 0 {
		return 0, false
	}
	return int64(bits.TrailingZeros64(rest))*hour + int64(bits.TrailingZeros64(s.minutes))*minute, true
}
