package work

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// keeper has what is due done in the queues of a store, for all handles of this process: once a second it compares the clock
// with what alarms know, so that a clock that is set, or a machine that was asleep, is noticed; and it looks at the store where
// that may know better.
type keeper struct {
	db     kv.DB
	shared bool           // others change the store, too
	slots  chan struct{}  // of those at work
	busy   sync.WaitGroup // those that Keep has begun

	users int // under keepersMu

	mu     sync.Mutex
	alarms map[string]*alarm
	kept   int      // handles that keep, and calls of Keep
	all    *Options // of Keep: all queues are kept
	round  *round
	aside  map[string]*asideEntry
}

// Bounds of what a keeper does.
const (
	keeperPeriod = time.Second
	atWork       = 8                     // transactions at once
	perLook      = 50                    // queues in one transaction that reads
	lookTime     = 50 * time.Millisecond // of a period, where the store is shared
	lookTimeout  = 10 * time.Second
	relist       = 10 * second // microseconds between looks at the catalogue
)

var (
	keepersMu sync.Mutex
	keepers   = make(map[kv.DB]*keeper)
)

// shareKeeper returns the keeper of a store. Each call needs one of release.
func shareKeeper(db kv.DB) *keeper {
	keepersMu.Lock()
	defer keepersMu.Unlock()
	comparable := reflect.TypeOf(db).Comparable()
	if comparable && keepers[db] != nil {
		keepers[db].users++
		return keepers[db]
	}
	k := &keeper{
		db: db, shared: kvext.SignalsOf(db) == nil, slots: make(chan struct{}, atWork), users: 1,
		alarms: make(map[string]*alarm), aside: make(map[string]*asideEntry),
	}
	if comparable {
		keepers[db] = k
	}
	return k
}

func (k *keeper) release() {
	keepersMu.Lock()
	defer keepersMu.Unlock()
	if k.users--; k.users == 0 && reflect.TypeOf(k.db).Comparable() {
		delete(keepers, k.db)
	}
}

// alarm returns the alarm of a queue, which has one more user.
func (k *keeper) alarm(queue string) *alarm {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.known(queue)
	a.users++
	return a
}

// known returns the alarm of a queue. The lock is held.
func (k *keeper) known(queue string) *alarm {
	a := k.alarms[queue]
	if a == nil {
		a = &alarm{keeper: k, queue: queue, wake: jobs.Never}
		k.alarms[queue] = a
	}
	return a
}

// leave ends the use of an alarm by a handle.
func (k *keeper) leave(a *alarm, kept bool) {
	k.mu.Lock()
	if a.users--; a.users == 0 && k.all == nil {
		delete(k.alarms, a.queue)
	}
	k.mu.Unlock()
	if kept {
		k.end()
	}
	k.release()
}

// begin has the keeper run until end was called as often.
func (k *keeper) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept++; k.kept > 1 {
		return
	}
	r := &round{keeper: k}
	r.ctx, r.stop = context.WithCancel(context.Background())
	k.round = r
	r.mu.Lock()
	r.timer = time.AfterFunc(keeperPeriod, r.run)
	r.mu.Unlock()
}

func (k *keeper) end() {
	k.mu.Lock()
	k.kept--
	r := k.round
	last := k.kept == 0
	k.mu.Unlock()
	if last {
		r.stop()
		r.mu.Lock() // a pass is over
		r.timer.Stop()
		r.mu.Unlock()
	}
}

// round is what runs passes, by a timer, as that costs nothing where a handle is left open.
type round struct {
	keeper *keeper
	ctx    context.Context
	stop   context.CancelFunc

	mu    sync.Mutex // while a pass is under way
	timer *time.Timer
}

func (r *round) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.keeper.pass(r.ctx)
		r.timer.Reset(keeperPeriod)
	}
}

