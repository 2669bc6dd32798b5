package work

import (
	"context"
	"fmt"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Open returns a handle of a work queue, and registers the queue in the store's catalogue if it is new. Names
// are as for conq.OpenQueue. Where one process has the store, jobs that runners of earlier processes had leased are tried again; see Run. The error is conq.ErrKind if a queue of that name exists and is of another kind. Open a
// queue once, and share the handle.
func Open[T any](ctx context.Context, db kv.DB, name string, c queue.Codec[T], opts ...Options) (*Queue[T], error) {
	o, err := options.Only(opts)
	if err != nil {
		return nil, err
	}
	switch {
	case db == nil:
		return nil, invalid("store is nil")
	case c == nil:
		return nil, invalid("work queue %q: codec is nil", name)
	}
	if err := o.complete(db.Limits().Shared); err != nil {
		return nil, fmt.Errorf("%w: work queue %q: %w", kv.ErrInvalid, name, err)
	}
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	if err := register(ctx, db, name, o.MakeLater); err != nil {
		return nil, err
	}
	q := &Queue[T]{codec: c}
	q.init(db, name, o)
	q.forgetOthers(ctx)
	q.endOrphans(ctx)
	if o.Settings != nil {
		if err := q.declare(ctx, *o.Settings); err != nil {
			_ = q.Close()
			return nil, err
		}
	}
	return q, nil
}

// declare stores settings if they differ from those that are stored.
func (q *Queue[T]) declare(ctx context.Context, s Settings) error {
	stored, version, err := q.Settings(ctx)
	if err != nil || version > 0 && stored == s {
		return err
	}
	version, err = q.ConfigureFrom(ctx, s, -1)
	if err == nil && q.options.Logger != nil {
		q.options.Logger.Info("settings of a work queue changed", "queue", q.name, "version", version, "from", stored, "to", s)
	}
	return err
}

// forgetOthers removes outcome keys of handles that have not been used for long: most of their processes have died.
func (e *engine) forgetOthers(ctx context.Context) {
	if err := outcome.ForgetOthers(ctx, e.db, jobs.Outcomes(e.name)); err != nil && e.options.Logger != nil {
		e.options.Logger.Debug("old outcome keys could not be removed", "queue", e.name, "error", err)
	}
}

// register enters a queue in the catalogue of the store, unless it is there. With later it only looks whether it could.
func register(ctx context.Context, db kv.DB, name string, later bool) error {
	if err := layout.CheckName(name); err != nil {
		return err
	}
	if later {
		return layout.CheckQueue(ctx, db, name, queue.KindWorkQueue)
	}
	return layout.Register(ctx, db, name, queue.KindWorkQueue)
}
