package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// call is a verb with its arguments, and answer what it has returned.
type call struct {
	verb     string
	id       ID // of Ack and Release
	token    int64
	priority int64
	number   int64 // of Put, which has two operations: see specification
	limit    int   // of Configure: how many jobs may be leased at once; 0 is any number
	order    Order // likewise
}

type answer struct {
	id    ID
	token int64
	lost  bool // ErrLeaseLost; of Reserve: there is no job
}

// specJob is a job of the specification.
type specJob struct {
	number   int64 // of its Put
	priority int64
	id       ID    // 0 while it is being put
	token    int64 // 0 unless it is leased
}

// specState has all jobs in the order of their priority and arrival, and the limit: what comes to the same is equal, so that
// Porcupine need not go on from both.
type specState struct {
	jobs  []specJob
	limit int
	near  bool // a job that is ready may be passed over
}

// full tells whether no more jobs may be leased.
func (s specState) full() bool {
	leased := 0
	for _, j := range s.jobs {
		if j.token != 0 {
			leased++
		}
	}
	return s.limit > 0 && leased >= s.limit
}

// step is one verb of the specification, and whether it may answer so.
func step(state any, input any, output any) (bool, any) {
	of, in, out := state.(specState), input.(call), output.(answer)
	s := slices.Clone(of.jobs)
	find := func(is func(specJob) bool) (at int, found bool) {
		at = slices.IndexFunc(s, is)
		return at, at >= 0
	}
	then := func() specState { return specState{s, of.limit, of.near} }
	switch in.verb {
	case "configure":
		return true, specState{s, in.limit, of.near}
	case "place":
		behind, found := find(func(j specJob) bool { return j.priority > in.priority })
		if !found {
			behind = len(s)
		}
		s = slices.Insert(s, behind, specJob{number: in.number, priority: in.priority})
		return true, then()
	case "put":
		at, placed := find(func(j specJob) bool { return j.number == in.number && j.id == 0 })
		if placed {
			s[at].id = out.id
		}
		return placed, then()
	case "reserve":
		at, found := find(func(j specJob) bool { return j.id != 0 && j.token == 0 })
		if of.near && !out.lost {
			at, found = find(func(j specJob) bool { return j.id == out.id && j.token == 0 })
		}
		if found = found && !of.full(); out.lost || !found || s[at].id != out.id {
			return out.lost && !found, of
		}
		s[at].token = out.token
		return true, then()
	}
	at, held := find(func(j specJob) bool { return j.token == in.token })
	if held == out.lost || held && s[at].id != in.id {
		return false, of
	}
	if held && in.verb == "release" {
		s[at].token = 0
	} else if held {
		s = slices.Delete(s, at, at+1)
	}
	return true, then()
}

// nearSpecification is specification where the order is nearly strict: any job may be passed over, but if one is ready, one is found.
var nearSpecification = func() porcupine.Model {
	m := specification
	m.Init = func() any { return specState{near: true} }
	return m
}()

