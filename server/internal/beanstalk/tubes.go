package beanstalk

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

const defaultTube = "default"

// tubes are those that connections use, or that have jobs and were used.
type tubes struct {
	set *queues.Set

	mu     sync.Mutex
	all    map[string]*tube
	unions map[string]*union
	jobs   int64 // that were put
	turn   int   // how often a tube was paused
	waits  int   // connections that wait
}

// tube is what is known of one beside its queue. All but opening is under tubes.mu.
type tube struct {
	name    string
	refs    int // of connections, of jobs that they hold, and of commands under way
	using   int
	watched int
	waiting map[*conn]context.CancelCauseFunc

	jobs, deletes, pauses int64 // since the tube is there

	pause       time.Duration
	pausedUntil time.Time

	opening sync.Mutex
	queue   *queues.Work // nil until it is needed
	release func()
}

// source is what jobs are reserved from.
type source interface {
	Reserve(ctx context.Context) (*work.Lease[[]byte], error)
	TryReserve(ctx context.Context, n int) ([]*work.Lease[[]byte], error)
}

// union is one of tubes that connections watch.
type union struct {
	*work.Union[[]byte]
	users int
}

func newTubes(set *queues.Set) *tubes {
	return &tubes{set: set, all: make(map[string]*tube), unions: make(map[string]*union)}
}

// enter returns the tube of a name, which the caller leaves.
func (t *tubes) enter(name string, also func(*tube)) *tube {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.all[name]
	if of == nil {
		of = &tube{name: name, waiting: make(map[*conn]context.CancelCauseFunc)}
		t.all[name] = of
	}
	of.refs++
	if also != nil {
		also(of)
	}
	return of
}

// leave is the reverse of enter. A tube that nobody is in is forgotten, unless it has jobs.
func (t *tubes) leave(of *tube, also func(*tube)) {
	empty := t.lastIn(of, also) && t.isEmpty(of)
	t.mu.Lock()
	of.refs--
	last := of.refs == 0
	release := of.release
	if last {
		of.queue, of.release = nil, nil
		if of.name != defaultTube && empty {
			delete(t.all, of.name)
		}
	}
	t.mu.Unlock()
	if last && release != nil {
		release()
	}
}

// lastIn tells whether nobody else is in a tube.
func (t *tubes) lastIn(of *tube, also func(*tube)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if also != nil {
		also(of)
	}
	return of.refs == 1
}

// isEmpty tells whether a tube is known to have no jobs, or nothing is known of it that is worth to be kept.
func (t *tubes) isEmpty(of *tube) bool {
	t.mu.Lock()
	known := of.queue != nil || of.jobs > 0 || of.pauses > 0 || of.deletes > 0
	t.mu.Unlock()
	if !known {
		return true
	}
	q, err := t.queue(context.Background(), of, queues.Existing)
	if err != nil {
		return isNone(err)
	}
	s, err := q.Stats(context.Background())
	return err == nil && jobsIn(s) == 0
}

func jobsIn(s work.Stats) int64 { return s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead }

// update changes a tube.
func (t *tubes) update(of *tube, f func(*tube)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(of)
}

// queue returns the queue of a tube that the caller is in, and makes it if mode says so.
func (t *tubes) queue(ctx context.Context, of *tube, mode queues.Mode) (*queues.Work, error) {
	t.mu.Lock()
	q := of.queue
	t.mu.Unlock()
	if q != nil {
		return q, nil
	}
	of.opening.Lock()
	defer of.opening.Unlock()
	if of.queue != nil {
		return of.queue, nil
	}
	q, release, err := t.set.Work(ctx, of.name, mode)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of.queue, of.release = q, release
	return q, nil
}

// find enters a tube that exists: somebody uses it, or it has jobs. queue is nil if it never had any.
func (t *tubes) find(ctx context.Context, name string) (of *tube, queue *queues.Work, err error) {
	used := name == defaultTube
	of = t.enter(name, func(of *tube) { used = used || of.using > 0 || of.watched > 0 })
	queue, err = t.queue(ctx, of, queues.Existing)
	switch {
	case isNone(err):
		queue, err = nil, nil
	case err == nil && !used:
		var s work.Stats
		s, err = queue.Stats(ctx)
		used = jobsIn(s) > 0
	}
	if err == nil && !used {
		err = work.ErrNotFound
	}
	if err != nil {
		t.leave(of, nil)
		return nil, nil, err
	}
	return of, queue, nil
}

