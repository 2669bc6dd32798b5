package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file in memory, or nil if there can't be one.
func memoryFile() *os.File {
	fd, err := unix.MemfdCreate("conq-job", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "conq-job")
}
