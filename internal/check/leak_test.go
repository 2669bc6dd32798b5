package check_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind: what is closed is gone.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
