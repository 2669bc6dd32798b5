package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

func queueAttr(name string) slog.Attr { return slog.String("queue", name) }

type moveIn struct {
	KeyIn
	Body moveBody
}

type moveBody struct {
	From string `json:"from" doc:"A queue or a priority queue."`
	To   string `json:"to" doc:"One of the same kind, which is made if there is none."`
	N    int    `json:"n,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Up to how many items."`
	End  end    `json:"end,omitempty" enum:"min,max" doc:"Of a priority queue. Default: min."`
}

type moved struct {
	Moved int `json:"moved" doc:"How many items, 0 if there were none."`
}

type moveOut struct{ Body moved }

// move moves items in one transaction.
func (a *api) move(ctx context.Context, in *moveIn) (*moveOut, error) {
	b, out := in.Body, new(moveOut)
	if err := errors.Join(access.Check(ctx, access.Consume, b.From), access.Check(ctx, access.Produce, b.To)); err != nil {
		return nil, err
	}
	if b.From == b.To {
		return nil, huma.Error422UnprocessableEntity("from and to are the same queue")
	}
	if kind, err := a.Queues.Kind(ctx, b.From); err == nil && kind == conq.KindWorkQueue {
		return nil, fmt.Errorf("%w: %q is a %s: jobs do not move", conq.ErrKind, b.From, kind)
	}
	from, kind, releaseFrom, err := a.items(ctx, b.From, b.End)
	if err != nil {
		return nil, err
	}
	defer releaseFrom()
	to, releaseTo, err := a.Queues.Items(ctx, b.To, kind, queues.Create)
	if err != nil {
		return nil, err
	}
	defer releaseTo()
	if err := from.Reclaim(ctx); err != nil { // what consumers have left that died, which a transaction does not
		return nil, err
	}
	return out, a.doOnce(ctx, in.Key, []any{"move", b}, &out.Body, func(tx kv.Tx) error {
		items, err := from.TakeIn(tx, queues.End(b.End == endMax), b.N)
		if out.Body.Moved = len(items); errors.Is(err, conq.ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		return to.AddAllIn(tx, items)
	})
}
