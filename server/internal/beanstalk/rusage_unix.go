//go:build unix

package beanstalk

import (
	"syscall"
	"time"
)

// processorTime returns how long this process has run in its own code and in the system's.
func processorTime() (user, system time.Duration) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0, 0
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}
