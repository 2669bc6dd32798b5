//go:build linux || freebsd

package cli

import "syscall"

// dieWithThis has a command killed when the thread ends that has started it; see starter.
func dieWithThis(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
