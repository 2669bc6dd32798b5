package work

import (
	"time"

	"github.com/conq-go/conq/kv"
)

// noteIn tells observers what a transaction has done, once it has committed.
func (e *engine) noteIn(tx kv.Tx, event Event, attempt int) {
	if e.options.Observe != nil && event.Jobs > 0 {
		tx.OnCommit(func() {
			event.Queue, event.Attempts = e.name, attempt
			e.options.Observe(event)
		})
	}
}

func (e *engine) noteReserved(tx kv.Tx, got []reserved, calls, attempt int) {
	if e.options.Observe == nil {
		return
	}
	event := Event{Kind: EventReserved, Jobs: len(got), Calls: calls}
	now := micros(e.now())
	for _, r := range got {
		event.Each = append(event.Each, EventJob{ID(r.ID), time.Duration(max(0, now-r.Since)) * time.Microsecond})
	}
	e.noteIn(tx, event, attempt)
}

// noteVerbs tells observers of the verbs of a transaction that have changed something, if there are observers.
func (e *engine) noteVerbs(tx kv.Tx, done []verb, calls, attempt int) {
	for _, kind := range []EventKind{EventReserved, EventEnded, EventAcked, EventFailed} {
		event := Event{Kind: kind, Calls: calls}
		for _, v := range done {
			if v.kind == kind || v.kind == 0 && kind == EventEnded {
				if event.Jobs++; kind != EventEnded {
					event.Each = append(event.Each, EventJob{ID: v.id})
				}
				if v.dead != nil && *v.dead {
					event.Dead++
				}
			}
		}
		e.noteIn(tx, event, attempt)
	}
}
