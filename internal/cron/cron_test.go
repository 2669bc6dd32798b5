package cron

import (
	"archive/zip"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// wall is what a clock on the wall shows.
type wall struct{ minute, hour, date, month, weekday int }

func wallOf(t time.Time) wall {
	_, month, date := t.Date()
	hour, minute, _ := t.Clock()
	return wall{minute, hour, date, int(month), int(t.Weekday())}
}

// specs are expressions, and what they mean, said without this package.
var specs = []struct {
	text string
	is   func(wall) bool
}{
	{"0 0 * * *", func(w wall) bool { return w.minute == 0 && w.hour == 0 }},
	{"30 2 * * *", func(w wall) bool { return w.minute == 30 && w.hour == 2 }},
	{"*/15 * * * *", func(w wall) bool { return w.minute%15 == 0 }},
	{"0 12 30 4 *", func(w wall) bool { return w.minute == 0 && w.hour == 12 && w.date == 30 && w.month == 4 }},
	{"59 23 * * sun", func(w wall) bool { return w.minute == 59 && w.hour == 23 && w.weekday == 0 }},
	{"5,10 0-3 1,29 * 5", func(w wall) bool {
		return (w.minute == 5 || w.minute == 10) && w.hour <= 3 && (w.date == 1 || w.date == 29 || w.weekday == 5)
	}},
	{"45 1/2 * mar-apr,9-11 6-7", func(w wall) bool {
		return w.minute == 45 && w.hour%2 == 1 && (w.month == 3 || w.month == 4 || w.month >= 9 && w.month <= 11) && (w.weekday == 6 || w.weekday == 0)
	}},
	{"0 1 */2 * 1-5", func(w wall) bool {
		return w.minute == 0 && w.hour == 1 && (w.date%2 == 1 || w.weekday >= 1 && w.weekday <= 5)
	}},
}

// zones are the names of all time zones of IANA.
func zones(t *testing.T) (names []string) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	testkit.NoError(t, err)
	files, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	testkit.NoError(t, err)
	for _, f := range files.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	testkit.NoError(t, files.Close())
	if len(names) < 500 {
		t.Fatalf("there are only %d time zones", len(names))
	}
	return names
}

// In each zone schedules are due at the minutes that a search minute by minute finds: around each change of its clocks, and
// on some other days. With CONQ_THOROUGH=1 these are all days of eleven years.
func TestAllZones(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type change struct{ at, before, after int64 }
	seen := make(map[change]bool) // in another zone
	first, last := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range zones(t) {
		zone, err := time.LoadLocation(name)
		testkit.NoError(t, err)
		if os.Getenv("CONQ_THOROUGH") != "" {
			compareWithSearch(t, zone, first, last)
			continue
		}
		some := first.Add(time.Duration(random.Int64N(int64(last.Sub(first)) - 1))).Truncate(time.Minute)
		compareWithSearch(t, zone, some, some.Add(24*time.Hour))
		for at := first.In(zone); ; {
			_, end := at.ZoneBounds()
			if end.IsZero() || end.After(last) {
				break
			}
			_, before := end.Add(-time.Second).Zone()
			_, after := end.Zone()
			if c := (change{end.Unix(), int64(before), int64(after)}); !seen[c] {
				seen[c] = true
				compareWithSearch(t, zone, end.Add(-26*time.Hour), end.Add(26*time.Hour))
			}
			at = end
		}
	}
	if os.Getenv("CONQ_THOROUGH") == "" && len(seen) < 100 {
		t.Errorf("only %d changes of clocks were looked at", len(seen))
	}
}

func compareWithSearch(t *testing.T, zone *time.Location, first, last time.Time) {
	t.Helper()
	want := make([][]int64, len(specs))
	for at := first.In(zone); at.Before(last); at = at.Add(time.Minute) {
		w := wallOf(at)
		for i, s := range specs {
			if s.is(w) {
				want[i] = append(want[i], at.Unix())
			}
		}
	}
	for i, s := range specs {
		schedule, err := Parse("CRON_TZ=" + zone.String() + " " + s.text)
		testkit.NoError(t, err)
		var got []int64
		for at := schedule.Next(first.Add(-time.Nanosecond)); at.Before(last); at = schedule.Next(at) {
			got = append(got, at.Unix())
		}
		if !slices.Equal(got, want[i]) {
			t.Fatalf("%s: %q is due %v, want %v, from %v to %v", zone, s.text, got, want[i], first, last)
		}
	}
}

// What has gone wrong elsewhere: days without a midnight, and clocks that change by half an hour.
func TestNext(t *testing.T) {
	for _, c := range []struct{ spec, after, want string }{
		{"CRON_TZ=Africa/Cairo 0 12 30 4 *", "2027-01-01T00:00:00Z", "2027-04-30T12:00:00+03:00"},
		{"CRON_TZ=Asia/Beirut 0 12 30 3 *", "2027-01-01T00:00:00Z", "2027-03-30T12:00:00+03:00"},
		{"CRON_TZ=Australia/Lord_Howe 0 0 * * *", "2027-04-03T14:30:00Z", "2027-04-05T00:00:00+10:30"},
		{"TZ=UTC 0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"TZ=UTC @every 90s", "2025-01-01T00:00:00.7Z", "2025-01-01T00:01:30Z"},
		{"TZ=UTC @weekly", "2025-01-01T00:00:00Z", "2025-01-05T00:00:00Z"},
		{"TZ=UTC * * * * *", "2025-01-01T00:00:00Z", "2025-01-01T00:01:00Z"},
		{"TZ=Etc/GMT+12 0 0 * * *", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00-12:00"},
	} {
		s, err := Parse(c.spec)
		testkit.NoError(t, err)
		after, err := time.Parse(time.RFC3339, c.after)
		testkit.NoError(t, err)
		if got := s.Next(after).Format(time.RFC3339); got != c.want {
			t.Errorf("%q after %s is %s, want %s", c.spec, c.after, got, c.want)
		}
	}
}

// What can't be read, or is never due, is refused.
func TestParseRefuses(t *testing.T) {
	for _, spec := range []string{
		"", "*", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *", "* * * * 8",
		"5-1 * * * *", "*/0 * * * *", "*/-1 * * * *", "-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", ", * * * *", "a * * * *", "* * * foo *",
		"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "@never", "@every", "@every x", "@every ", "CRON_TZ=UTC", "CRON_TZ=No/Where * * * * *", "TZ=../x * * * * *",
	} {
		if s, err := Parse(spec); err == nil {
			t.Errorf("%q is due %v", spec, s.Next(time.Now()))
		}
	}
}

// Whatever is written: it is refused, or it is due soon.
func FuzzParse(f *testing.F) {
	for _, s := range specs {
		f.Add(s.text)
	}
	for _, spec := range []string{"@daily", "@every 5s", "CRON_TZ=Africa/Cairo 0 0 * * 7", "30 2 * * ?", "0 0 29 2 *", "*/7,3-5 1/2 ? jan-DEC sun,5-7/2", "TZ=", "TZ= * * * * *"} {
		f.Add(spec)
	}
	at := time.Date(2026, 5, 17, 3, 4, 5, 6, time.UTC)
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := Parse(spec)
		if err != nil {
			return
		}
		if next := s.Next(at); !next.After(at) {
			t.Fatalf("%q after %v is due %v", spec, at, next)
		}
	})
}
