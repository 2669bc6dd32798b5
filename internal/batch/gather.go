package batch

import (
	"runtime"
	"time"
)

// How long a leader waits at most for callers that are about to come. A batch that begins without them makes batches
// alternate between half of the callers and the other half.
const (
	// ForCallers is for callers that the last batch has let go. Mostly they are back with their next call at once;
	// if not by then, they are busy with what they got.
	ForCallers = 80 * time.Microsecond

	// ForSync is for callers that share a sync of the disk. That takes longer than a transaction, so it is worth to wait for
	// slower ones.
	ForSync = 500 * time.Microsecond

	// ForHandOver is for consumers to whom items can be handed. They may need two syncs for what they took before, one after
	// the other.
	ForHandOver = 2 * time.Millisecond
)

// atLeast is less than a look takes. Looks are counted by it where the clock stands still, as in some tests.
const atLeast = 40 * time.Nanosecond

// Gather returns when enough does, or after limit. It does not sleep: a timer would take longer than most of these waits.
func Gather(limit time.Duration, enough func() bool) {
	began := time.Now()
	for looks := limit / atLeast; !enough() && looks > 0 && time.Since(began) <= limit; looks-- {
		runtime.Gosched()
	}
}

// GatherPart is Gather for half of the time that the last batch took: to wait longer costs more than it can gain.
func GatherPart(took, most time.Duration, enough func() bool) { Gather(min(took/2, most), enough) }
