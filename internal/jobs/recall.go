package jobs

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// Recalls are of leases that are lost to their holders, or whose jobs were cancelled, as far as that is done through a store as this
// process has it open. It is safe for concurrent use.
type Recalls struct {
	of    recallsOf
	users int // under allRecallsMu

	mu      sync.Mutex
	next    int64   // the number of the next one
	last    []int64 // the ids of the last ones
	news    chan struct{}
	watched map[int64][]chan struct{}
}

// mostRecalls is how many are remembered.
const mostRecalls = 1000

type recallsOf struct {
	store any
	queue string
}

var (
	allRecallsMu sync.Mutex
	allRecalls   = make(map[recallsOf]*Recalls)
)

// ShareRecalls returns those of a queue, for one more handle.
func ShareRecalls(db kv.DB, queue string) *Recalls {
	of := recallsOf{db, queue}
	if news := kvext.NewsOf(db); news != nil {
		of.store = news // the same for what wraps the store
	}
	allRecallsMu.Lock()
	defer allRecallsMu.Unlock()
	comparable := reflect.TypeOf(of.store).Comparable()
	if comparable && allRecalls[of] != nil {
		allRecalls[of].users++
		return allRecalls[of]
	}
	r := &Recalls{of: of, users: 1, next: time.Now().UnixMicro(), watched: make(map[int64][]chan struct{})}
	if comparable {
		allRecalls[of] = r
	}
	return r
}

// Leave ends the use by a handle.
func (r *Recalls) Leave() {
	allRecallsMu.Lock()
	defer allRecallsMu.Unlock()
	if r.users--; r.users == 0 && reflect.TypeOf(r.of.store).Comparable() {
		delete(allRecalls, r.of)
	}
}

// Tell notes the recall of a lease, or of AllRecalled.
func (r *Recalls) Tell(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	if id == AllRecalled {
		r.last = nil
		for _, watchers := range r.watched {
			signal(watchers)
		}
	} else {
		if r.last = append(r.last, id); len(r.last) >= 2*mostRecalls {
			r.last = slices.Clone(r.last[mostRecalls:])
		}
		signal(r.watched[id])
	}
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

func signal(watchers []chan struct{}) {
	for _, w := range watchers {
		select {
		case w <- struct{}{}:
		default: // it looks in any case
		}
	}
}

// RecallEverywhere is Tell for all queues of that name that this process has open, in any store: one that was closed can't tell.
func RecallEverywhere(queue string, ids []int64) {
	allRecallsMu.Lock()
	defer allRecallsMu.Unlock()
	for of, r := range allRecalls {
		if of.queue == queue {
			for _, id := range ids {
				r.Tell(id)
			}
		}
	}
}

// Since returns what came after a number, and the number to ask for next; all is true if it is not known what came. If nothing did,
// news is closed when something comes, and else nil.
func (r *Recalls) Since(after int64) (ids []int64, next int64, all bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := r.next - after; {
	case n < 0 || n > int64(len(r.last)):
		return nil, r.next, true, nil
	case n == 0:
		if r.news == nil {
			r.news = make(chan struct{})
		}
		return nil, r.next, false, r.news
	default:
		return slices.Clone(r.last[len(r.last)-int(n):]), r.next, false, nil
	}
}

// Watch returns what delivers something when the lease of a job may have been recalled, until forget is called.
func (r *Recalls) Watch(id int64) (recalled <-chan struct{}, forget func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched[id] = append(r.watched[id], c)
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.watched[id] = slices.DeleteFunc(r.watched[id], func(other chan struct{}) bool { return other == c }); len(r.watched[id]) == 0 {
			delete(r.watched, id)
		}
	}
}
