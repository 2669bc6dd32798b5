package work

import (
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
)

// Tx is a Queue within a transaction: jobs that it puts are there if the transaction commits. It is valid until the
// transaction ends, and not safe for concurrent use. The function that is given to Transact must return the errors of its
// methods, except ErrDuplicate.
type Tx[T any] struct {
	queue *Queue[T]
	tx    kv.Tx
}

// In returns methods of the queue as a part of a transaction.
func (q *Queue[T]) In(tx kv.Tx) Tx[T] { return Tx[T]{q, tx} }

func (e *engine) readyIn(tx kv.Tx) error {
	switch {
	case e.db == nil:
		return errUnopened
	case tx == nil:
		return e.wrap(invalid("In was given no transaction"))
	case e.closed.Load():
		return e.closedError()
	case kvext.Foreign(e.db, tx):
		return e.wrap(invalid("In was given a transaction of another store"))
	}
	tx.OnCommit(e.clock.touch)
	return nil
}

// RunPeriodic is Queue.RunPeriodic within the transaction.
func (t Tx[T]) RunPeriodic(name string) (ID, error) {
	q := t.queue
	if err := q.readyIn(t.tx); err != nil {
		return 0, err
	}
	at, err := q.recipe.At(t.tx)
	if err != nil {
		return 0, q.wrap(err)
	}
	id, err := at.RunNow(t.tx, name, micros(q.now()))
	err = told(err)
	if err != nil {
		return 0, q.wrap(err)
	}
	q.announce(t.tx)
	return ID(id), nil
}

// Put is Queue.Put within the transaction.
func (t Tx[T]) Put(value T, job ...Job) (ID, error) {
	q := t.queue
	if err := q.readyIn(t.tx); err != nil {
		return 0, err
	}
	j, err := options.Only(job)
	if err != nil {
		return 0, q.wrap(err)
	}
	n, err := q.encode(value, j)
	if err != nil {
		return 0, err
	}
	q.entry.Prefetch(t.tx)
	q.recipe.ExpectPuts(t.tx, []jobs.New{n})
	at, err := q.recipe.At(t.tx)
	if err != nil {
		return 0, q.wrap(err)
	}
	p, err := q.putIn(at, t.tx, at.Places(), micros(q.now()), &n)
	if err == nil {
		err = q.entry.Enlist(t.tx)
	}
	if err != nil {
		return 0, q.wrap(err)
	}
	if p.err == nil {
		q.noteIn(t.tx, Event{Kind: EventPut, Jobs: 1, Calls: 1}, 0) // which attempt it is, the caller knows
	}
	return p.id, q.wrap(p.err)
}
