package main

import "syscall"

// maxrssUnit is in how many bytes the kernel counts resident memory.
const maxrssUnit = 1024

// dieWithParent has the kernel kill a server when this process is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
