package testkit

import "context"

// CountedContext is a context that counts what waits for its end: so a test sees what is left waiting.
type CountedContext struct {
	context.Context
	By *int
}

// AfterFunc implements what package context asks a context for that is not its own.
func (c CountedContext) AfterFunc(f func()) func() bool {
	*c.By++
	stop := context.AfterFunc(c.Context, f)
	return func() bool { *c.By--; return stop() }
}

// Value keeps package context from asking the one inside.
func (CountedContext) Value(any) any { return nil }
