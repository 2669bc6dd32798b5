package beanstalk

import (
	"cmp"
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
	turn   int // how often a tube was paused
}

// tube is what is known of one beside its queue. All of it is under tubes.mu.
type tube struct {
	name    string
	refs    int // of connections, of jobs that they hold, and of commands under way
	using   int
	watched int
	waiting map[*conn]context.CancelCauseFunc

	jobs, deletes, pauses int64 // since the tube is there

	pause       time.Duration
	pausedUntil time.Time
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
	empty := t.lastIn(of, also) && of.name != defaultTube && t.isEmpty(of.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if of.refs--; of.refs == 0 && empty {
		delete(t.all, of.name)
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

// isEmpty tells whether a tube is known to have no jobs.
func (t *tubes) isEmpty(name string) bool {
	jobs := int64(0)
	err := t.with(context.Background(), name, func(q *queues.Work) error {
		s, err := q.Stats(context.Background())
		jobs = jobsIn(s)
		return err
	})
	return err == nil && jobs == 0
}

func jobsIn(s work.Stats) int64 { return s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead }

// update changes a tube.
func (t *tubes) update(of *tube, f func(*tube)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(of)
}

// with calls f with the queue of a tube, if there ever was one.
func (t *tubes) with(ctx context.Context, name string, f func(*queues.Work) error) error {
	q, release, err := t.set.Work(ctx, name, queues.Existing)
	if isNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	return f(q)
}

// find calls f in a tube that exists: somebody uses it, or it has jobs. queue is nil if it never had any.
func (t *tubes) find(ctx context.Context, name string, f func(*tube, *queues.Work) error) error {
	used := name == defaultTube
	of := t.enter(name, func(of *tube) { used = used || of.using > 0 || of.watched > 0 })
	defer t.leave(of, nil)
	var queue *queues.Work
	err := t.with(ctx, name, func(q *queues.Work) error {
		if queue = q; !used {
			s, err := q.Stats(ctx)
			if err != nil || jobsIn(s) == 0 {
				return cmp.Or(err, error(work.ErrNotFound))
			}
		}
		return f(of, q)
	})
	switch {
	case err != nil || queue != nil:
		return err
	case !used:
		return work.ErrNotFound
	}
	return f(of, nil)
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
	err := t.each(ctx, func(q *queues.Work) error {
		s, err := q.Stats(ctx)
		if jobsIn(s) > 0 {
			known[q.Name()] = true
		}
		return err
	})
	return slices.Sorted(maps.Keys(known)), err
}

// endLeases ends those of a holder in all tubes, and returns how many.
func (t *tubes) endLeases(ctx context.Context, holder string) (total int, err error) {
	err = t.each(ctx, func(q *queues.Work) error {
		n, err := q.EndLeases(ctx, work.Filter{State: work.Leased, Holder: holder}, nil)
		total += n
		return err
	})
	return total, err
}

// each calls f with each queue that has a tube's name. The error is of all that have failed.
func (t *tubes) each(ctx context.Context, f func(*queues.Work) error) error {
	infos, err := t.set.All(ctx)
	for _, info := range infos {
		if info.Kind == conq.KindWorkQueue && isName(info.Name) {
			err = errors.Join(err, t.with(ctx, info.Name, f))
		}
	}
	return err
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
	all, releases := make([]*queues.Work, len(of)), make([]func(), len(of))
	for i, tube := range of {
		if all[i], releases[i], err = t.set.Work(ctx, tube.name, queues.Create); err != nil {
			call(releases[:i])
			return nil, nil, err
		}
	}
	if len(all) == 1 {
		return all[0], releases[0], nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.unions[key]
	if u == nil {
		of, err := work.NewUnion(all...)
		if err != nil {
			call(releases)
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
		call(releases)
	}, nil
}

func call(all []func()) {
	for _, f := range all {
		f()
	}
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
	return true
}

// waited is the reverse of wait.
func (t *tubes) waited(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range c.watched {
		delete(of.waiting, c)
	}
}
