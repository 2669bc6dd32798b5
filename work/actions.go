package work

import (
	"slices"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// action is a verb on jobs, or a reservation. Where each transaction waits for a network, they share transactions: a worker that ends
// a lease mostly wants the next job. On the disk of one process they do not, as a reservation would wait for a sync, which it need
// not.
type action struct {
	verb *verb
	want *want // if it is no verb
}

type actionCall = batch.Call[action, taken]

// run serves actions, verbs first.
func (r *reserver) run(calls []*actionCall) {
	verbs, n := 0, 0
	ordered := make([]*actionCall, 0, len(calls))
	for _, c := range calls {
		if c.Request.verb != nil {
			ordered = slices.Insert(ordered, verbs, c)
			verbs++
		} else {
			ordered = append(ordered, c)
			n += c.Request.want.n()
		}
	}
	flight, end := r.fly(n)
	defer end()
	serve(r.queues[0], ordered, func(tx kv.Tx, attempt int, calls []*actionCall) ([]result[taken], error) {
		return r.actionsIn(tx, attempt, calls, flight)
	})
}

// actionsIn serves the first of some actions in a transaction. One that is made again serves only verbs, if there are some: who
// reserves has collided, and they do not wait for that twice. Verbs are of a queue, not of a union.
func (r *reserver) actionsIn(of kv.Tx, attempt int, calls []*actionCall, flight *jobs.Flight) (results []result[taken], err error) {
	var verbs []verb
	var wants []want
	for _, c := range calls {
		if c.Request.verb != nil {
			verbs = append(verbs, *c.Request.verb)
		} else if attempt == 1 || len(verbs) == 0 {
			wants = append(wants, *c.Request.want)
		}
	}
	tx := r.begin(of, attempt, wants, flight)
	if tx.more = len(verbs) > 0; tx.more {
		e := r.queues[0]
		ids := e.expectVerbs(of, verbs)
		q, err := tx.at(e)
		if err != nil {
			return nil, err
		}
		if results, err = e.verbsIn(of, q, ids, verbs, attempt); err != nil || len(results) < len(verbs) {
			return results, err
		}
	}
	if len(wants) == 0 {
		return results, nil
	}
	got, err := r.in(tx, wants)
	return append(results, got...), err
}
