package handle

import (
	"context"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
)

// openTimeout bounds how long OpenQueue and OpenPriorityQueue take, as they have
// no context.
const openTimeout = 30 * time.Second

// register makes sure that the catalogue has the queue as kind.
func register(ctx context.Context, db kv.DB, name string, kind layout.Kind) error {
	var known bool
	err := reads.View(ctx, db, func(r kv.Reader) (err error) {
		known, err = layout.CheckEntry(r, name, kind)
		return err
	})
	if err != nil || known {
		return err
	}
	enter := func(tx kv.Tx) error {
		known, err := layout.CheckEntry(tx, name, kind)
		if err != nil || known {
			return err
		}
		layout.Enter(tx, name, kind)
		return nil
	}
	for { // it looks before it writes, so it may run again after an unknown commit
		if err := db.Transact(ctx, enter); !isUnknown(err) || ctx.Err() != nil {
			return err
		}
	}
}

// opening returns the context in which a queue is opened, for all that it takes.
func opening(name string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), openTimeout,
		timeoutError(fmt.Sprintf("conq: opening queue %q took longer than %v", name, openTimeout)))
}
