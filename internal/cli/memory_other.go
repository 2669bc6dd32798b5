//go:build !linux

package cli

import "os"

// memoryFile returns nil, as there are no files in memory.
func memoryFile() *os.File { return nil }
