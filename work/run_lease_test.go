package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// hanging is a store whose transactions may hang before they begin, or after they have committed.
type hanging struct {
	kv.DB
	before, after atomic.Pointer[func(context.Context)]
}

func (h *hanging) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if before := h.before.Load(); before != nil {
		(*before)(ctx)
	}
	err := h.DB.Transact(ctx, f)
	if after := h.after.Load(); after != nil {
		(*after)(ctx)
	}
	return err
}

// sources are those of Run that a store has.
var sources = map[string]func(t *testing.T, q *Queue[string]) Source[string]{
	"queue": func(_ *testing.T, q *Queue[string]) Source[string] { return q },
	"union": func(t *testing.T, q *Queue[string]) Source[string] {
		other, err := Open(t.Context(), q.db, "other", queue.String(), q.options)
		noError(t, err)
		t.Cleanup(func() { noError(t, other.Close()) })
		u, err := NewUnion(q, other)
		noError(t, err)
		return u
	},
}

// A handler's context ends before others get its job, however the store hangs, and whatever becomes of the wall clock.
func TestHandlerEndsBeforeItsLease(t *testing.T) {
	for name, source := range sources {
		for _, hangs := range []string{"until its context ends", "for an hour"} {
			for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
				for _, o := range []Options{{Settings: &Settings{Lease: 3 * time.Second}}, {Settings: &Settings{Lease: 3 * time.Second}, Skew: 500 * time.Millisecond}} {
					t.Run(fmt.Sprint(name, " hangs ", hangs, ", clock ", step, ", skew ", o.Skew), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { endsBeforeItsLease(t, source, hangs, step, o) })
					})
				}
			}
		}
	}
}

func endsBeforeItsLease(t *testing.T, source func(*testing.T, *Queue[string]) Source[string], hangs string, step time.Duration, o Options) {
	ctx, stop := context.WithCancel(t.Context())
	db := store(t)
	h := &hanging{DB: db}
	q, other := open(t, h, o), open(t, db, o)
	var stepped atomic.Int64
	q.now = func() time.Time { return time.Now().Round(0).Add(time.Duration(stepped.Load())) } // as a wall clock
	of := source(t, q)
	_, err := q.Put(ctx, "a")
	noError(t, err)
	began := make(chan time.Time)
	ended := make(chan error)
	done := make(chan error)
	go func() {
		done <- Run(ctx, of, func(ctx context.Context, l *Lease[string]) error {
			began <- time.Now()
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		}, RunOptions{OnError: func(ID, error) {}})
	}()
	at := <-began
	time.Sleep(o.Settings.Lease * 5 / 6) // it is extended twice
	last := at.Add(o.Settings.Lease * 2 / 3)
	free := make(chan struct{})
	hang := func(ctx context.Context) {
		if hangs == "for an hour" {
			<-free
		} else {
			<-ctx.Done()
		}
	}
	h.before.Store(&hang)
	stepped.Store(int64(step))
	isError(t, <-ended, ErrLeaseLost)
	if now := time.Now(); now.Before(last) || now.After(last.Add(o.Settings.Lease-max(o.Skew, 100*time.Millisecond))) {
		t.Errorf("it ended %v after the lease was extended, which is of %v", now.Sub(last), o.Settings.Lease)
	}
	l, err := other.ReserveWait(ctx) // for whom it is over only now
	noError(t, err)
	if l.Attempt != 2 {
		t.Errorf("attempt %d", l.Attempt)
	}
	noError(t, l.Ack(ctx))
	h.before.Store(nil)
	close(free)
	stop()
	noError(t, <-done)
}

// The end of an attempt is waited for no longer than the lease is held.
func TestEndOfAttemptHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h := &hanging{DB: store(t)}
		q := open(t, h, Options{Settings: &Settings{Lease: 3 * time.Second}})
		for _, v := range []string{"a", "b"} {
			_, err := q.Put(ctx, v)
			noError(t, err)
		}
		free := make(chan struct{})
		hang := func(context.Context) { <-free }
		var told []error
		noError(t, Run(ctx, q, func(context.Context, *Lease[string]) error {
			h.before.Store(&hang)
			stop()
			return nil
		}, RunOptions{Grace: time.Hour, OnError: func(_ ID, err error) { told = append(told, err) }}))
		if len(told) != 1 {
			t.Errorf("OnError was told %q", told)
		}
		h.before.Store(nil)
		close(free)
	})
}

