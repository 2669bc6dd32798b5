package work

import (
	"context"
	"fmt"
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

func openUnion(t *testing.T, db kv.DB, names ...string) (*Union[string], map[string]*Queue[string]) {
	t.Helper()
	queues, all := make(map[string]*Queue[string]), []*Queue[string]{}
	for _, name := range names {
		q, err := Open(t.Context(), db, name, queue.String(), Options{findable: true})
		noError(t, err)
		t.Cleanup(func() { noError(t, q.Close()) })
		queues[name] = q
		all = append(all, q)
	}
	u, err := NewUnion(all...)
	noError(t, err)
	return u, queues
}

// Over all queues the lowest priority is first, and then the oldest job.
func TestUnionOrder(t *testing.T) {
	ctx := context.Background()
	u, queues := openUnion(t, store(t), "a", "b", "c")
	put := func(queue, value string, priority int64) {
		_, err := queues[queue].Put(ctx, value, Job{Priority: priority})
		noError(t, err)
	}
	want := []string{"b1", "c1", "a1", "b2", "a2", "c2"}
	put("a", "a1", 1)
	put("c", "c1", 0)
	put("b", "b2", 1)
	put("a", "a2", 1)
	put("b", "b1", -1)
	put("c", "c2", 2)
	noError(t, queues["c"].Pause(ctx))
	leases, err := ready(u)(ctx, 2)
	noError(t, err)
	if len(leases) != 2 || leases[0].Value != "b1" || leases[1].Value != "a1" {
		t.Fatalf("%v with a paused queue", leases)
	}
	for _, l := range leases {
		noError(t, l.Release(ctx, 0))
	}
	noError(t, queues["c"].Resume(ctx))
	for n := 1; len(want) > 0; n++ {
		leases, err := ready(u)(ctx, n)
		noError(t, err)
		for i, l := range leases {
			if l.Value != want[i] || l.Queue() != want[i][:1] {
				t.Fatalf("got %s of %s, want %s", l.Value, l.Queue(), want[i])
			}
			noError(t, l.Ack(ctx))
		}
		want = want[len(leases):]
	}
	leases, err = ready(u)(ctx, 1)
	noError(t, err)
	if len(leases) > 0 {
		t.Fatalf("%v is left", leases[0].Value)
	}
}

// A caller that waits wakes for a job of each queue, for one that becomes due, and for a lease that runs out; on an
// engine with signals and on one without.
func TestUnionWaits(t *testing.T) {
	for name, open := range map[string]func() kv.DB{
		"signals": func() kv.DB { return memory.New(memory.Options{}) },
		"watches": func() kv.DB {
			return faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{Shared: true}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := open()
				defer db.Close()
				ctx := context.Background()
				u, queues := openUnion(t, db, "a", "b")
				got := make(chan *Lease[string])
				wait := func() {
					go func() {
						l, err := u.ReserveWait(ctx)
						noError(t, err)
						got <- l
					}()
					synctest.Wait()
				}
				for _, queue := range []string{"b", "a"} {
					wait()
					_, err := queues[queue].Put(ctx, queue)
					noError(t, err)
					l := <-got
					if l.Value != queue {
						t.Fatalf("got %q", l.Value)
					}
					began := time.Now()
					noError(t, l.Release(ctx, time.Minute))
					wait()
					if l = <-got; time.Since(began) < time.Minute {
						t.Fatalf("%q came after %v", l.Value, time.Since(began))
					}
					wait() // for the lease to run out
					l = <-got
					noError(t, l.Ack(ctx))
				}
				ended, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := u.ReserveWait(ended)
				isError(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// Many callers of several unions get each job once.
func TestUnionConcurrently(t *testing.T) {
	ctx := context.Background()
	db := store(t)
	u, queues := openUnion(t, db, "a", "b", "c")
	part, err := NewUnion(queues["b"], queues["c"])
	noError(t, err)
	const jobs = 300
	var mu sync.Mutex
	seen := make(map[string]int)
	var group sync.WaitGroup
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range 8 {
		group.Go(func() {
			for {
				l, err := []*Union[string]{u, part}[i%2].ReserveWait(all)
				if all.Err() != nil && err != nil {
					return
				}
				noError(t, err)
				noError(t, l.Ack(ctx))
				mu.Lock()
				if seen[l.Value]++; len(seen) == jobs {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for i := range jobs {
		name := string("abc"[i%3])
		_, err := queues[name].Put(ctx, fmt.Sprint(i), Job{Priority: int64(i % 5)})
		noError(t, err)
	}
	group.Wait()
	for value, n := range seen {
		if n != 1 {
			t.Errorf("job %s came %d times", value, n)
		}
	}
}

// Callers that want several jobs get them from all queues, in order, and some if there are no more.
func TestUnionReserveN(t *testing.T) {
	ctx := context.Background()
	u, queues := openUnion(t, store(t), "a", "b")
	for i := range 6 {
		_, err := queues[string("ab"[i%2])].Put(ctx, fmt.Sprint(i))
		noError(t, err)
	}
	_, err := u.ReserveWaitN(ctx, 0)
	isError(t, err, kv.ErrInvalid)
	var got []string
	for len(got) < 6 {
		leases, err := u.ReserveWaitN(ctx, 4)
		noError(t, err)
		for _, l := range leases {
			got = append(got, l.Value)
			noError(t, l.Ack(ctx))
		}
	}
	if want := "[0 1 2 3 4 5]"; fmt.Sprint(got) != want || u.Name() != "a, b" {
		t.Errorf("%v of %s, want %s", got, u.Name(), want)
	}
}

// A job is known by its id alone, and can be reserved by it, whatever is before it.
func TestFindAndReserveID(t *testing.T) {
	ctx := context.Background()
	db := store(t)
	_, queues := openUnion(t, db, "a", "b")
	q := queues["b"]
	first, err := q.Put(ctx, "first")
	noError(t, err)
	id, err := q.Put(ctx, "later", Job{Delay: time.Hour, Priority: 3})
	noError(t, err)
	name, err := find(ctx, db, int64(id))
	noError(t, err)
	if name != "b" {
		t.Fatalf("found in %q", name)
	}
	l, err := q.reserveID(ctx, id, ReserveOptions{})
	noError(t, err)
	if l.ID != id || l.Value != "later" {
		t.Fatalf("reserved %+v", l)
	}
	_, err = q.reserveID(ctx, id, ReserveOptions{})
	isError(t, err, ErrState)
	isError(t, q.deleteFree(ctx, id), ErrState)
	noError(t, l.bury(ctx, "why", new(int64(1))))
	n, err := q.kickFirst(ctx, 5)
	noError(t, err)
	info, err := q.Get(ctx, id)
	noError(t, err)
	want := History{Delay: time.Hour, Buries: 1, Kicks: 1}
	if info.History.Delay = info.History.Delay.Round(time.Second); n != 1 || info.Priority != 1 || info.State != Ready || info.History != want {
		t.Fatalf("%d kicked, job %+v", n, info)
	}
	below, err := q.readyBelow(ctx, 1, 10)
	noError(t, err)
	if below != 1 {
		t.Fatalf("%d jobs below 1", below)
	}
	noError(t, q.deleteFree(ctx, id))
	noError(t, q.Clear(ctx))
	for _, id := range []ID{first, id, 99} {
		_, err = find(ctx, db, int64(id))
		isError(t, err, ErrNotFound)
		_, err = q.reserveID(ctx, id, ReserveOptions{})
		isError(t, err, ErrNotFound)
	}
}

// A job whose lease has run out is reserved by its id, too, and one that waits for that; it has no more attempts than it may have.
func TestReserveExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		q, other := open(t, db, Options{Settings: &Settings{Lease: time.Second}}), open(t, db, Options{})
		id, err := q.Put(ctx, "a", Job{Key: "k", MaxAttempts: 2})
		noError(t, err)
		behind, err := q.Put(ctx, "b", Job{Key: "k"})
		noError(t, err)
		_, err = q.ReserveWait(ctx)
		noError(t, err)
		_, err = other.reserveID(ctx, id, ReserveOptions{})
		isError(t, err, ErrState)
		time.Sleep(time.Second)
		l, err := other.reserveID(ctx, id, ReserveOptions{})
		noError(t, err)
		if l.Value != "a" || l.Attempt != 2 || len(l.Failures) != 1 {
			t.Errorf("got %+v", l)
		}
		time.Sleep(30 * time.Second)
		l, err = other.reserveID(ctx, behind, ReserveOptions{})
		noError(t, err)
		if info, err := q.Get(ctx, id); err != nil || l.Value != "b" || info.State != Dead {
			t.Errorf("got %+v, and the other is %+v, %v", l, info, err)
		}
		sound(t, q)
	})
}

// With one of its queues a union is closed: those that wait are told, and Run ends.
func TestUnionClosed(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				u, queues := openUnion(t, store(t), "a", "b")
				ended := make(chan error, 2)
				go func() {
					_, err := u.ReserveWait(ctx)
					ended <- err
				}()
				go func() {
					ended <- Run(ctx, u, func(context.Context, *Lease[string]) error { return nil })
				}()
				synctest.Wait()
				noError(t, queues[name].Close())
				for range cap(ended) {
					isError(t, <-ended, queue.ErrClosed)
				}
				_, err := u.ReserveWait(ctx)
				isError(t, err, queue.ErrClosed)
				_, err = ready(u)(ctx, 1)
				isError(t, err, queue.ErrClosed)
			})
		})
	}
}

// A job is found by its id alone wherever it is, also one that was put without Options.Findable, in whatever state: in queues that are
// named first without a look at others.
func TestFindByLooking(t *testing.T) {
	ctx := context.Background()
	db := store(t)
	var queues []*Queue[string]
	ids := make(map[ID]string)
	for i := range 210 {
		q, err := Open(ctx, db, fmt.Sprintf("queue %d", i), queue.String(), Options{findable: i == 7, Settings: &Settings{Keep: time.Hour}})
		noError(t, err)
		defer q.Close()
		queues = append(queues, q)
		if i%50 != 7 {
			continue
		}
		for state := range 3 {
			id, err := q.Put(ctx, "x")
			noError(t, err)
			ids[id] = q.Name()
			l, err := q.reserveID(ctx, id, ReserveOptions{})
			noError(t, err)
			switch state {
			case 0:
				noError(t, l.Ack(ctx))
			case 1:
				noError(t, l.Bury(ctx, "why"))
			}
		}
	}
	for id, want := range ids {
		for _, first := range [][]string{nil, {"queue 3", want}, {"no queue", "queue 4"}} {
			if name, err := find(ctx, db, int64(id), first...); err != nil || name != want {
				t.Errorf("job %d is found in %q, %v; want %q", id, name, err, want)
			}
		}
	}
	for id, name := range ids {
		i := slices.IndexFunc(queues, func(q *Queue[string]) bool { return q.Name() == name })
		noError(t, queues[i].Delete(ctx, id))
		_, err := find(ctx, db, int64(id))
		isError(t, err, ErrNotFound)
	}
}
