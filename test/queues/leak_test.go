// Package queues tests what users call, from outside.
package queues

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind: what is closed is gone.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
