//go:build unix

package cli

import (
	"context"
	"os/signal"
	"syscall"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// A signal that a command takes for itself ends nothing any longer, however often it comes.
func TestOnSignal(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGUSR2)
	defer stop()
	called := make(chan struct{})
	end := onSignal(syscall.SIGUSR2, func() { called <- struct{}{} })
	for range 2 {
		testkit.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR2))
		<-called
	}
	end()
	testkit.NoError(t, ctx.Err())
}

// A process that ignores a signal, as one under nohup ignores hangups, goes on to do so.
func TestOnIgnoredSignal(t *testing.T) {
	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR2)
	onSignal(syscall.SIGUSR2, func() { t.Error("it was called") })()
	testkit.Equal(t, "ignored", signal.Ignored(syscall.SIGUSR2), true)
}
