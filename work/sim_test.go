package work

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

var (
	simulations = flag.Int("simulations", 30, "how many simulations with faults to run")
	firstSeed   = flag.Uint64("seed", 1, "the seed of the first simulation with faults")
)

// process is a store as one process of several has it: with a clock of its own, which jumps.
type process struct {
	kv.DB
	mu     sync.Mutex
	offset time.Duration
}

func (p *process) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.offset)
}

// maxOffset is how far a clock may be from the true time.
const maxOffset = 5 * time.Second

// simulation is one history: processes put and do jobs, while commits are lost or unknown, contexts end at
// any step, workers die with their jobs, and clocks jump.
type simulation struct {
	t    *testing.T
	seed uint64
	db   *faulty.DB

	mu       sync.Mutex
	rand     *rand.Rand
	put      map[ID]string
	unsure   int // puts whose outcome their caller did not learn
	acked    map[ID]int
	ended    map[ID]bool // buried or deleted
	holdings map[ID][]holding
}

// holding is a lease as its holder sees it.
type holding struct {
	by       *process
	deadline time.Time
	over     bool // the holder has ended it
}

func (s *simulation) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.Float64() < p
}

func (s *simulation) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *simulation) errorf(format string, args ...any) {
	s.t.Errorf("seed %d: %s", s.seed, fmt.Sprintf(format, args...))
}

func (s *simulation) open(p *process, o Options) *Queue[string] {
	q, err := Open(context.Background(), p, "jobs", queue.String(), o)
	for errors.Is(err, kv.ErrTooOld) { // some of the faults come three times in a row
		q, err = Open(context.Background(), p, "jobs", queue.String(), o)
	}
	noError(s.t, err)
	q.now = p.now
	return q
}

func (s *simulation) run(relaxed bool) {
	o := Options{Settings: &Settings{Lease: 20 * time.Second, Concurrency: []int{0, 0, 4}[s.below(3)], Keep: time.Duration(s.below(2)) * time.Minute}, Skew: 2 * maxOffset}
	o.Backoff = func(int) time.Duration { return 10 * time.Second }
	if relaxed {
		o.Settings.Order = Relaxed
	}
	var group sync.WaitGroup
	for range 3 {
		p := &process{DB: s.db}
		q := s.open(p, o)
		defer q.Close() // whether what it leaves behind is removed does not matter
		group.Go(func() { s.produce(q) })
		group.Go(func() { s.configure(q, o.Settings.Order) })
		for range 2 {
			group.Go(func() { s.consume(p, q) })
		}
		group.Go(func() {
			for range 20 {
				time.Sleep(time.Duration(s.below(20)) * time.Second)
				p.mu.Lock()
				p.offset = time.Duration(s.below(1000))*2*maxOffset/1000 - maxOffset
				p.mu.Unlock()
			}
		})
	}
	group.Wait()
}

func (s *simulation) produce(q *Queue[string]) {
	ctx := context.Background()
	for i := range 8 {
		j := Job{Priority: int64(s.below(3)), Key: []string{"", "", "a", "b"}[s.below(4)], Delay: time.Duration(s.below(3)) * 15 * time.Second}
		j.MaxAttempts = 1 + s.below(4)
		if s.chance(0.2) {
			j.Unique = fmt.Sprint("u", s.below(3))
		}
		id, err := q.Put(ctx, fmt.Sprint(i), j)
		s.mu.Lock()
		switch {
		case err == nil:
			s.put[id] = j.Key
		case !errors.Is(err, ErrDuplicate):
			s.unsure++
		}
		s.mu.Unlock()
		time.Sleep(time.Duration(s.below(5)) * time.Second)
	}
}

// configure changes the settings while others work.
func (s *simulation) configure(q *Queue[string], order Order) {
	for range 6 {
		time.Sleep(time.Duration(s.below(40)) * time.Second)
		_ = q.Configure(context.Background(), Settings{ // perhaps it is unknown whether it has
			Lease: time.Duration(10+s.below(20)) * time.Second, Concurrency: []int{0, 1, 4}[s.below(3)], KeyLimit: 1 + s.below(3), Order: order,
			Rate: Rate{s.below(2), 2 * time.Second}.orNone(), KeyRate: Rate{s.below(2), 5 * time.Second}.orNone(),
			Keep: time.Duration(s.below(2)) * time.Minute, UniqueWhileDead: s.chance(0.5),
		})
	}
}

func (r Rate) orNone() Rate {
	if r.N == 0 {
		return Rate{}
	}
	return r
}

func (s *simulation) consume(p *process, q *Queue[string]) {
	for range 12 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+s.below(60))*time.Second)
		l, err := q.ReserveWait(ctx)
		cancel()
		if err == nil {
			s.hold(p, l)
			s.use(p, l)
		}
	}
}

