//go:build !unix

package cli

// onDrain does nothing where there is no SIGUSR1.
func onDrain(func()) (end func()) { return func() {} }
