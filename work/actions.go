package work

import (
	"slices"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// action is what a caller wants of a transaction that verbs on jobs and reservations share: a worker that ends a lease mostly wants the next
// job. That is where each transaction waits for a network. On the disk of one process a reservation would wait for a sync, which it need not.
type action struct {
	verb *verb
	want *want // if it is no verb
}

// runActions serves actions, verbs first.
func (e *engine) runActions(calls []*batch.Call[action, taken[jobs.Reserved]]) {
	verbs, wanting := 0, 0
	ordered := make([]*batch.Call[action, taken[jobs.Reserved]], 0, len(calls))
	for _, c := range calls {
		if c.Request.verb != nil {
			ordered = slices.Insert(ordered, verbs, c)
			verbs++
		} else {
			ordered = append(ordered, c)
			wanting += c.Request.want.n()
		}
	}
	flight, end := e.reserve.fly(wanting)
	defer end()
	share(e, ordered, func(tx kv.Tx, calls []*batch.Call[action, taken[jobs.Reserved]], attempts *int) ([]result[taken[jobs.Reserved]], error) {
		return e.actionsIn(tx, calls, attempts, flight)
	})
}

// actionsIn serves the first of some actions in a transaction. One that is made again serves only verbs, if there are some: who reserves has
// collided, and they do not wait for that twice.
func (e *engine) actionsIn(tx kv.Tx, calls []*batch.Call[action, taken[jobs.Reserved]], attempts *int, flight *jobs.Flight) (results []result[taken[jobs.Reserved]], err error) {
	var verbs []verb
	var wants []want
	for _, c := range calls {
		if c.Request.verb != nil {
			verbs = append(verbs, *c.Request.verb)
		} else if *attempts == 1 || len(verbs) == 0 {
			wants = append(wants, *c.Request.want)
		}
	}
	r := e.reserve.begin(tx, wants, attempts, flight)
	if r.more = len(verbs) > 0; r.more {
		ids := e.expectVerbs(tx, verbs)
		q, err := r.at(e)
		if err != nil {
			return nil, err
		}
		got, err := e.verbsIn(tx, q, ids, verbs, attempts)
		if err != nil {
			return nil, err
		}
		for _, g := range got {
			results = append(results, result[taken[jobs.Reserved]]{err: g.err})
		}
		if len(got) < len(verbs) {
			return results, nil
		}
	}
	if len(wants) == 0 {
		return results, nil
	}
	got, err := e.reserve.in(r, wants, attempts)
	return append(results, got...), err
}
