package cli

import (
	"errors"
	"os/exec"
	"syscall"
)

// onDrain does nothing, as there is no SIGUSR1.
func onDrain(func()) (end func()) { return func() {} }

func ownGroup(*exec.Cmd) {}

// errNoData is ERROR_NO_DATA: "the pipe is being closed".
const errNoData = syscall.Errno(232)

// isClosedPipe tells whether the other end of a pipe that is written to is closed.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errNoData)
}
