package cli

import (
	"errors"
	"os/exec"
	"syscall"
)

// onDrain does nothing, as there is no SIGUSR1.
func onDrain(func()) (end func()) { return func() {} }

func isolate(*exec.Cmd) {}

func killAll(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// terminate does nothing: there is no signal that asks a command to end.
func terminate(*exec.Cmd) error { return errors.ErrUnsupported }

// endedAsThis tells whether a command was ended by the interrupt of the terminal that ends this process, too.
func endedAsThis(err error) bool {
	const controlC = 0xC000013A
	var exit *exec.ExitError
	return errors.As(err, &exit) && uint32(exit.ExitCode()) == controlC
}

// errNoData is ERROR_NO_DATA: "the pipe is being closed".
const errNoData = syscall.Errno(232)

// isClosedPipe tells whether the other end of a pipe that is written to is closed.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errNoData)
}
