package wal

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Syncs are counted in classes of up to 32 µs, 64 µs and so on, to 4 s, and of longer ones.
const (
	shortestSync = 32 * time.Microsecond
	syncClasses  = 18
)

// syncs is how long the disk was waited for.
type syncs struct {
	took    atomic.Int64
	classes [syncClasses + 1]atomic.Int64
}

func (s *syncs) add(d time.Duration) {
	s.took.Add(int64(d))
	class := bits.Len64(uint64(max(0, d-1) / shortestSync))
	s.classes[min(class, syncClasses)].Add(1)
}

// Syncs returns how often the log has waited for the disk, how long in all, and how often up to each of some bounds.
func (l *Log) Syncs() (n int64, took time.Duration, within map[time.Duration]int64) {
	s := &l.syncs
	within = make(map[time.Duration]int64, syncClasses)
	for i := range s.classes {
		n += s.classes[i].Load()
		if i < syncClasses {
			within[shortestSync<<i] = n
		}
	}
	return n, time.Duration(s.took.Load()), within
}
