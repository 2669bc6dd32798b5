package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/queue"
)

// after opens a queue as a power failure, or with all that was written the death of its process, would leave it.
func after(t *testing.T, fs *vfs.MemFS, unsynced int, seed uint64) *Queue[string] {
	t.Helper()
	image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(seed, 1))})
	return inFiles(t, image, 0)
}

func inFiles(t *testing.T, fs *vfs.MemFS, interval time.Duration) *Queue[string] {
	t.Helper()
	db, err := embedded.Open(t.Context(), "store", embedded.Options{FS: fs, MemTable: 1 << 20, Cache: 1 << 20, Interval: interval})
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	q, err := Open(t.Context(), db, "jobs", queue.String(), Options{Settings: &Settings{Lease: time.Hour}})
	noError(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// A reservation survives the death of the process. After a power failure its job may be ready again, the attempt not counted and
// the token refused; an acknowledgement survives it, with all before it.
func TestReservedThenPowerFails(t *testing.T) {
	ctx := t.Context()
	fs := vfs.NewCrashableMem()
	q := inFiles(t, fs, time.Hour) // nothing is synced by itself
	id, err := q.Put(ctx, "a")
	noError(t, err)
	lease, err := q.ReserveWait(ctx)
	noError(t, err)
	stateAfter := func(unsynced int) (State, int, *Queue[string]) {
		q := after(t, fs, unsynced, 1)
		j, err := q.Get(ctx, id)
		noError(t, err)
		sound(t, q)
		return j.State, j.Attempts, q
	}
	if s, attempts, killed := stateAfter(100); s != Leased || attempts != 1 {
		t.Errorf("after the death of the process it is %v, with %d attempts; want leased, 1", s, attempts)
	} else {
		held, err := killed.Held(id, lease.Token())
		noError(t, err)
		noError(t, held.Ack(ctx))
	}
	s, attempts, cut := stateAfter(0)
	if s != Ready || attempts != 0 {
		t.Errorf("after a power failure it is %v, with %d attempts; want ready, 0: nothing was synced since it was put", s, attempts)
	}
	again, err := cut.ReserveWait(ctx)
	noError(t, err)
	held, err := cut.Held(id, lease.Token())
	noError(t, err)
	if err := held.Ack(ctx); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the token of a reservation that was undone: %v", err)
	}
	noError(t, again.Ack(ctx))

	noError(t, lease.Extend(ctx, 2*time.Hour))
	if s, _, _ := stateAfter(0); s != Ready {
		t.Errorf("after an Extend and a power failure it is %v: was it synced?", s)
	}
	_, err = q.Put(ctx, "b")
	noError(t, err)
	if s, attempts, _ := stateAfter(0); s != Leased || attempts != 1 {
		t.Errorf("after a Put and a power failure it is %v, with %d attempts; want leased, 1: what is before the Put is on disk", s, attempts)
	}
	noError(t, lease.Ack(ctx))
	if _, err := after(t, fs, 0, 1).Get(ctx, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("after an Ack and a power failure: %v", err)
	}
}

// witness is what clients of a queue know of it.
type witness struct {
	sync.Mutex
	put    map[ID]bool
	leases map[ID]string // the tokens of those that have reserved
	acking map[ID]bool
	acked  map[ID]bool
}

func (w *witness) note(of *map[ID]bool, id ID) {
	w.Lock()
	defer w.Unlock()
	(*of)[id] = true
}

// ahead is how many jobs nobody has had yet.
func (w *witness) ahead() int {
	w.Lock()
	defer w.Unlock()
	return len(w.put) - len(w.leases)
}

func (w *witness) copy() *witness {
	w.Lock()
	defer w.Unlock()
	return &witness{put: maps.Clone(w.put), leases: maps.Clone(w.leases), acking: maps.Clone(w.acking), acked: maps.Clone(w.acked)}
}

// TestPowerFails takes images of a store while clients are at work. At most leases are lost: no job is, none is acknowledged
// twice, and no token works for two attempts.
func TestPowerFails(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("%d%%", unsynced), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			q := inFiles(t, fs, 0)
			w := &witness{put: map[ID]bool{}, leases: map[ID]string{}, acking: map[ID]bool{}, acked: map[ID]bool{}}
			ctx, stop := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			defer clients.Wait()
			defer stop()
			client := func(do func() error) {
				clients.Go(func() {
					for {
						if err := do(); err != nil {
							if ctx.Err() == nil {
								t.Error(err)
							}
							return
						}
					}
				})
			}
			for range 2 {
				client(func() error {
					if w.ahead() > 100 {
						time.Sleep(time.Millisecond)
						return ctx.Err()
					}
					id, err := q.Put(ctx, "v")
					if err == nil {
						w.note(&w.put, id)
					}
					return err
				})
			}
			for range 4 {
				client(func() error {
					l, err := q.ReserveWait(ctx)
					if err != nil {
						return err
					}
					w.Lock()
					w.leases[l.ID] = l.Token()
					w.Unlock()
					if l.ID%3 == 0 {
						if err := l.Extend(ctx, time.Hour); err != nil {
							return err
						}
					}
					if l.ID%7 == 0 {
						return nil // its worker does not come to the end
					}
					w.note(&w.acking, l.ID)
					if err := l.Ack(ctx); err != nil {
						return err
					}
					w.note(&w.acked, l.ID)
					return nil
				})
			}
			for seed := range uint64(5) {
				for before := len(w.copy().acked); len(w.copy().acked) < before+50; {
					time.Sleep(time.Millisecond)
				}
				known := w.copy()
				image := after(t, fs, unsynced, seed)
				known.acking = w.copy().acking
				known.check(t, image, unsynced == 100)
			}
		})
	}
}

// check compares what is left with what was known when it was all there was. killed tells that all that was written is there.
func (w *witness) check(t *testing.T, q *Queue[string], killed bool) {
	t.Helper()
	ctx := context.Background()
	sound(t, q)
	there := map[ID]*Info[string]{}
	for _, state := range []State{Ready, Leased} {
		for j, err := range q.List(ctx, Filter{State: state}) {
			noError(t, err)
			there[j.ID] = j
		}
	}
	for id := range w.put {
		if j, is := there[id]; !is && !w.acking[id] || is && w.acked[id] {
			t.Fatalf("job %d is there: %t, %v; was its Ack asked for: %t, acknowledged: %t", id, is, j, w.acking[id], w.acked[id])
		}
	}
	again := map[ID]*Lease[string]{}
	leases, err := ready(q)(ctx, len(there)+1)
	noError(t, err)
	for _, l := range leases {
		again[l.ID] = l
	}
	for _, id := range slices.Sorted(maps.Keys(w.leases)) {
		j, is := there[id]
		if !is {
			continue
		}
		if killed && (j.State != Leased || j.Attempts != 1) {
			t.Fatalf("job %d was reserved, and is %v with %d attempts", id, j.State, j.Attempts)
		}
		first, err := q.Held(id, w.leases[id])
		noError(t, err)
		tries := []*Lease[string]{first, again[id], first}
		if again[id] == nil {
			tries = tries[:1]
		}
		acked := 0
		for _, l := range tries {
			switch err := l.Ack(ctx); {
			case err == nil:
				acked++
			case !errors.Is(err, ErrLeaseLost):
				t.Fatal(err)
			}
		}
		if acked != 1 {
			t.Fatalf("job %d was acknowledged %d times, by its old token and by %d new ones", id, acked, min(1, len(tries)-1))
		}
	}
	sound(t, q)
}
