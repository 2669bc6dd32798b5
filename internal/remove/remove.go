// Package remove deletes queues.
//
// A deletion is one transaction, whatever the queue has: it clears ranges. Only findable jobs have keys that lie elsewhere, one for each
// job, in order of ids that all queues share. Where they are too many for that transaction, there are three steps: the entry is marked, and
// from then on nothing is added to the queue; those keys go, in as many transactions as it takes; then all the rest goes at once, with the
// entry.
package remove

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Queue is conq.DeleteQueue.
func Queue(ctx context.Context, db kv.DB, name string) (err error) {
	switch {
	case ctx == nil:
		return reads.ErrContext
	case db == nil:
		return reads.ErrNoDB
	}
	r := &removal{
		db: db, name: name, items: layout.New(name, queue.KindQueue, db.Limits()), jobs: jobs.NewQueue(name, db.Limits(), jobs.Config{}),
		lanes: outcome.New(db, layout.Outcomes(name), nil), most: budget.BatchFor(db.Limits(), 4).Items,
	}
	if signals := kvext.SignalsOf(db); signals != nil {
		defer signals.Suspend()() // handles look whether the queue is there
	}
	defer func() {
		if closed := r.lanes.Close(ctx, kv.ErrClosed); closed != nil && err == nil {
			err = fmt.Errorf("queue %q is deleted; what tells that could not be removed: %w", name, closed)
		}
	}()
	if err = r.run(ctx); err == nil {
		recalls := jobs.ShareRecalls(db, name)
		recalls.Tell(jobs.AllRecalled)
		recalls.Leave()
	}
	return err
}

// removal is a deletion under way.
type removal struct {
	db    kv.DB
	name  string
	items *layout.Queue
	jobs  *jobs.Queue
	lanes *outcome.Lanes
	most  int // jobs that are looked at in the first transaction, and keys that each further one clears
}

// maxTries is how often it is tried in one transaction, which conflicts with whatever puts jobs.
const maxTries = 3

func (r *removal) run(ctx context.Context) error {
	tries := 0
	done, err := outcome.Do(ctx, r.lanes, func(tx kv.Tx) (done bool, err error) {
		tries++
		return r.begin(tx, tries > maxTries)
	})
	if err != nil || done {
		return err
	}
	if err := r.clearFindable(ctx); err != nil {
		return err
	}
	_, err = outcome.Do(ctx, r.lanes, func(tx kv.Tx) (any, error) {
		info, found, err := layout.ReadEntry(tx, r.name)
		if err == nil && found && info.Deleting { // else another one has completed it
			r.clear(tx)
		}
		return nil, err
	})
	return err
}

// begin deletes the queue if it can in this transaction, or else marks it.
func (r *removal) begin(tx kv.Tx, busy bool) (done bool, err error) {
	info, err := layout.Find(tx, r.name)
	if errors.Is(err, queue.ErrNoQueue) {
		return r.clearRest(tx, err)
	}
	if err == nil {
		err = info.CheckReadable()
	}
	if err != nil {
		return false, err
	}
	few := info.Kind != queue.KindWorkQueue
	if !few && !busy && !info.Deleting {
		if few, err = r.clearFew(tx); err != nil {
			return false, err
		}
	}
	if few {
		r.clear(tx)
	} else {
		layout.MarkDeleting(tx, info)
	}
	return few, nil
}

// clearFew clears the keys of findable jobs if there are few jobs.
func (r *removal) clearFew(tx kv.Tx) (bool, error) {
	var keys [][]byte
	n := 0
	for header, err := range tx.Range(r.jobs.Headers(), kv.RangeOptions{Limit: r.most + 1}) {
		if err != nil {
			return false, err
		}
		if n++; n > r.most {
			return false, nil
		}
		if key := r.jobs.FindKeyOf(header); key != nil {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		tx.Clear(key)
	}
	return true, nil
}

// clearFindable clears the keys of all findable jobs. No more are put.
func (r *removal) clearFindable(ctx context.Context) error {
	var keys [][]byte
	flush := func() error {
		_, err := outcome.Do(ctx, r.lanes, func(tx kv.Tx) (any, error) {
			info, found, err := layout.ReadEntry(tx, r.name)
			if err != nil {
				return nil, err
			}
			if !found || !info.Deleting {
				return nil, errElsewhere
			}
			for _, key := range keys {
				tx.Clear(key)
			}
			return nil, nil
		})
		keys = keys[:0]
		return err
	}
	err := reads.Scan(ctx, r.db, r.jobs.Headers(), func(_ kv.Reader, header kv.KeyValue) error {
		if key := r.jobs.FindKeyOf(header); key != nil {
			keys = append(keys, key)
		}
		if len(keys) < r.most {
			return nil
		}
		return flush()
	})
	if err == nil && len(keys) > 0 {
		err = flush()
	}
	if errors.Is(err, errElsewhere) {
		return nil
	}
	return err
}

// errElsewhere ends a deletion that another one has completed.
var errElsewhere = errors.New("the queue is deleted")

// clearRest removes what is left of a queue that has no entry, as handles of processes that have died since may have left something. none is the error if there is nothing.
func (r *removal) clearRest(tx kv.Tx, none error) (bool, error) {
	for _, span := range r.besides() {
		for _, err := range tx.Range(span, kv.RangeOptions{Limit: 1, KeysOnly: true}) {
			r.clear(tx)
			return true, err
		}
	}
	return false, none
}

// besides is where a queue has keys beside its items and its entry.
func (r *removal) besides() []kv.Range {
	return []kv.Range{
		layout.Pieces(r.name).Range(), layout.Stage(r.name).Range(), layout.Outcomes(r.name).Range(),
		kv.KeyRange(layout.SignalKey(r.name)), jobs.Space(r.name).Range(),
	}
}

// clear removes the queue, whatever its kind is.
func (r *removal) clear(tx kv.Tx) {
	tx.ClearRange(r.items.Items)
	for _, span := range r.besides() {
		tx.ClearRange(span)
	}
	tx.Clear(layout.EntryKey(r.name))
}
