// Package access says who may do what: a request carries a [Grant], which each verb asks.
package access

import (
	"context"
	"errors"
	"fmt"
)

// Scope is what a verb needs.
type Scope string

const (
	Produce Scope = "produce" // add items and jobs
	Consume Scope = "consume" // take them, end leases, look
	Admin   Scope = "admin"   // purge, pause, change others' jobs, look into the process
)

// ErrForbidden means that the caller is known, and may not do this.
var ErrForbidden = errors.New("not allowed")

// Grant says what a caller may do.
type Grant interface {
	// Name is how the caller is called in logs.
	Name() string
	// Allows tells whether it may do something to a queue; "" is the server itself.
	Allows(s Scope, queue string) bool
}

// Everyone is the grant of all callers of a server that has no tokens.
var Everyone Grant = everyone{}

type everyone struct{}

func (everyone) Name() string              { return "anyone" }
func (everyone) Allows(Scope, string) bool { return true }

type key struct{}

// With returns a context of a caller that has a grant.
func With(ctx context.Context, g Grant) context.Context { return context.WithValue(ctx, key{}, g) }

// Of returns the grant of a context, or nil.
func Of(ctx context.Context) Grant {
	g, _ := ctx.Value(key{}).(Grant)
	return g
}

// Check returns an ErrForbidden unless the context has a grant for that.
func Check(ctx context.Context, s Scope, queue string) error {
	g := Of(ctx)
	switch {
	case g == nil:
		return fmt.Errorf("%w: nobody has said who this is", ErrForbidden)
	case g.Allows(s, queue):
		return nil
	case queue == "":
		return fmt.Errorf("%w: %s has not the scope %s", ErrForbidden, g.Name(), s)
	}
	return fmt.Errorf("%w: %s has not the scope %s for queue %q", ErrForbidden, g.Name(), s, queue)
}
