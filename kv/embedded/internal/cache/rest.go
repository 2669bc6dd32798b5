package cache

// restStep is how many hot ranges or last keys are looked at in one go, so that others wait for microseconds.
const restStep = 256

// Rest forgets what nobody has asked for since the last call, so that a store that does little gives its memory back. Of a hot range the last
// keys stay until the next call, as when it is evicted.
func (c *Cache) Rest() {
	ranges, lastKeys := c.Len()
	for ; lastKeys > 0; lastKeys -= restStep {
		c.mu.Lock()
		c.lastKeys.rest(min(lastKeys, restStep))
		c.mu.Unlock()
	}
	for ; ranges > 0; ranges -= restStep {
		c.mu.Lock()
		for range min(ranges, restStep, c.line.Len()) {
			c.restFirst()
		}
		c.mu.Unlock()
	}
}

// restFirst forgets the first hot range, or has it go behind the others, if it was used.
func (c *Cache) restFirst() {
	h := c.line.First()
	if h.used {
		h.used = false
		c.line.Remove(&h.place)
		c.line.Add(&h.place, h)
		return
	}
	c.drop(h)
	c.lastKeys.keep(h)
}