// specification is what Put, Reserve, Ack, Release and Configure may answer. Put is two operations: as its place comes from a snapshot read,
// a job gets its place at one moment of the call, and is ready from a later one on.
var specification = porcupine.Model{
	Init: func() any { return specState{} },
	Step: step,
	Equal: func(a, b any) bool {
		return a.(specState).limit == b.(specState).limit && slices.Equal(a.(specState).jobs, b.(specState).jobs)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// history runs random verbs of several callers at once, and returns what they have seen.
func history(t *testing.T, seed uint64, queues []*Queue[string], order Order) []porcupine.Operation {
	var clock atomic.Int64
	var mu sync.Mutex
	var all []porcupine.Operation
	var group sync.WaitGroup
	const callers, verbs = 4, 7
	for c := range callers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			q := queues[c%len(queues)]
			var held []*Lease[string]
			for range verbs {
				in, lease := draw(r, &held)
				in.order = order
				began := clock.Add(1)
				out, err := play(q, in, lease, &held)
				ended := clock.Add(1)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if in.verb == "put" {
					in.number = began
					place := call{verb: "place", priority: in.priority, number: began}
					all = append(all, porcupine.Operation{ClientId: callers + c, Input: place, Call: began, Output: answer{}, Return: ended})
				}
				all = append(all, porcupine.Operation{ClientId: c, Input: in, Call: began, Output: out, Return: ended})
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// draw chooses a verb. A lease is sometimes ended twice.
func draw(r *rand.Rand, held *[]*Lease[string]) (call, *Lease[string]) {
	if r.IntN(8) == 0 {
		return call{verb: "configure", limit: r.IntN(3)}, nil
	}
	n := r.IntN(6)
	if n >= 4 && len(*held) > 0 {
		i := r.IntN(len(*held))
		l := (*held)[i]
		if r.IntN(4) > 0 {
			*held = slices.Delete(*held, i, i+1)
		}
		return call{verb: []string{"ack", "release"}[n-4], id: l.ID, token: l.token}, l
	}
	if n%2 == 0 {
		return call{verb: "put", priority: int64(r.IntN(2))}, nil
	}
	return call{verb: "reserve"}, nil
}

func play(q *Queue[string], in call, l *Lease[string], held *[]*Lease[string]) (answer, error) {
	ctx := context.Background()
	var err error
	switch in.verb {
	case "put":
		id, err := q.Put(ctx, "v", Job{Priority: in.priority})
		return answer{id: id}, err
	case "reserve":
		leases, err := ready(q)(ctx, 1)
		if err != nil || len(leases) == 0 {
			return answer{lost: true}, err
		}
		*held = append(*held, leases[0])
		return answer{id: leases[0].ID, token: leases[0].token}, nil
	case "configure":
		err = q.Configure(ctx, Settings{Lease: time.Hour, Concurrency: in.limit, Order: in.order})
	case "ack":
		err = l.Ack(ctx)
	case "release":
		err = l.Release(ctx, 0)
	}
	if errors.Is(err, ErrLeaseLost) {
		return answer{lost: true}, nil
	}
	return answer{}, err
}

// TestLinearizable: Put, Reserve, Ack, Release and Configure of callers on one handle, and on handles of several processes,
// are as if each ran alone. To look for an order takes exponential time in the worst case, when nearly all calls
// overlap, as they do on a busy machine: such a history is given up, and few of them may be.
func TestLinearizable(t *testing.T) {
	const histories, mostGivenUp = 150, 5
	for name, c := range map[string]struct {
		processes int
		order     Order
		spec      porcupine.Model
	}{
		"one handle": {1, NearlyStrict, specification}, "two processes": {2, Strict, specification}, "two processes, nearly strict": {2, NearlyStrict, nearSpecification},
	} {
		t.Run(name, func(t *testing.T) {
			processes, givenUp := c.processes, 0
			for seed := range uint64(histories) {
				base := memory.New(memory.Options{})
				var queues []*Queue[string]
				for range processes {
					db := kv.DB(base)
					if processes > 1 {
						db = &process{DB: faulty.New(base, seed, faulty.Options{
							Conflict: 0.1, Applied: 0.1, Dropped: 0.1, Late: 0.1, Limits: kv.Limits{Shared: true},
						})}
					}
					q, err := Open(t.Context(), db, "jobs", queue.String(), Options{Settings: &Settings{Lease: time.Hour, Order: c.order}})
					noError(t, err)
					queues = append(queues, q)
				}
				all := history(t, seed, queues, c.order)
				if t.Failed() {
					return
				}
				result := porcupine.CheckOperationsTimeout(c.spec, all, 10*time.Second)
				if result == porcupine.Unknown {
					givenUp++
				}
				if result == porcupine.Illegal || givenUp > mostGivenUp {
					for _, op := range all {
						t.Logf("%d..%d caller %d: %s", op.Call, op.Return, op.ClientId, specification.DescribeOperation(op.Input, op.Output))
					}
					t.Fatalf("seed %d: %v", seed, result)
				}
				noError(t, base.Close())
			}
		})
	}
}
