//go:build unix && !linux && !freebsd

package cli

import "syscall"

// dieWithThis does nothing, as a command can't be made to die with this process.
func dieWithThis(*syscall.SysProcAttr) {}
