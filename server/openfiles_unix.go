//go:build unix

package server

import "syscall"

// openFiles returns how many files the process can have open. Go has raised that to what it can be raised to.
func openFiles() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > unknown {
		return unknown
	}
	return int64(limit.Cur)
}
