//go:build unix

package cli

import (
	"errors"
	"os/exec"
	"syscall"
)

// onDrain calls f at SIGUSR1, until end is called.
func onDrain(f func()) (end func()) { return onSignal(syscall.SIGUSR1, f) }

// ownGroup has a command run in a process group of its own, all of which is killed when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// isClosedPipe tells whether the other end of a pipe that is written to is closed.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
