package jobs

import (
	"fmt"
	"testing"
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
	for range 30 {
		c.calm()
	}
	if !c.start(now, 4, false).IsFirst() {
		t.Error("it does not take the first jobs after 30 reservations without a collision")
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
