package embedded

import "syscall"

// canMap tells whether a file that is mapped and one that is written to are the same to all who
// read or sync it. Elsewhere that is so too, but perhaps not for a sync.
const canMap = true

// mapFile maps a part of a file for writing. It is a variable for tests.
var mapFile = func(fd uintptr, offset int64, length int) ([]byte, error) {
	return syscall.Mmap(int(fd), offset, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmapFile(mapped []byte) error { return syscall.Munmap(mapped) }
