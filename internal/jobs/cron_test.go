package jobs

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/tuple"
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

// In spring a time that is left out has no tick; in autumn one that comes twice has two, as work.Queue.Every says.
func TestCronClockChanges(t *testing.T) {
	for _, c := range []struct {
		spec  string
		after time.Time
		want  string // the three ticks that follow, in UTC
	}{
		{"CRON_TZ=Europe/Berlin 30 2 * * *", time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC), "29 00:30, 30 00:30, 31 00:30"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", time.Date(2027, 10, 30, 12, 0, 0, 0, time.UTC), "31 00:30, 31 01:30, 01 01:30"},
		{"CRON_TZ=Europe/Berlin 0 0 * * *", time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC), "27 23:00, 28 22:00, 29 22:00"},
	} {
		var ticks []string
		for at := c.after.UnixMicro(); len(ticks) < 3; {
			next, err := CronTick(c.spec, at)
			if err != nil {
				t.Fatal(err)
			}
			at = next
			ticks = append(ticks, time.UnixMicro(at).UTC().Format("02 15:04"))
		}
		if got := strings.Join(ticks, ", "); got != c.want {
			t.Errorf("%q after %v: %s, want %s", c.spec, c.after, got, c.want)
		}
	}
	if err := CheckCron("CRON_TZ=UTC"); err == nil || strings.Contains(err.Error(), "runtime") {
		t.Errorf("a time zone alone: %v", err)
	}
}

// Periodic jobs of format 1 are read, and what is stored is what was set.
func TestPeriodicFormats(t *testing.T) {
	old := withInts(nil, 1, 50, 7, -3, 4, 5000)
	old = tuple.AppendBytes(tuple.AppendString(tuple.AppendString(old, "@daily"), "k"), []byte("x"))
	p, err := decodePeriodic(nil, "p", old)
	want := &Periodic{Name: "p", Spec: "@daily", Next: 50, MaxLate: 7, Job: New{Priority: -3, MaxAttempts: 4, Lease: 5000, Key: "k", Payload: []byte("x")}}
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("format 1 is read as %+v (%v)", p, err)
	}
	want.Overlap, want.Last, want.LastPut = Replace, 9, 40
	want.Job.Unique, want.Job.UniqueFor, want.Job.Timeout, want.Job.Meta = "u", 5, 6, map[string]string{"m": "v"}
	if p, err = decodePeriodic(nil, "p", want.encode()); err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%+v is read as %+v (%v)", want, p, err)
	}
	if _, err := decodePeriodic(nil, "p", withInts(nil, 3)); err == nil {
		t.Error("format 3 is read")
	}
}
