//go:build !windows

package cli

import (
	"errors"
	"syscall"
)

// isClosedPipe tells whether the other end of a pipe that is written to is closed.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
