//go:build unix && !linux

package main

import "syscall"

// maxrssUnit is in how many bytes the kernel counts resident memory.
const maxrssUnit = 1

// dieWithParent is not to be had here.
func dieWithParent(*syscall.SysProcAttr) {}
