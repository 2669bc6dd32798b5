//go:build !unix

package embedded

func processFiles() uint64 { return 0 }