// isNone tells whether an error means that there is no work queue of a name.
func isNone(err error) bool { return errors.Is(err, conq.ErrNoQueue) || errors.Is(err, conq.ErrKind) }

// names returns the tubes that exist.
func (t *tubes) names(ctx context.Context) ([]string, error) {
	known := map[string]bool{defaultTube: true}
	t.mu.Lock()
	for name, of := range t.all {
		if of.using > 0 || of.watched > 0 {
			known[name] = true
		}
	}
	t.mu.Unlock()
	infos, err := t.set.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Kind != conq.KindWorkQueue || !isName(info.Name) || known[info.Name] {
			continue
		}
		of, _, err := t.find(ctx, info.Name)
		if errors.Is(err, work.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t.leave(of, nil)
		known[info.Name] = true
	}
	return slices.Sorted(maps.Keys(known)), nil
}

// endLeases ends those of a holder in all tubes, and returns how many.
func (t *tubes) endLeases(ctx context.Context, holder string) (total int, err error) {
	infos, err := t.set.All(ctx)
	for _, info := range infos {
		if info.Kind != conq.KindWorkQueue || !isName(info.Name) {
			continue
		}
		q, release, failed := t.set.Work(ctx, info.Name, queues.Existing)
		if failed == nil {
			var n int
			n, failed = q.EndLeases(ctx, work.Filter{State: work.Leased, Holder: holder}, nil)
			total += n
			release()
		}
		err = errors.Join(err, failed)
	}
	return total, err
}

// isName tells whether a queue's name can be that of a tube.
func isName(name string) bool {
	f := fields{rest: []byte(name)}
	return f.name() == name && !f.bad
}

// pauseTube has a tube give out no jobs for some time.
func (t *tubes) pauseTube(of *tube, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	of.pauses++
	of.pause, of.pausedUntil = d, time.Now().Add(max(d, time.Nanosecond))
	for _, cancel := range of.waiting {
		cancel(errAgain)
	}
}

// paused returns how long a tube is paused in all and from now on, which is 0 if it is not.
func (of *tube) paused(now time.Time) (total, left time.Duration) {
	if left = of.pausedUntil.Sub(now); left <= 0 {
		of.pause = 0
		return 0, 0
	}
	return of.pause, left
}

// unpaused returns which of a connection's tubes are not paused, by name, and when the next pause ends. turn is for wait.
func (t *tubes) unpaused(of []*tube) (open []*tube, until time.Time, turn int) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tube := range of {
		if _, left := tube.paused(now); left == 0 {
			open = append(open, tube)
		} else if until.IsZero() || tube.pausedUntil.Before(until) {
			until = tube.pausedUntil
		}
	}
	slices.SortFunc(open, func(a, b *tube) int { return strings.Compare(a.name, b.name) })
	return open, until, t.turn
}

// source returns what to reserve from for tubes, sorted by name, that the caller is in; key is what names are joined to.
// The caller calls release when it uses that no more.
func (t *tubes) source(ctx context.Context, of []*tube, key string) (s source, release func(), err error) {
	all := make([]*queues.Work, 0, len(of))
	for _, tube := range of {
		q, err := t.queue(ctx, tube, queues.Create)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, q)
	}
	if len(all) == 1 {
		return all[0], func() {}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.unions[key]
	if u == nil {
		of, err := work.NewUnion(all...)
		if err != nil {
			return nil, nil, err
		}
		u = &union{Union: of}
		t.unions[key] = u
	}
	u.users++
	return u, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u.users--; u.users == 0 {
			delete(t.unions, key)
		}
	}, nil
}

// put notes that a job was put.
func (t *tubes) put(of *tube) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.jobs++
	t.jobs++
}

// totals returns how many connections wait, and how many jobs were put.
func (t *tubes) totals() (waits int, jobs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits, t.jobs
}

// wait notes that a connection waits at the tubes that it watches, unless one was paused since turn. cancel is called
// when one is.
func (t *tubes) wait(c *conn, turn int, cancel context.CancelCauseFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != turn {
		return false
	}
	for _, of := range c.watched {
		of.waiting[c] = cancel
	}
	t.waits++
	return true
}

// waited is the reverse of wait.
func (t *tubes) waited(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range c.watched {
		delete(of.waiting, c)
	}
	t.waits--
}