// No handler begins with a lease of which less than half is left, and none is handed out that is over: the job is given
// back, and its attempt does not count.
func TestLateLease(t *testing.T) {
	for name, source := range sources {
		for _, late := range []time.Duration{1600 * time.Millisecond, 6 * time.Second} {
			t.Run(fmt.Sprint(name, ", ", late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, stop := context.WithCancel(t.Context())
					h := &hanging{DB: store(t)}
					q := open(t, h, Options{Settings: &Settings{Lease: 3 * time.Second}, Skew: time.Hour}) // nobody else ends it
					of := source(t, q)
					_, err := q.Put(ctx, "a", Job{MaxAttempts: 1})
					noError(t, err)
					delay := func(context.Context) {
						h.after.Store(nil)
						time.Sleep(late)
					}
					h.after.Store(&delay)
					told := 0
					runs := 0
					noError(t, Run(ctx, of, func(_ context.Context, l *Lease[string]) error {
						defer stop()
						if left := time.Until(l.Deadline()); left < 1500*time.Millisecond || l.Attempt != 1 {
							t.Errorf("attempt %d began with %v left", l.Attempt, left)
						}
						runs++
						return nil
					}, RunOptions{OnError: func(ID, error) { told++ }}))
					if runs != 1 || told != 1 {
						t.Errorf("it ran %d times, OnError was told %d times", runs, told)
					}
					s, err := q.Stats(context.Background())
					noError(t, err)
					if s != (Stats{}) {
						t.Errorf("left: %+v", s)
					}
				})
			})
		}
	}
}

// However a lease is taken, it is not handed out when it is over.
func TestLeaseThatIsOver(t *testing.T) {
	for name, take := range map[string]func(q *Queue[string], u *Union[string], id ID) (*Lease[string], error){
		"Reserve": func(q *Queue[string], _ *Union[string], _ ID) (*Lease[string], error) {
			return q.ReserveWait(context.Background())
		},
		"Union.Reserve": func(_ *Queue[string], u *Union[string], _ ID) (*Lease[string], error) {
			return u.ReserveWait(context.Background())
		},
		"ReserveN": func(q *Queue[string], _ *Union[string], _ ID) (*Lease[string], error) {
			all, err := ready(q)(context.Background(), 1)
			return all[0], err
		},
		"Union.ReserveN": func(_ *Queue[string], u *Union[string], _ ID) (*Lease[string], error) {
			all, err := ready(u)(context.Background(), 1)
			return all[0], err
		},
		"ReserveID": func(q *Queue[string], _ *Union[string], id ID) (*Lease[string], error) {
			l, err := q.reserveID(context.Background(), id, ReserveOptions{})
			if !errors.Is(err, ErrState) {
				return l, fmt.Errorf("a lease that is over: %w", err)
			}
			return q.reserveID(context.Background(), id, ReserveOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{DB: store(t)}
				q := open(t, h, Options{Settings: &Settings{Lease: 3 * time.Second}, findable: true, Skew: time.Hour}) // nobody else ends it
				u, err := NewUnion(q)
				noError(t, err)
				id, err := q.Put(t.Context(), "a")
				noError(t, err)
				delay := func(context.Context) {
					h.after.Store(nil)
					time.Sleep(6 * time.Second)
				}
				h.after.Store(&delay)
				l, err := take(q, u, id)
				noError(t, err)
				if left := time.Until(l.Deadline()); left != 3*time.Second || l.Attempt != 1 {
					t.Errorf("attempt %d has %v left", l.Attempt, left)
				}
			})
		})
	}
}

// picky is a codec that can't read everything.
type picky struct{ queue.Codec[string] }

func (p picky) Decode(b []byte) (string, error) {
	switch string(b) {
	case "bad":
		return "", errors.New("no such version")
	case "panics":
		panic("nil")
	}
	return p.Codec.Decode(b)
}

// A job that does not decode is dead at once, with the reason, and others are handed out.
func TestDoesNotDecode(t *testing.T) {
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				var mu sync.Mutex
				var events []Event
				q, err := Open(ctx, store(t), "jobs", picky{queue.String()}, Options{Observe: func(e Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == EventFailed {
						events = append(events, e)
					}
				}})
				noError(t, err)
				defer q.Close()
				ids, _, err := q.PutAll(ctx, []New[string]{{Value: "bad"}, {Value: "good"}, {Value: "panics"}, {Value: "good"}})
				noError(t, err)
				told := make(map[ID]string)
				n := 0
				noError(t, Run(ctx, source(t, q), func(_ context.Context, l *Lease[string]) error {
					if n++; n == 2 {
						stop()
					}
					return nil
				}, RunOptions{OnError: func(id ID, err error) { told[id] = err.Error() }}))
				want := map[ID]string{ids[0]: "payload does not decode: no such version", ids[2]: "payload does not decode: panic: nil"}
				for id, reason := range want {
					info, err := q.Get(context.Background(), id)
					noError(t, err)
					if info.State != Dead || info.Attempts != 1 || info.Failures[0].Error != reason || told[id] != reason {
						t.Errorf("job %d is %v after %d attempts, %q; OnError was told %q", id, info.State, info.Attempts, info.Failures[0].Error, told[id])
					}
				}
				dead := 0
				for _, e := range events {
					dead += e.Dead
				}
				if dead != 2 || len(told) != 2 {
					t.Errorf("%d jobs of events are dead, OnError was told of %d", dead, len(told))
				}
				sound(t, q)
			})
		})
	}
}

