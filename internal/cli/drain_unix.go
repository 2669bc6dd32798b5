//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// onDrain calls f at SIGUSR1, until end is called.
func onDrain(f func()) (end func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		defer close(done)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
