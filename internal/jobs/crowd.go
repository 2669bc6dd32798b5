package jobs

import (
	"bytes"
	"math/rand/v2"
	"sync"
)

// crowd is what one handle knows of those who reserve the same jobs at the same time, in other processes. After it has collided with
// one it begins behind the first ready jobs, at a random one, and the further behind the more often it collides. It is safe for
// concurrent use.
type crowd struct {
	mu     sync.Mutex
	width  int      // how many jobs it passes over at most; 0 is none
	until  int64    // when it forgets that it has collided
	window [][]byte // the first ready entries, as it has seen them last
	at     int      // at which of these the last reservation has begun; the next one goes on behind it
	uses   int      // reservations that may begin at one of these
	first  []byte   // the entry that was first then
	passed int      // how often it has been seen first
	tried  bool     // the last attempt has leased jobs, and done nothing else with which it could collide

	flights []*Flight // reservations of this handle that are under way
}

// What nearly strict order promises.
const (
	mostWidth    = 250    // jobs that are passed over by one reservation
	mostPassed   = 3      // looks at the first jobs in which a handle passes over the same one
	windowUses   = 16     // reservations between two looks
	crowdForgets = second // after a collision
)

// Start is where a reservation begins. The zero Start is at the first ready job.
type Start struct {
	entry []byte // the first ready entry that it looks at; nil is the first of all
	width int    // over how many of the first ones it may pass
	again bool   // it has collided

	flight *Flight // whose it is, if there may be others
	behind int     // how many of the first ones others are taking
}

// IsFirst tells whether it is at the first ready job.
func (s Start) IsFirst() bool { return s.entry == nil && s.width == 0 && s.behind == 0 }

// start returns where the next reservation begins. It has collided, if it is made again.
func (c *crowd) start(now int64, n int, again bool) (s Start) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again = again && c.tried
	s.again = again
	switch {
	case again:
		c.width = min(max(4*n, 2*c.width), mostWidth)
		c.until, c.uses = now+crowdForgets, c.uses/2 // what it has seen may be taken
	case now > c.until || now < c.until-crowdForgets:
		c.width = 0
	}
	switch {
	case c.width == 0:
		c.window, c.uses = nil, 0
	case c.uses > 0:
		c.uses--
		if c.at += n; c.at >= len(c.window) || again {
			c.at = slot(len(c.window), n)
		}
		s.entry = c.window[c.at]
	default:
		s.width = c.width
	}
	return s
}

// try notes whether an attempt may collide with others that reserve.
func (c *crowd) try(tried bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = tried
}

// calm notes that a reservation has not collided. As a collision doubles the width, an eighth makes one of six collide: with fewer collisions
// more would have to be read.
func (c *crowd) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.width -= (c.width + 7) / 8
}

// skip returns how many of the first ready entries a reservation of n jobs passes over: it leaves at least one.
func (c *crowd) skip(entries [][]byte, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !bytes.Equal(c.first, entries[0]) {
		c.first, c.passed = entries[0], 0
	}
	c.window, c.uses = entries, windowUses-1
	if len(entries) <= n {
		c.uses = 0 // nearly all are being taken
	}
	if c.passed++; c.passed > mostPassed {
		c.passed = 0
		return 0
	}
	c.at = slot(len(entries), n)
	return c.at
}

// slot returns where among some entries a reservation of n begins: at a multiple of n, so that it overlaps less with others.
func slot(entries, n int) int {
	if n < 1 || entries < 2*n {
		return rand.IntN(entries)
	}
	return n * rand.IntN(entries/n)
}
