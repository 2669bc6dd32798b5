package jobs

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
)

func entriesOf(n int) (entries [][]byte) {
	for i := range n {
		entries = append(entries, fmt.Appendf(nil, "%06d", i))
	}
	return entries
}

// One that is alone takes the first jobs: from the beginning, a second after its last collision, after some reservations without one, and
// when the clock is set back.
func TestCrowdAlone(t *testing.T) {
	const now = 10 * second
	collided := func() *crowd {
		c := &crowd{tried: true}
		for range 20 {
			if c.start(now, 4, true).IsFirst() {
				t.Fatal("it takes the first jobs after a collision")
			}
		}
		return c
	}
	if c := new(crowd); !c.start(now, 4, false).IsFirst() {
		t.Error("it does not begin with the first jobs")
	}
	if c := new(crowd); !c.start(now, 4, true).IsFirst() {
		t.Error("it does not begin with the first jobs, as it has collided over something else")
	}
	for _, then := range []int64{now + second + 1, now - 1} {
		if c := collided(); !c.start(then, 4, false).IsFirst() {
			t.Errorf("at %d, after a collision at %d, it does not take the first jobs", then, int64(now))
		}
	}
	c := collided()
	for range 60 {
		c.calm()
	}
	if !c.start(now, 4, false).IsFirst() {
		t.Error("it does not take the first jobs after 60 reservations without a collision")
	}
}

// What a crowded handle passes over is bounded, and it does not pass over the same first job for long.
func TestCrowdBounds(t *testing.T) {
	for _, ready := range []int{1, 2, 7, 100, 5000} {
		for _, n := range []int{1, 4, 64} {
			c, entries := &crowd{tried: true}, entriesOf(ready)
			passed := 0
			for range 5000 {
				s := c.start(1, n, true)
				at := 0
				switch {
				case s.entry != nil:
					if _, err := fmt.Sscanf(string(s.entry), "%06d", &at); err != nil {
						t.Fatal(err)
					}
				case s.width > mostWidth:
					t.Fatalf("it may pass over %d jobs", s.width)
				default:
					at = c.skip(entries[:min(ready, n+s.width)], n)
				}
				if at >= ready || at >= mostWidth+n {
					t.Fatalf("%d ready, %d wanted: it begins at job %d", ready, n, at)
				}
				if passed++; at == 0 {
					passed = 0
				}
				if passed > 64 {
					t.Fatalf("%d ready, %d wanted: the first job was passed over by %d reservations in a row", ready, n, passed)
				}
			}
		}
	}
}

// Reservations of one handle that are under way at the same time take jobs one behind the other, also when one of them is made again, and
// those before it have begun to take some, or have ended, by the time it has read what is there.
func TestFlights(t *testing.T) {
	q := NewQueue("q", kv.Limits{Shared: true}, Config{})
	entries := entriesOf(20)
	begins := func(what string, s Start, behind int, entry []byte) {
		t.Helper()
		if s.behind != behind || string(s.entry) != string(entry) {
			t.Errorf("%s begins behind %d jobs at %q, want %d at %q", what, s.behind, s.entry, behind, entry)
		}
	}
	skips := func(what string, f *Flight, n int) {
		t.Helper()
		if got := f.skip(entries); got != n {
			t.Errorf("%s passes over %d jobs, want %d", what, got, n)
		}
	}
	first := q.Begin(4)
	begins("the first one", q.Start(0, 4, 1, first), 0, nil)
	second, third := q.Begin(3), q.Begin(2)
	begins("the second one", q.Start(0, 3, 1, second), 4, nil)
	begins("the third one", q.Start(0, 2, 1, third), 4+3, nil)
	skips("the third one", third, 7)
	first.takes(entries[:4])
	skips("the third one, as the first has taken jobs,", third, 4+3)
	begins("the second one again", q.Start(0, 3, 1, second), 2, kv.After(entries[3]))
	begins("the third one again", q.Start(0, 2, 1, third), 3, kv.After(entries[3]))
	second.takes(entries[4:7])
	skips("the third one, as the second has, too,", third, 7)
	first.End()
	second.End()
	skips("the third one, as both have ended,", third, 7)
	begins("the third one then", q.Start(0, 2, 1, third), 0, nil)
	third.End()
	begins("one that is alone", q.Start(0, 2, 1, q.Begin(1)), 0, nil)
	for _, order := range []Settings{{Strict: true, Lease: 1}, {Relaxed: true, Lease: 1}} {
		if NewQueue("q", kv.Limits{Shared: true}, Config{Settings: order}).Flies() {
			t.Errorf("with %+v several may be under way at the same time", order)
		}
	}
}