// All jobs of a batch that do not decode are no reason to say that there are none.
func TestReserveBehindUndecodable(t *testing.T) {
	ctx := t.Context()
	q, err := Open(ctx, store(t), "jobs", picky{queue.String()})
	noError(t, err)
	defer q.Close()
	_, _, err = q.PutAll(ctx, []New[string]{{Value: "bad"}, {Value: "bad"}, {Value: "good"}})
	noError(t, err)
	got, err := ready(q)(ctx, 1)
	noError(t, err)
	if len(got) != 1 || got[0].Value != "good" {
		t.Errorf("got %v", got)
	}
	got, err = ready(q)(ctx, 1)
	noError(t, err)
	if len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A runner that drains does what is due by then, what its own handlers give back, and what other workers do; then it ends.
func TestDrain(t *testing.T) {
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				q := open(t, store(t), Options{Settings: &Settings{Lease: time.Minute}, Backoff: func(int) time.Duration { return 0 }})
				of := source(t, q)
				noError(t, Run(ctx, of, func(context.Context, *Lease[string]) error { return errors.New("there is none") }, RunOptions{Drain: true}))
				for range 150 {
					_, err := q.Put(ctx, "due", Job{Delay: time.Second})
					noError(t, err)
				}
				noError(t, q.Every(ctx, "tick", "@every 5s", "tick"))
				_, err := q.Put(ctx, "of another")
				noError(t, err)
				_, err = q.ReserveWait(ctx) // by one who has died
				noError(t, err)
				_, err = q.Put(ctx, "later", Job{Delay: time.Hour})
				noError(t, err)
				time.Sleep(6 * time.Second)
				done := make(map[string]int)
				failed := false
				var mu sync.Mutex
				noError(t, Run(ctx, of, func(_ context.Context, l *Lease[string]) error {
					mu.Lock()
					defer mu.Unlock()
					if !failed && l.Value == "due" {
						failed = true
						return errors.New("once")
					}
					if done[l.Value]++; l.Value == "tick" {
						return q.RemovePeriodic(ctx, "tick")
					}
					return nil
				}, RunOptions{Workers: 7, Drain: true, OnError: func(_ ID, err error) {}}))
				if done["due"] != 150 || done["tick"] != 1 || done["of another"] != 1 || done["later"] != 0 {
					t.Errorf("done: %v", done)
				}
				_, err = q.Put(ctx, "paused")
				noError(t, err)
				noError(t, q.Pause(ctx))
				noError(t, Run(ctx, of, func(context.Context, *Lease[string]) error { return nil }, RunOptions{Drain: true}))
				s, err := q.Stats(ctx)
				noError(t, err)
				if s.Ready != 1 || s.Scheduled != 1 || s.Leased != 0 {
					t.Errorf("left: %+v", s)
				}
			})
		})
	}
}

// What came due while nobody was there is done by a runner that drains, and so is a tick.
func TestDrainWhatIsDue(t *testing.T) {
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, db := t.Context(), store(t)
				for what, put := range map[string]func(q *Queue[string]) error{
					"due":  func(q *Queue[string]) error { _, err := q.Put(ctx, "due", Job{Delay: time.Second}); return err },
					"tick": func(q *Queue[string]) error { return q.Every(ctx, "tick", "@every 5s", "tick") },
				} {
					before, err := Open(ctx, db, "jobs", queue.String())
					noError(t, err)
					noError(t, put(before))
					noError(t, before.Close())
					time.Sleep(6 * time.Second)
					q := open(t, db, Options{})
					var done []string
					noError(t, Run(ctx, source(t, q), func(ctx context.Context, l *Lease[string]) error {
						done = append(done, l.Value)
						_ = q.RemovePeriodic(ctx, "tick")
						return nil
					}, RunOptions{Drain: true}))
					if len(done) != 1 || done[0] != what {
						t.Errorf("%s: done: %v", what, done)
					}
				}
			})
		})
	}
}
