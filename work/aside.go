package work

// asideEntry is what could not be done.
type asideEntry struct {
	until, told int64
	due         bool // it is left out of what is due
}

// Bounds of what is set aside.
const (
	asideFor  = 60 * second // it is left alone, in microseconds
	tellAgain = 3600 * second
	maxAside  = 10_000
)

// without returns what is left out of what is due at a time.
func (k *keeper) without(now int64) (all [][]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for entry, a := range k.aside {
		if a.due && a.isAside(now) {
			all = append(all, []byte(entry))
		}
	}
	return all
}

func (a *asideEntry) isAside(now int64) bool { return now < a.until && a.until <= now+2*asideFor }

// isAside tells whether an entry is set aside at a time.
func (k *keeper) isAside(now int64, entry []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.aside[string(entry)]
	return a != nil && a.isAside(now)
}

// setAside notes what can't be read or done, and returns whether that is to be told. due leaves it out of what is due for a while.
func (k *keeper) setAside(now int64, entry []byte, due bool) (tell bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.aside[string(entry)]
	if a == nil {
		if len(k.aside) >= maxAside {
			clear(k.aside)
		}
		a = &asideEntry{}
		k.aside[string(entry)] = a
	}
	a.until, a.due = now+asideFor, a.due || due
	tell = a.told == 0 || now >= a.told+tellAgain || now < a.told
	if tell {
		a.told = now
	}
	return tell
}
