package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

type moveIn struct {
	KeyIn
	Body wire.Move
}

func (in moveIn) queue() string { return in.Body.From }

// move moves items in one transaction.
func (a *api) move(ctx context.Context, in *moveIn) (out wire.Moved, err error) {
	b := in.Body
	if err := access.Check(ctx, access.Produce, b.To); err != nil {
		return out, err
	}
	if b.From == b.To {
		return out, huma.Error422UnprocessableEntity("from and to are the same queue")
	}
	if kind, err := a.Queues.Kind(ctx, b.From); err == nil && kind == conq.KindWorkQueue {
		return out, fmt.Errorf("%w: %q is a %s: jobs do not move", conq.ErrKind, b.From, kind)
	}
	from, kind, releaseFrom, err := a.items(ctx, b.From, b.End)
	if err != nil {
		return out, err
	}
	defer releaseFrom()
	to, releaseTo, err := a.Queues.Items(ctx, b.To, kind, queues.Create)
	if err != nil {
		return out, err
	}
	defer releaseTo()
	if in.Key == "" {
		out.Moved, err = orNone(handle.Move(ctx, from, to, wire.EndOf(b.End), b.N))
		return out, err
	}
	if err := from.Reclaim(ctx); err != nil { // what consumers have left that died, which a transaction does not
		return out, err
	}
	err = a.once(ctx, answers.Request{Key: in.Key}, []any{"move", b}, &out, func(tx kv.Tx) (any, error) {
		n, err := orNone(handle.MoveIn(tx, from, to, wire.EndOf(b.End), b.N))
		return wire.Moved{Moved: n}, err
	})
	return out, err
}

// orNone has nothing moved where there was nothing.
func orNone(n int, err error) (int, error) {
	if errors.Is(err, conq.ErrEmpty) {
		return 0, nil
	}
	return n, err
}
