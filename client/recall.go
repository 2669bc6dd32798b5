package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// recalls asks the server which leases were recalled, by one request for all jobs whose handlers run.
type recalls struct {
	jobs *jobs
	open context.Context // ends when the handle is closed

	mu      sync.Mutex
	watched map[work.ID][]chan struct{}
	asks    bool
	stop    context.CancelFunc // of what asks, when idle
	idle    *time.Timer
}

const (
	recallWait = time.Minute            // how long a request waits
	recallIdle = 100 * time.Millisecond // how long it asks on when no handler runs
	recallRest = time.Second            // after an error
)

func (r *recalls) init(q *jobs) {
	open, end := context.WithCancelCause(context.Background())
	r.jobs, r.open, r.watched = q, open, make(map[work.ID][]chan struct{})
	q.closers = append(q.closers, end)
}

var _ work.Recaller = keeper{}

// Watch has the caller told when the lease of a job may have been recalled.
func (q keeper) Watch(id work.ID) (recalled <-chan struct{}, forget func()) {
	r, c := &q.recalls, make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched[id] = append(r.watched[id], c)
	if r.idle != nil {
		r.idle.Stop()
	}
	if !r.asks {
		ctx, stop := context.WithCancel(r.open)
		r.asks, r.stop = true, stop
		go r.ask(ctx)
	}
	return c, func() { r.forget(id, c) }
}

func (r *recalls) forget(id work.ID, c chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []chan struct{}
	for _, other := range r.watched[id] {
		if other != c {
			others = append(others, other)
		}
	}
	if r.watched[id] = others; len(others) == 0 {
		delete(r.watched, id)
	}
	if len(r.watched) > 0 {
		return
	}
	if r.idle == nil {
		r.idle = time.AfterFunc(recallIdle, r.rest)
	} else {
		r.idle.Reset(recallIdle)
	}
}

// rest ends what asks, unless a handler has begun meanwhile.
func (r *recalls) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watched) == 0 && r.asks {
		r.stop()
		r.asks = false
	}
}

// ask asks until ctx ends. A server that can't tell leaves it to the heartbeats.
func (r *recalls) ask(ctx context.Context) {
	for next := int64(0); ctx.Err() == nil; {
		var answer wire.Recalls
		query := url.Values{"after": {strconv.FormatInt(next, 10)}, "wait": {recallWait.String()}}
		err := r.jobs.do(ctx, call{method: http.MethodGet, path: jobPath(r.jobs.name) + "/recalls", query: query, wait: recallWait, again: true, missing: queue.ErrNoQueue}, &answer)
		if err != nil {
			rest(ctx, recallRest)
			continue
		}
		next = answer.Next
		r.tell(&answer)
	}
}

func (r *recalls) tell(answer *wire.Recalls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.All {
		for _, watchers := range r.watched {
			signal(watchers)
		}
	}
	for _, id := range answer.Jobs {
		signal(r.watched[id])
	}
}

func signal(watchers []chan struct{}) {
	for _, c := range watchers {
		select {
		case c <- struct{}{}:
		default: // it is told already
		}
	}
}
