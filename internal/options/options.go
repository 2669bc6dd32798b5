// Package options has what all functions with optional arguments do the same. Options are one struct, given at most once,
// as the last argument, and the zero value is the default. It imports kv, for the errors.
package options

import (
	"context"
	"fmt"
	"reflect"

	"github.com/conq-go/conq/kv"
)

// Only returns the options given, or the zero value. More than one are a kv.ErrInvalid.
func Only[O any](given []O) (o O, err error) {
	switch len(given) {
	case 0:
		return o, nil
	case 1:
		return given[0], nil
	}
	return o, fmt.Errorf("%w: %d %s given, at most one is allowed", kv.ErrInvalid, len(given), reflect.TypeFor[O]().Name())
}

// Context returns a kv.ErrInvalid for a nil context, or the cause of one that has ended.
func Context(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: context is nil", kv.ErrInvalid)
	}
	return context.Cause(ctx)
}