// pass compares alarms with the clock, and looks at the store where that is needed.
func (k *keeper) pass(ctx context.Context) {
	now := micros(time.Now())
	var look, serve []*alarm
	k.mu.Lock()
	for queue, a := range k.alarms {
		if a.users == 0 && !k.shared && a.rests() {
			delete(k.alarms, queue) // until a handle tells of something
			continue
		}
		looks, serves := a.pass(now, k.all != nil, k.shared)
		if looks {
			look = append(look, a)
		}
		if serves {
			serve = append(serve, a)
		}
	}
	k.mu.Unlock()
	for _, a := range serve {
		k.serve(ctx, a)
	}
	k.look(ctx, look)
}

// pass is the part of one alarm: whether the store is to be looked at, and whether there is something to do.
func (a *alarm) pass(now int64, all, shared bool) (look, serve bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.keeping) > 0:
		now = micros(a.keeping[0].now())
	case !all:
		return false, false
	}
	if now < a.seen { // the clock was set back
		a.stale, a.heal, a.wake = true, 0, min(a.wake, now)
	}
	a.seen = now
	look = a.stale || a.looked == 0 || shared && now >= a.looked+second || now < a.looked
	serve = a.looked != 0 && !a.ringing && (min(a.next, a.wake) <= now || a.ticks && now >= a.heal)
	if !serve {
		a.arm(now)
	}
	return look, serve
}

// rests tells whether nothing is going to be due in a queue, as far as this process knows, which is told of all that changes.
func (a *alarm) rests() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = a.looked != 0 && !a.stale && !a.ringing && !a.ticks && a.next == jobs.Never
	return a.gone
}

// remember has the store looked at for a queue of which the keeper has forgotten the alarm.
func (k *keeper) remember(queue string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all != nil {
		k.known(queue)
	}
}

// serve does what is due in a queue, with a handle of its own if no other one keeps it.
func (k *keeper) serve(ctx context.Context, a *alarm) {
	a.mu.Lock()
	kept := len(a.keeping) > 0
	due := min(a.next, a.wake) <= a.seen
	heals := a.ticks && a.seen >= a.heal
	if heals {
		a.heal = a.seen + healAfter
	}
	if !kept {
		a.ringing = true
	}
	a.mu.Unlock()
	if kept {
		go func() {
			if heals {
				a.healPeriodics()
			}
			if due {
				a.ring()
			}
		}()
		return
	}
	k.mu.Lock()
	options := k.all
	if options != nil {
		k.busy.Add(1)
	}
	k.mu.Unlock()
	go func() {
		if options != nil {
			defer k.busy.Done()
			k.do(func() { k.serveOnce(ctx, a.queue, *options, heals) })
		}
		a.mu.Lock()
		a.ringing = false
		a.mu.Unlock()
	}()
}

// serveOnce does what is due in a queue of which no handle reserves.
func (k *keeper) serveOnce(ctx context.Context, name string, o Options, heals bool) {
	if ctx.Err() != nil {
		return
	}
	e := new(engine)
	e.init(k.db, name, o)
	stop := context.AfterFunc(ctx, func() { e.end(queue.ErrClosed) })
	if heals {
		e.healPeriodics()
	}
	e.keepUp()
	stop()
	_ = e.close() // what it leaves behind is removed in time
}

// healPeriodics has one of the handles that keep a queue heal it.
func (a *alarm) healPeriodics() {
	a.mu.Lock()
	if len(a.keeping) == 0 {
		a.mu.Unlock()
		return
	}
	e := a.keeping[0]
	e.background.Add(1)
	a.mu.Unlock()
	defer e.background.Done()
	a.keeper.do(e.healPeriodics)
}

// do runs f, beside not too many others.
func (k *keeper) do(f func()) {
	k.slots <- struct{}{}
	defer func() { <-k.slots }()
	f()
}

// look asks the store when something is due in queues: where others change it, those that were looked at longest ago first, for
// a part of the time.
func (k *keeper) look(ctx context.Context, all []*alarm) {
	if k.shared {
		slices.SortFunc(all, func(a, b *alarm) int { return int(min(1, max(-1, a.lastLook()-b.lastLook()))) })
	}
	began := time.Now()
	for some := range slices.Chunk(all, perLook) {
		if ctx.Err() != nil || k.shared && time.Since(began) > lookTime {
			return
		}
		if err := k.lookAt(ctx, some); err != nil {
			return // it tries again at the next pass
		}
	}
}

