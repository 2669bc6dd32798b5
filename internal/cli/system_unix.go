//go:build unix

package cli

import (
	"errors"
	"os/exec"
	"syscall"
)

// onDrain calls f at SIGUSR1, until end is called.
func onDrain(f func()) (end func()) { return onSignal(syscall.SIGUSR1, f) }

// isolate has a command run in a process group of its own, which is killed as a whole when its context ends. An interrupt of the
// terminal is for this process, which then waits for the command.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithThis(cmd.SysProcAttr)
	cmd.Cancel = func() error { return killAll(cmd) }
}

// killAll kills a command that was isolated, and what it has started.
func killAll(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// terminate tells a command that was isolated, and what it has started, to end.
func terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// endedAsThis tells whether a command was ended by a signal that would end this process, too. A shell tells so of what it ran by an
// exit code.
func endedAsThis(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	s := syscall.Signal(status.ExitStatus() - 128)
	if status.Signaled() {
		s = status.Signal()
	}
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP
}

// isClosedPipe tells whether the other end of a pipe that is written to is closed.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
