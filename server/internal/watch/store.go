package watch

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
)

// Bounds of what a store is asked about itself.
const (
	healthAfter = 5 * time.Second        // the last answer
	healthTime  = 2 * time.Second        // for an answer
	healthWait  = 100 * time.Millisecond // a pass waits for it; after that the next ones have it
	window      = 10                     // minutes of which there are percentiles of syncs
	maxPasses   = 600                    // the last ones, of which there are some
)

// Store is how the store itself is.
type Store struct {
	Health    kv.Health
	HealthErr error
	Synced    bool          // the engine tells of its syncs
	Syncs     int64         // how many there were lately
	Sync      Percentiles   // how long they took
	Over      time.Duration // in which they were: up to 10 minutes
	Pass      Percentiles   // how long it took to read all queues, the last 600 times
}

// Down is how many members of its cluster are down.
func (s *Store) Down() (n int) {
	for _, m := range s.Health.Members {
		if m.Down {
			n++
		}
	}
	return n
}

// Percentiles are the 50th, 95th and 99th.
type Percentiles [3]time.Duration

var percents = [3]int{50, 95, 99}

// watched is what a sampler knows of the store itself.
type watched struct {
	asking sync.WaitGroup

	mu      sync.Mutex
	asked   time.Time
	health  kv.Health
	err     error
	minutes []minute // of the window, oldest first
	passes  []time.Duration
}

// minute is how many syncs there had been when it began.
type minute struct {
	at    time.Time
	syncs kv.Syncs
}

// look returns how the store is after a pass.
func (w *watched) look(ctx context.Context, db kv.DB, now time.Time, took time.Duration) Store {
	w.ask(ctx, db, now)
	syncs, known := kv.SyncsOf(db)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Store{Health: w.health, HealthErr: w.err, Synced: known, Pass: w.pass(took)}
	if n := len(w.minutes); n == 0 || now.Sub(w.minutes[n-1].at) >= time.Minute {
		w.minutes = append(w.minutes, minute{now, syncs})
	}
	if len(w.minutes) > window {
		w.minutes = slices.Delete(w.minutes, 0, 1)
	}
	before := w.minutes[0]
	s.Over = now.Sub(before.at)
	s.Syncs, s.Sync = syncs.Count-before.syncs.Count, percentilesOf(before.syncs, syncs)
	return s
}

func (w *watched) pass(took time.Duration) (p Percentiles) {
	if w.passes = append(w.passes, took); len(w.passes) > maxPasses {
		w.passes = slices.Delete(w.passes, 0, 1)
	}
	sorted := slices.Sorted(slices.Values(w.passes))
	for i, percent := range percents {
		p[i] = sorted[len(sorted)*percent/100]
	}
	return p
}

// ask has the store say how it is, if it has not lately.
func (w *watched) ask(ctx context.Context, db kv.DB, now time.Time) {
	w.mu.Lock()
	due := now.Sub(w.asked) >= healthAfter || now.Before(w.asked)
	if due {
		w.asked = now
	}
	w.mu.Unlock()
	if !due {
		return
	}
	answered := make(chan struct{})
	w.asking.Go(func() {
		defer close(answered)
		ctx, cancel := context.WithTimeout(ctx, healthTime)
		defer cancel()
		health, _, err := kv.HealthOf(ctx, db)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.health, w.err = health, err
	})
	timer := time.NewTimer(healthWait)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	}
}

// percentilesOf infers percentiles of the syncs between two times, as between two bounds they were evenly spread.
func percentilesOf(before, after kv.Syncs) (p Percentiles) {
	bounds := slices.Sorted(maps.Keys(after.Within))
	n := after.Count - before.Count
	if n == 0 {
		return p
	}
	for i, percent := range percents {
		rank := float64(n) * float64(percent) / 100
		low, below := time.Duration(0), 0.0
		for _, bound := range bounds {
			within := float64(after.Within[bound] - before.Within[bound])
			if within >= rank && within > below {
				low += time.Duration(math.Round(float64(bound-low) * (rank - below) / (within - below)))
				break
			}
			low, below = bound, within
		}
		p[i] = low
	}
	return p
}