func (a *alarm) lastLook() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.looked
}

func (k *keeper) lookAt(ctx context.Context, some []*alarm) error {
	k.mu.Lock()
	options := k.all
	k.mu.Unlock()
	type found struct {
		now, next int64
		ticks     bool
	}
	all := make([]found, len(some))
	queues := make([]*jobs.Queue, len(some))
	for i, a := range some {
		queues[i], all[i].now = a.beginLook(options, k.db.Limits())
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := k.db.ReadTransact(ctx, func(r kv.Reader) (err error) {
		for i, q := range queues {
			all[i].next, all[i].ticks, err = q.NextDue(r, all[i].now)
			if errors.Is(err, queue.ErrCorrupt) { // of one queue's settings
				all[i].next = jobs.Never
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	for i, a := range some {
		if err != nil {
			a.touch()
			continue
		}
		a.lookedAt(all[i].now, all[i].next, all[i].ticks)
	}
	return err
}

// beginLook returns the recipe to look with, and the time.
func (a *alarm) beginLook(options *Options, limits kv.Limits) (*jobs.Queue, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale = false
	if len(a.keeping) > 0 {
		return a.keeping[0].recipe, micros(a.keeping[0].now())
	}
	config := jobs.Config{}
	if options != nil {
		config.Skew = options.Skew.Microseconds()
	}
	return jobs.NewQueue(a.queue, limits, config), micros(time.Now())
}

// Keep does what is due in all work queues of a store until ctx ends, also in those of which no handle is open: leases that are
// over end, scheduled jobs become ready, periodic jobs are put. It is what a handle that reserves does for its own queue, and
// for a program that only looks at queues, or puts jobs, as a server. Where processes share the store, what others change is
// seen within a second, or as soon as looking at all queues takes not more than a twentieth of the time. There is one Keep of
// a store in a process. Options.Observe is told of what happens in queues of which no handle reserves.
func Keep(ctx context.Context, db kv.DB, opts ...Options) error {
	o, err := options.Only(opts)
	if err != nil {
		return err
	}
	if db == nil {
		return invalid("store is nil")
	}
	if err := contextError(ctx); err != nil {
		return err
	}
	if err := o.complete(db.Limits().Shared); err != nil {
		return fmt.Errorf("%w: %w", kv.ErrInvalid, err)
	}
	k := shareKeeper(db)
	defer k.release()
	k.mu.Lock()
	if k.all != nil {
		k.mu.Unlock()
		return invalid("this process has a Keep of the store already")
	}
	k.all = &o
	k.mu.Unlock()
	k.begin()
	k.list(ctx, o)
	k.end()
	k.mu.Lock()
	k.all = nil
	for queue, a := range k.alarms {
		if a.users == 0 {
			delete(k.alarms, queue)
		}
	}
	k.mu.Unlock()
	k.busy.Wait()
	return nil
}

// list reads which queues there are until ctx ends: once, and where others make some, again and again.
func (k *keeper) list(ctx context.Context, o Options) {
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = relist * time.Microsecond
		all, err := layout.List(ctx, k.db)
		if err != nil {
			if o.Logger != nil && ctx.Err() == nil {
				o.Logger.Debug("the work queues of the store could not be listed", "error", err)
			}
			if !errors.Is(err, queue.ErrCorrupt) { // which is of one queue
				continue
			}
		}
		var queues []string
		k.mu.Lock()
		for _, info := range all {
			if info.Kind == queue.KindWorkQueue {
				k.known(info.Name)
				queues = append(queues, info.Name)
			}
		}
		k.mu.Unlock()
		if !k.shared {
			k.endOrphans(ctx, queues, o)
			<-ctx.Done() // handles of this process tell of new ones
			return
		}
	}
}
