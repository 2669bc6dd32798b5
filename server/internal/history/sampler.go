package history

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
	"golang.org/x/sync/errgroup"
)

// Bounds of what a sampler does.
const (
	period   = time.Second
	perRead  = 50 // queues in one transaction
	parallel = 8  // transactions at once
	share    = 10 // a pass over a store that is slow takes at most one part in so many of the time
	passTime = 30 * time.Second
)

// Sampler reads how the queues of a store look, once a second, or less often where a pass takes longer than a
// tenth of a second.
type Sampler struct {
	db      kv.DB
	history *History
	now     func() time.Time
	store   watched

	mu     sync.Mutex
	queues map[string]*sampled
}

// sampled is what the sampler knows of a queue.
type sampled struct {
	kind    conq.Kind
	history *Queue
	jobs    *jobs.Queue // of a work queue
	items   *items      // of another
}

// NewSampler returns a sampler of a store. Run has to be called.
func NewSampler(db kv.DB, h *History) *Sampler {
	return &Sampler{db: db, history: h, now: time.Now, queues: make(map[string]*sampled)}
}

// Run reads until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	defer s.store.asking.Wait()
	group.Go(func() { s.runCounts(ctx) })
	for timer := time.NewTimer(0); ; {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.history.wanted:
		}
		began := s.now()
		s.Sample(ctx)
		took := s.now().Sub(began)
		timer.Reset(max(period-took, share*took))
	}
}

// Sample reads all queues once, and makes a snapshot of them.
func (s *Sampler) Sample(ctx context.Context) {
	began := s.now()
	reading, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	states, err := s.read(reading)
	if ctx.Err() != nil {
		return
	}
	now := s.now()
	store := s.store.look(ctx, s.db, now, now.Sub(began))
	if err != nil {
		last := s.history.Latest()
		s.history.publish(&Snapshot{Time: last.Time, Took: last.Took, Queues: last.Queues, Store: store, Err: err})
		return
	}
	for _, state := range states {
		if state.Err == nil {
			s.history.Queue(state.Name).record(now, state)
		}
	}
	s.history.publish(&Snapshot{Time: now, Took: now.Sub(began), Queues: states, Store: store})
}

func (s *Sampler) read(ctx context.Context) ([]*State, error) {
	infos, err := conq.Queues(ctx, s.db)
	if err != nil {
		return nil, err
	}
	known := s.update(infos)
	states := make([]*State, len(infos))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for first := 0; first < len(infos); first += perRead {
		last := min(len(infos), first+perRead)
		group.Go(func() error {
			return s.db.ReadTransact(ctx, func(r kv.Reader) error {
				for i := first; i < last; i++ {
					state := &State{Name: infos[i].Name, Kind: infos[i].Kind}
					if state.Err = known[i].read(r, s.now(), &state.Counts); retryable(state.Err) {
						return state.Err
					}
					states[i] = state
				}
				return nil
			})
		})
	}
	return states, group.Wait()
}

// retryable tells whether an error is of the transaction rather than of a queue.
func retryable(err error) bool {
	return errors.Is(err, kv.ErrTooOld) || errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// update forgets queues that are gone, and returns what is known of those that are there.
func (s *Sampler) update(infos []conq.Info) []*sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*sampled, len(infos))
	for i, info := range infos {
		q := s.queues[info.Name]
		if q == nil || q.kind != info.Kind {
			q = s.sampled(info)
			s.queues[info.Name] = q
		}
		all[i] = q
	}
	if len(s.queues) > len(infos) {
		for name := range s.queues {
			if !slices.ContainsFunc(infos, func(i conq.Info) bool { return i.Name == name }) {
				delete(s.queues, name)
			}
		}
	}
	return all
}

func (s *Sampler) sampled(info conq.Info) *sampled {
	q := &sampled{kind: info.Kind, history: s.history.Queue(info.Name)}
	if info.Kind == conq.KindWorkQueue {
		q.jobs = jobs.NewQueue(info.Name, s.db.Limits(), jobs.Config{})
	} else {
		q.items = newItems(info)
	}
	return q
}

func (q *sampled) read(r kv.Reader, now time.Time, c *Counts) error {
	if q.jobs == nil {
		return q.items.read(r, now, q.history.in.Load()-q.history.out.Load(), c)
	}
	n, err := q.jobs.Counts(r)
	if err != nil {
		return err
	}
	c.Ready, c.Scheduled, c.Leased = n[jobs.Ready], n[jobs.Scheduled], n[jobs.Leased]
	c.Blocked, c.Dead, c.Done = n[jobs.Blocked], n[jobs.Dead], n[jobs.Done]
	c.Depth = c.Ready + c.Scheduled + c.Leased + c.Blocked
	at, err := q.jobs.At(r)
	if err != nil {
		return err
	}
	if c.Paused = at.Paused(); c.Ready == 0 {
		return nil
	}
	since, err := q.jobs.Oldest(r)
	if since != 0 {
		c.Oldest = time.UnixMicro(since)
	}
	return err
}

// ObserveItems is the Observe of the handles of queues and priority queues.
func (h *History) ObserveItems(e conq.Event) {
	switch e.Kind {
	case conq.Added:
		h.Queue(e.Queue).Added(e.Items)
	case conq.Taken:
		h.Queue(e.Queue).Taken(e.Items)
	}
}

// ObserveJobs is the Observe of the handles of work queues.
func (h *History) ObserveJobs(e work.Event) {
	q, now := h.Queue(e.Queue), time.Now()
	if e.Kind == work.EventPut {
		q.Added(e.Jobs)
	}
	for _, j := range e.Each {
		switch e.Kind {
		case work.EventReserved:
			q.Reserved(int64(j.ID), now, j.Waited)
		case work.EventAcked, work.EventFailed:
			q.Ended(int64(j.ID), now, e.Kind == work.EventFailed)
		}
	}
}
