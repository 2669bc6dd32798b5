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
	transfer, release, err := a.transfer(ctx, b)
	if err != nil {
		return nil, err
	}
	defer release()
	do := func(tx kv.Tx) error {
		n, err := transfer(tx)
		out.Body.Moved = n
		return err
	}
	return out, a.doOnce(ctx, in.Key, []any{"move", b}, &out.Body, do)
}

// transfer returns what moves items in a transaction.
func (a *api) transfer(ctx context.Context, b moveBody) (f func(kv.Tx) (int, error), release func(), err error) {
	kind, err := a.Queues.Kind(ctx, b.From)
	switch {
	case err != nil:
		return nil, nil, err
	case kind == conq.KindWorkQueue:
		return nil, nil, fmt.Errorf("%w: %q is a %s: jobs do not move", conq.ErrKind, b.From, kind)
	case kind == conq.KindQueue && b.End != "":
		return nil, nil, huma.Error422UnprocessableEntity(fmt.Sprintf("end is for priority queues: %q is a %s", b.From, kind))
	}
	if kind == conq.KindQueue {
		from, to, release, err := both(ctx, b, a.Queues.FIFO)
		return func(tx kv.Tx) (int, error) { return transfer(from.In(tx).DequeueN, to.In(tx).EnqueueAll, b.N) }, release, err
	}
	from, to, release, err := both(ctx, b, a.Queues.Priority)
	return func(tx kv.Tx) (int, error) {
		take := from.In(tx).PopMinN
		if b.End == endMax {
			take = from.In(tx).PopMaxN
		}
		return transfer(take, to.In(tx).PushAll, b.N)
	}, release, err
}

// both opens the two queues, and puts back what consumers have left that died, which a transaction does not.
func both[Q interface{ Reclaim(context.Context) error }](ctx context.Context, b moveBody, open func(context.Context, string, queues.Mode) (Q, func(), error)) (from, to Q, release func(), err error) {
	from, releaseFrom, err := open(ctx, b.From, queues.Existing)
	if err != nil {
		return from, to, nil, err
	}
	to, releaseTo, err := open(ctx, b.To, queues.Create)
	if err == nil {
		err = from.Reclaim(ctx)
		release = func() { releaseFrom(); releaseTo() }
	} else {
		releaseFrom()
	}
	return from, to, release, err
}

func transfer[T any](take func(int) ([]T, error), add func([]T) error, n int) (int, error) {
	items, err := take(n)
	if errors.Is(err, conq.ErrEmpty) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return len(items), add(items)
}
