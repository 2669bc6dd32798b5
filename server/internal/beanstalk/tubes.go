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

// tubes are those that connections use, or that have jobs and were named.
type tubes struct {
	set *queues.Set

	mu     sync.Mutex
	all    map[string]*tube
	unions map[string]*union
}

// tube is what is known of one beside its queue. All of it is under tubes.mu.
type tube struct {
	name    string
	using   int
	watched int
	waiting map[*conn]context.CancelCauseFunc

	jobs, deletes, pauses int64 // since the tube is there

	pause       time.Duration
	pausedUntil time.Time
}

// source is what jobs are reserved from.
type source interface {
	Reserve(ctx context.Context, o ...work.ReserveOptions) (*work.Lease[[]byte], error)
	ReserveWait(ctx context.Context, o ...work.ReserveOptions) (*work.Lease[[]byte], error)
}

// union is one of tubes that connections watch.
type union struct {
	*work.Union[[]byte]
	of    []*queues.Work
	users int
}

func newTubes(set *queues.Set) *tubes {
	return &tubes{set: set, all: make(map[string]*tube), unions: make(map[string]*union)}
}

// update changes what is known of a tube, and returns it.
func (t *tubes) update(name string, f func(*tube)) *tube {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.all[name]
	if of == nil {
		of = &tube{name: name, waiting: make(map[*conn]context.CancelCauseFunc)}
		t.all[name] = of
	}
	f(of)
	return of
}

// left is update for what may be the end of a tube: one that does not exist any more is forgotten.
func (t *tubes) left(name string, f func(*tube)) {
	if t.update(name, f); t.isUsed(name) {
		return
	}
	err := t.find(context.Background(), name, func(*queues.Work) error { return nil })
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.all[name]; errors.Is(err, work.ErrNotFound) && of != nil && of.using+of.watched == 0 {
		delete(t.all, name)
	}
}

// isUsed tells whether a connection uses or watches a tube, as the first one always is.
func (t *tubes) isUsed(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.all[name]
	return name == defaultTube || of != nil && of.using+of.watched > 0
}

// open returns the queue of a tube, or nil if there never was one.
func (t *tubes) open(ctx context.Context, name string) (q *queues.Work, release func(), err error) {
	q, release, err = t.set.Work(ctx, name, queues.Existing)
	if errors.Is(err, conq.ErrNoQueue) || errors.Is(err, conq.ErrKind) {
		return nil, func() {}, nil
	}
	return q, release, err
}

// with calls f with the queue of a tube, if there ever was one.
func (t *tubes) with(ctx context.Context, name string, f func(*queues.Work) error) error {
	q, release, err := t.open(ctx, name)
	if err != nil || q == nil {
		return err
	}
	defer release()
	return f(q)
}

// find calls f with the queue of a tube that exists: somebody uses it, or it has jobs. It is nil if it never had any.
func (t *tubes) find(ctx context.Context, name string, f func(*queues.Work) error) error {
	q, release, err := t.open(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	if !t.isUsed(name) {
		n, err := countJobs(ctx, q)
		if err != nil || n == 0 {
			return cmp.Or(err, error(work.ErrNotFound))
		}
	}
	return f(q)
}

func countJobs(ctx context.Context, q *queues.Work) (int64, error) {
	if q == nil {
		return 0, nil
	}
	s, err := q.Stats(ctx)
	return s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead, err
}

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
		n, err := countJobs(ctx, q)
		if n > 0 {
			known[q.Name()] = true
		}
		return err
	})
	return slices.Sorted(maps.Keys(known)), err
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
func (t *tubes) pauseTube(name string, d time.Duration) {
	t.update(name, func(of *tube) {
		of.pauses++
		of.pause, of.pausedUntil = d, time.Now().Add(max(d, time.Nanosecond))
		for _, cancel := range of.waiting {
			cancel(errAgain)
		}
	})
}

// paused returns how long a tube is paused in all and from now on, which is 0 if it is not.
func (of *tube) paused(now time.Time) (total, left time.Duration) {
	if left = of.pausedUntil.Sub(now); left <= 0 {
		of.pause = 0
		return 0, 0
	}
	return of.pause, left
}

// unpaused returns which of a connection's tubes are not paused, by name, and when the next pause ends.
func (t *tubes) unpaused(of []*tube) (open []*tube, until time.Time) {
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
	return open, until
}

// source returns what to reserve from for tubes, sorted by name, that the caller is in; key is what names are joined to.
// The caller calls release when it uses that no more.
func (t *tubes) source(ctx context.Context, of []*tube, key string) (s source, release func(), err error) {
	all, releases := make([]*queues.Work, len(of)), make([]func(), len(of))
	for i, tube := range of {
		if all[i], releases[i], err = t.set.Work(ctx, tube.name, queues.Later); err != nil {
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
	if u == nil || !slices.Equal(u.of, all) { // a handle of it may have been replaced
		of, err := work.NewUnion(all...)
		if err != nil {
			call(releases)
			return nil, nil, err
		}
		u = &union{Union: of, of: all}
		t.unions[key] = u
	}
	u.users++
	return u, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u.users--; u.users == 0 && t.unions[key] == u {
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

// wait notes that a connection waits at the tubes that it watches. cancel is called when one is paused.
func (t *tubes) wait(c *conn, cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range c.watched {
		of.waiting[c] = cancel
	}
}

// waited is the reverse of wait.
func (t *tubes) waited(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range c.watched {
		delete(of.waiting, c)
	}
}