// hold checks that no other holder has the job, as its clock says.
func (s *simulation) hold(p *process, l *Lease[string]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holdings[l.ID] {
		if !h.over && time.Now().Before(h.deadline) {
			s.errorf("job %d is leased until %v, and until %v for another one", l.ID, l.Deadline(), h.deadline)
		}
	}
	s.holdings[l.ID] = append(s.holdings[l.ID], holding{by: p, deadline: l.Deadline()})
	if s.acked[l.ID] > 0 || s.ended[l.ID] {
		s.errorf("job %d is leased after its end", l.ID)
	}
}

// end has a holder end its lease: from the moment on in which it begins to, others may have the job, also if it learns
// of that only later.
func (s *simulation) end(l *Lease[string], verb func() error, then func()) {
	s.mu.Lock()
	for i, h := range s.holdings[l.ID] {
		if h.deadline.Equal(l.Deadline()) {
			s.holdings[l.ID][i].over = true
		}
	}
	s.mu.Unlock()
	if err := verb(); err == nil && then != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		then()
	}
}

func (s *simulation) use(p *process, l *Lease[string]) {
	ctx := context.Background()
	time.Sleep(time.Duration(s.below(30)) * time.Second)
	if s.chance(0.3) {
		old := l.Deadline()
		if l.Extend(ctx, 20*time.Second) == nil {
			s.mu.Lock()
			for i, h := range s.holdings[l.ID] {
				if h.by == p && h.deadline.Equal(old) {
					s.holdings[l.ID][i].deadline = l.Deadline()
				}
			}
			s.mu.Unlock()
		}
		time.Sleep(time.Duration(s.below(30)) * time.Second)
	}
	switch s.below(8) {
	case 0: // it dies
	case 1:
		s.end(l, func() error { return l.Fail(ctx, errors.New("no luck")) }, nil)
	case 2:
		delay := time.Duration(s.below(10)) * time.Second
		s.end(l, func() error { return l.Release(ctx, delay) }, nil)
	case 3:
		s.end(l, func() error { return l.Bury(ctx, "why") }, func() { s.ended[l.ID] = true })
	default:
		s.end(l, func() error { return l.Ack(ctx) }, func() { s.acked[l.ID]++ })
	}
}

// drain does what is left, without faults, and checks that nothing was lost or done twice.
func (s *simulation) drain() {
	p := &process{DB: s.db}
	q := s.open(p, Options{Skew: 2 * maxOffset, Settings: &Settings{Lease: 20 * time.Second}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- Run(ctx, q, func(_ context.Context, l *Lease[string]) error {
			s.hold(p, l)
			s.end(l, func() error { return nil }, func() { s.acked[l.ID]++ })
			return nil
		}, RunOptions{Workers: 4})
	}()
	time.Sleep(10 * time.Minute)
	stop()
	noError(s.t, <-done)
	left, err := q.Stats(context.Background())
	noError(s.t, err)
	if left.Ready+left.Scheduled+left.Leased+left.Blocked > 0 {
		s.errorf("left: %+v", left)
	}
	s.account(q)
	sound(s.t, q)
	noError(s.t, q.Close())
}

// account checks that each job that was put is done once, or dead.
func (s *simulation) account(q *Queue[string]) {
	dead := make(map[ID]bool)
	for info, err := range q.List(context.Background(), Filter{State: Dead}) {
		noError(s.t, err)
		dead[info.ID] = true
	}
	for id := range s.put {
		if n := s.acked[id]; n > 1 || n == 0 && !dead[id] && s.unsure == 0 {
			s.errorf("job %d was acknowledged %d times, dead: %v", id, n, dead[id])
		}
	}
	known := slices.Sorted(func(yield func(ID) bool) {
		for id := range s.acked {
			if !yield(id) {
				return
			}
		}
	})
	for _, id := range known {
		if _, was := s.put[id]; !was && s.unsure == 0 {
			s.errorf("job %d was done, and never put", id)
		}
	}
}

// TestSimulations runs many histories with faults. One seed makes one history as far as the scheduler does not.
func TestSimulations(t *testing.T) {
	n := *simulations
	if testing.Short() {
		n = max(1, n/3)
	}
	for i := range uint64(n) {
		seed := *firstSeed + i
		synctest.Test(t, func(t *testing.T) {
			base := memory.New(memory.Options{})
			defer base.Close()
			faults := faulty.Options{
				Conflict: 0.05, Applied: 0.05, Dropped: 0.05, Late: 0.05, TooOld: 0.01, Delay: 0.5, MaxDelay: 100 * time.Millisecond,
				Limits: kv.Limits{Shared: true},
			}
			db := faulty.New(base, seed, faults)
			s := &simulation{
				t: t, seed: seed, db: db, rand: rand.New(rand.NewPCG(seed, 0)),
				put: make(map[ID]string), acked: make(map[ID]int), ended: make(map[ID]bool), holdings: make(map[ID][]holding),
			}
			s.run(seed%2 == 0)
			db.Flush()
			s.db = faulty.New(base, seed, faulty.Options{Limits: kv.Limits{Shared: true}})
			s.drain()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
