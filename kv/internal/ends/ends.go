// Package ends is for tests that see what waits for the end of a context, and what is left waiting.
package ends

import "context"

// Counted is a context that counts what waits for its end.
type Counted struct {
	context.Context
	By *int
}

// AfterFunc implements what package context asks a context for that is not its own.
func (c Counted) AfterFunc(f func()) func() bool {
	*c.By++
	stop := context.AfterFunc(c.Context, f)
	return func() bool { *c.By--; return stop() }
}

// Value keeps package context from asking the one inside.
func (Counted) Value(any) any { return nil }
