package work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// atOnce is in how many queues Find looks in one transaction.
const atOnce = 1000

// find returns the name of the queue that has a job, or ErrNotFound: see tubeverbs.Find. A job that was put as findable is found by one read.
func find(ctx context.Context, db kv.DB, id int64, first ...string) (name string, err error) {
	if db == nil {
		return "", invalid("store is nil")
	}
	if err := contextError(ctx); err != nil {
		return "", err
	}
	look := func(find func(r kv.Reader) (string, error)) error {
		return db.ReadTransact(ctx, func(r kv.Reader) (err error) {
			name, err = find(r)
			return err
		})
	}
	err = look(func(r kv.Reader) (string, error) { return jobs.Find(r, id) })
	among := func(names []string) {
		for part := range slices.Chunk(names, atOnce) {
			if errors.Is(err, ErrNotFound) {
				err = look(func(r kv.Reader) (string, error) { return jobs.Among(r, id, part) })
			}
		}
	}
	if among(first); errors.Is(err, ErrNotFound) {
		infos, failed := layout.List(ctx, db)
		if failed != nil {
			return "", fmt.Errorf("job %d: %w", id, failed)
		}
		var names []string
		for _, info := range infos {
			if info.Kind == queue.KindWorkQueue && !info.Deleting {
				names = append(names, info.Name)
			}
		}
		among(names)
	}
	if err != nil {
		return "", fmt.Errorf("job %d: %w", id, err)
	}
	return name, nil
}

// reserveID leases one job that is ready, scheduled or dead, out of order. The error is ErrNotFound if there is no such
// job, and ErrState if it is in another state, or a limit does not allow it to start now.
func (q *Queue[T]) reserveID(ctx context.Context, id ID, o ReserveOptions) (*Lease[T], error) {
	if err := q.ready(ctx); err != nil {
		return nil, err
	}
	if err := o.check(1); err != nil {
		return nil, q.wrap(err)
	}
	request := q.request(1)
	request.Terms = func(int) jobs.Terms { return o.terms(ctx) }
	var began time.Time
	var r jobs.Reserved
	for since, next := int64(math.MaxInt64), int64(0); next <= since; {
		began = time.Now()
		err := q.verb(ctx, verb{kind: EventReserved, id: id, loads: []int64{int64(id)}, do: func(recipe *jobs.Queue, tx kv.Tx, now int64) (err error) {
			since, next = min(since, now), jobs.Never
			if r, err = recipe.ReserveOne(tx, int64(id), now, request); !errors.Is(err, ErrState) {
				return err
			}
			d, failed := q.dueIn(recipe, tx, now) // perhaps only until what is due is done
			if failed != nil {
				return failed
			}
			next = d.NextReady
			r, err = recipe.ReserveOne(tx, int64(id), now, request)
			return err
		}})
		if err == nil {
			break
		}
		if next > since || !errors.Is(err, ErrState) {
			return nil, err
		}
	}
	r.End = began.Add(span(r.Length))
	leases, err := q.handOut(ctx, []reserved{{Reserved: r}})
	if err != nil {
		return nil, err
	}
	if len(leases) == 0 {
		return nil, q.wrap(fmt.Errorf("%w: job %d does not decode, or was leased too late", ErrState, id))
	}
	return leases[0], nil
}

// readyBelow returns how many ready jobs have a priority below the given one, but at most limit: it reads them.
func (q *Queue[T]) readyBelow(ctx context.Context, priority int64, limit int) (n int, err error) {
	q.fresh(ctx)
	err = q.view(ctx, func(r kv.Reader) error {
		n, err = q.recipe.ReadyBelow(r, priority, limit)
		return err
	})
	return n, err
}
