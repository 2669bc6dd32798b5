package watch

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
	period    = time.Second
	perRead   = 50   // queues in one transaction
	parallel  = 8    // transactions at once
	share     = 10   // a pass over a store that is slow takes at most one part in so many of the time
	listShare = 1000 // and reading the catalogue one in so many, but for news
	listTime  = 30 * time.Second
	passTime  = 30 * time.Second

	// Queues that are quiet, as they are empty, and nothing has happened to them for seconds: so many are looked at in each pass, by turns, and so
	// many have a history. What this process does to a queue ends that at once.
	quietPerPass = 50
	maxQuiet     = 64
)

// Sampler reads how the queues of a store look, once a second, or less often where a pass takes longer than a
// tenth of a second. Of many quiet queues it reads some each time.
type Sampler struct {
	db      kv.DB
	history *History
	now     func() time.Time
	listed  func([]conq.Info)
	passed  func()
	store   watched

	pass   sync.Mutex // one at a time; it has the fields up to mu
	order  []*sampled // those of the catalogue, by name; changed under both locks
	relist time.Time  // when the catalogue is to be read again
	turn   int        // where quiet queues are looked at next, in order
	loose  bool       // histories have ended in the last pass

	mu      sync.Mutex
	queues  map[string]*sampled
	changed bool // the next snapshot differs from the last one
}

// sampled is what the sampler knows of a queue.
type sampled struct {
	name    string
	kind    conq.Kind
	history *Queue // or nil, if it is quiet
	old     *Queue // that was forgotten in the last pass, and may have been touched since
	items   *items // nil of a work queue, and if it is quiet and has no history
	state   *State // at the last look; nil before that
	quiet   bool
}

// NewSampler returns a sampler of a store. Run has to be called.
func NewSampler(db kv.DB, h *History) *Sampler {
	return &Sampler{db: db, history: h, now: time.Now, listed: func([]conq.Info) {}, passed: func() {}, queues: make(map[string]*sampled)}
}

// OnPass has f called after each look. Call it before Run.
func (s *Sampler) OnPass(f func()) { s.passed = f }

// OnList has f called with the catalogue each time that it was read. Call it before Run.
func (s *Sampler) OnList(f func([]conq.Info)) { s.listed = f }

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
			s.relist = time.Time{}
		}
		began := s.now()
		s.Sample(ctx)
		s.passed()
		took := s.now().Sub(began)
		timer.Reset(max(period-took, share*took))
	}
}

// Sample reads all queues once, and makes a snapshot of them.
func (s *Sampler) Sample(ctx context.Context) {
	s.pass.Lock()
	defer s.pass.Unlock()
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
	s.history.publish(&Snapshot{Time: now, Took: now.Sub(began), Queues: states, Store: store})
}

