package handle

import (
	"context"
	"fmt"
	"time"
)

// openTimeout bounds how long OpenQueue and OpenPriorityQueue take, as they have
// no context.
const openTimeout = 30 * time.Second

// opening returns the context in which a queue is opened, for all that it takes.
func opening(name string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), openTimeout,
		timeoutError(fmt.Sprintf("conq: opening queue %q took longer than %v", name, openTimeout)))
}
