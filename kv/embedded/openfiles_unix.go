//go:build unix

package embedded

import "syscall"

// processFiles returns how many files the process may have open, or 0 if that is not known.
func processFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
