package work

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// A Lease that a test has made without a queue refuses its verbs.
func TestUnleased(t *testing.T) {
	l := &Lease[string]{ID: 1}
	for name, verb := range map[string]func(context.Context) error{
		"Ack":       l.Ack,
		"AckResult": func(ctx context.Context) error { return l.AckResult(ctx, []byte("x")) },
		"Extend":    func(ctx context.Context) error { return l.Extend(ctx, time.Second) },
		"Release":   func(ctx context.Context) error { return l.Release(ctx, 0) },
		"Fail":      func(ctx context.Context) error { return l.Fail(ctx, errors.New("no")) },
		"Bury":      func(ctx context.Context) error { return l.Bury(ctx, "no") },
	} {
		if err := verb(t.Context()); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%s: error %v, want kv.ErrInvalid", name, err)
		}
	}
}