func (s *Sampler) read(ctx context.Context) ([]*State, error) {
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	due := s.due()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for some := range slices.Chunk(due, perRead) {
		group.Go(func() error {
			states := make([]*State, len(some))
			err := s.db.ReadTransact(ctx, func(r kv.Reader) error {
				for i, q := range some {
					states[i] = &State{Name: q.name, Kind: q.kind}
					if states[i].Err = s.look(r, q, &states[i].Counts); retryable(states[i].Err) {
						return states[i].Err
					}
				}
				return nil
			})
			for i, q := range some {
				if err == nil {
					s.looked(q, states[i])
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.thin()
	if !s.changed {
		return s.history.Latest().Queues, nil
	}
	s.changed = false
	states := make([]*State, len(s.order))
	for i, q := range s.order {
		states[i] = q.state
	}
	return states, nil
}

// list reads the catalogue, if it is time for that, or a queue was touched that is not known.
func (s *Sampler) list(ctx context.Context) error {
	began := s.now()
	for name := range s.history.news() {
		if q := s.queues[name]; q != nil {
			q.quiet, q.history = false, s.history.find(name)
		} else {
			s.relist = time.Time{}
		}
	}
	if began.Before(s.relist) {
		return nil
	}
	before := s.history.names()
	infos, err := conq.Queues(ctx, s.db)
	if err != nil && !errors.Is(err, conq.ErrCorrupt) { // which is of one queue
		return err
	}
	s.update(infos)
	for _, name := range before {
		if s.queues[name] == nil {
			s.history.forget(name)
		}
	}
	s.listed(infos)
	now := s.now()
	s.relist = now.Add(min(listTime, listShare*now.Sub(began)))
	return nil
}

// due returns the queues to be looked at in this pass.
func (s *Sampler) due() (due []*sampled) {
	for _, q := range s.order {
		touched := q.history != nil && q.history.touched.Swap(false) || q.old != nil && q.old.touched.Load()
		q.old = nil
		if q.state == nil || touched {
			q.quiet = false
		}
		if !q.quiet {
			due = append(due, q)
		}
	}
	most := len(due) + quietPerPass
	for range s.order {
		if s.turn++; len(due) == most {
			break
		}
		if q := s.order[s.turn%len(s.order)]; q.quiet {
			due = append(due, q)
		}
	}
	return due
}

// looked takes in how a queue looks.
func (s *Sampler) looked(q *sampled, state *State) {
	empty := state.Err == nil && state.Counts == Counts{Paused: state.Paused}
	if q.history == nil && (!empty || s.history.size() < maxQuiet) {
		q.history = s.history.queue(q.name, false)
	}
	if q.history != nil && state.Err == nil {
		q.history.record(s.now(), s.history.Latest().Time, state)
	}
	quiet := empty && state.In+state.Out+state.Failed == 0
	if q.history != nil {
		q.history.quiet.Store(quiet)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !quiet || !q.quiet || state.Paused != q.state.Paused || !slices.Equal(state.Spark, q.state.Spark) {
		q.state, s.changed = state, true
	}
	if q.quiet = quiet; quiet && q.history == nil {
		q.items = nil
	}
}

// thin ends the histories of queues that are quiet, but for some. When no more of them end, what is left of them is moved together: else each
// would keep a page of the memory that was in use while they were busy.
func (s *Sampler) thin() {
	var quiet []*sampled
	for _, q := range s.order {
		if q.quiet && q.history != nil {
			quiet = append(quiet, q)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range quiet[:max(0, len(quiet)-maxQuiet)] {
		s.history.forget(q.name)
		q.old, q.history, q.items = q.history, nil, nil
		q.state, s.changed = &State{Name: q.name, Kind: q.kind, Counts: q.state.Counts}, true // without Spark
	}
	if len(quiet) <= maxQuiet && s.loose {
		s.compact()
	}
	s.loose = len(quiet) > maxQuiet
}

// compact moves what is known of queues, and the states of quiet ones, together. Both locks are held.
func (s *Sampler) compact() {
	all, states := make([]sampled, len(s.order)), make([]State, 0, len(s.order))
	for i, q := range s.order {
		all[i] = *q
		if q = &all[i]; q.quiet && q.history == nil {
			states = append(states, *q.state)
			q.state = &states[len(states)-1]
		}
		s.order[i], s.queues[q.name] = q, q
	}
	s.changed = true
}

// retryable tells whether an error is of the transaction rather than of a queue.
func retryable(err error) bool {
	return errors.Is(err, kv.ErrTooOld) || errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// update takes in the catalogue.
func (s *Sampler) update(infos []conq.Info) {
	same := func(i conq.Info, q *sampled) bool { return i.Name == q.name && i.Kind == q.kind }
	if slices.EqualFunc(infos, s.order, same) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, known := make([]*sampled, len(infos)), make(map[string]*sampled, len(infos))
	for i, info := range infos {
		q := s.queues[info.Name]
		if q == nil || q.kind != info.Kind {
			q = &sampled{name: info.Name, kind: info.Kind, history: s.history.find(info.Name)}
		}
		all[i], known[q.name] = q, q
	}
	for name := range s.queues {
		if known[name] == nil {
			s.history.forget(name)
		}
	}
	s.order, s.queues, s.changed = all, known, true
}

// itemsOf returns what is known of a queue or priority queue.
func (s *Sampler) itemsOf(q *sampled) *items {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.items == nil {
		q.items = newItems(q)
		q.items.looked = q.state != nil // and it was empty
	}
	return q.items
}

// look reads how a queue looks.
func (s *Sampler) look(r kv.Reader, q *sampled, c *Counts) error {
	if q.kind != conq.KindWorkQueue {
		balance := int64(0)
		if q.history != nil {
			balance = q.history.in.Load() - q.history.out.Load()
		}
		return s.itemsOf(q).read(r, s.now(), balance, c)
	}
	of, err := jobs.NewQueue(q.name, s.db.Limits(), jobs.Config{}).Look(r)
	if err != nil {
		return err
	}
	n := of.Counts
	c.Ready, c.Scheduled, c.Leased = n[jobs.Ready], n[jobs.Scheduled], n[jobs.Leased]
	c.Blocked, c.Dead, c.Done = n[jobs.Blocked], n[jobs.Dead], n[jobs.Done]
	c.Depth = c.Ready + c.Scheduled + c.Leased + c.Blocked
	if c.Paused = of.Paused; of.Oldest != 0 {
		c.Oldest = time.UnixMicro(of.Oldest)
	}
	return nil
}

// ObserveItems is the Observe of the handles of queues and priority queues.
func (h *History) ObserveItems(e conq.Event) {
	switch e.Kind {
	case conq.Added, conq.Taken, conq.Expired:
		q := h.Queue(e.Queue)
		switch e.Kind {
		case conq.Added:
			q.Added(e.Items)
		case conq.Taken:
			q.Taken(e.Items)
		}
		q.touched.Store(true) // last, so that who has seen it sees what has happened
	}
}

// ObserveJobs is the Observe of the handles of work queues.
func (h *History) ObserveJobs(e work.Event) {
	q, now := h.Queue(e.Queue), time.Now()
	defer q.touched.Store(true)
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
