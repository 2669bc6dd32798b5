package jobs

import (
	"testing"
	"time"
)

// Days of the week are those of other crons: 0 and 7 are Sunday, and names are as good as numbers.
func TestCronDaysOfTheWeek(t *testing.T) {
	monday := time.Date(2030, 1, 7, 0, 0, 0, 0, time.UTC)
	const none = ""
	for spec, want := range map[string]string{ // the days that follow, in a week
		"0 3 * * 7":       "Sun",
		"0 3 * * 0":       "Sun",
		"0 3 * * 0,7":     "Sun",
		"0 3 * * sun":     "Sun",
		"0 3 * * 1-7":     "Mon Tue Wed Thu Fri Sat Sun",
		"0 3 * * 5-7":     "Fri Sat Sun",
		"0 3 * * 1-7/2":   "Mon Wed Fri Sun",
		"0 3 * * 2,6-7":   "Tue Sat Sun",
		"0 3 * * 7-7":     "Sun",
		"0 3 * jan MON":   "Mon",
		"0 3 * * Mon-Fri": "Mon Tue Wed Thu Fri",
		"0 3 * * */7":     "Sun",

		"CRON_TZ=Europe/Berlin 0 3 * * 7": "Sun",
		"TZ=Europe/Berlin 0 3 * * 6-7":    "Sat Sun",

		"0 3 * * 8":     none,
		"0 3 * * 7-8":   none,
		"0 3 * * 5-7/0": none,
		"0 3 * * -7":    none,
		"0 3 * * 8-7":   none,
		"0 3 * 7":       none,
		"0 3 * * 7 7":   none,
	} {
		days, separator := "", ""
		for at := monday.Add(-time.Second); ; separator = " " {
			next, err := CronTick(spec, at.UnixMicro())
			if err != nil {
				if want != none {
					t.Errorf("%q: %v", spec, err)
				}
				break
			}
			if at = time.UnixMicro(next).UTC(); at.After(monday.AddDate(0, 0, 7)) {
				break
			}
			days += separator + at.Format("Mon")
		}
		if days != want {
			t.Errorf("%q is due on %q, want %q", spec, days, want)
		}
	}
}
