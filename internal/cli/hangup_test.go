package cli

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

func TestHangup(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	a := &app{hangup: make(chan os.Signal)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.watchHangup(stop)
	}()
	reloaded := make(chan struct{}, 1)
	a.onHangup(func() { reloaded <- struct{}{} })
	a.hangup <- syscall.SIGHUP
	<-reloaded
	testkit.NoError(t, ctx.Err())
	a.atHangup.Store(nil)
	a.hangup <- syscall.SIGHUP
	<-ctx.Done()
	testkit.Equal(t, "cause", context.Cause(ctx).Error(), "hangup signal received")
	close(a.hangup)
	<-done
}
