package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// weave runs a workload in one goroutine: what happens at the same time is called
// from within the transactions of others, between their reads and their commits.
// So an interleaving follows from the seed alone, and whoever conflicts with
// others has every chance to do so.
type weave struct {
	kv.DB
	*rand.Rand
	recorder *Recorder
	clients  []*woven
	left     int     // calls to make
	depth    int     // calls under way
	unknown  float64 // probability of an unknown outcome
}

// woven is a client.
type woven struct {
	*plan
	target Target
	busy   bool
}

// maxDepth is how many calls are under way at most.
const maxDepth = 4

var errLost = errors.New("connection lost")

// Transact runs f, then other clients, then commits. The outcome may be unknown.
func (w *weave) Transact(ctx context.Context, f func(kv.Tx) error) error {
	fault := w.Float64()
	err := w.DB.Transact(ctx, func(tx kv.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		w.others()
		if w.left > 0 && fault < w.unknown/2 {
			return errLost
		}
		return nil
	})
	if errors.Is(err, errLost) || err == nil && w.left > 0 && fault < w.unknown {
		return kv.ErrCommitUnknown
	}
	return err
}

// others lets idle clients make some calls.
func (w *weave) others() {
	for w.depth < maxDepth && w.left > 0 && w.IntN(3) > 0 {
		w.one()
	}
}

// one lets an idle client make a call.
func (w *weave) one() {
	c := w.clients[w.IntN(len(w.clients))]
	if c.busy {
		return
	}
	w.left--
	w.depth++
	c.busy = true
	_, _ = w.recorder.Call(context.Background(), c.target, c.next())
	c.busy = false
	w.depth--
}

// runWoven runs the workload of a seed on a queue.
func runWoven(t *testing.T, seed uint64, k kind) History {
	t.Helper()
	load := Workload{Seed: seed, Clients: 5, Ends: k.ends}
	w := &weave{
		DB:       memory.New(memory.Options{}),
		Rand:     rand.New(rand.NewPCG(seed, 1)),
		recorder: NewRecorder("woven", k.fifoTies),
		left:     60,
		unknown:  k.unknown,
	}
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	random := rand.NewChaCha8(key)
	for c := range load.Clients {
		w.clients = append(w.clients, &woven{plan: load.plan(c), target: k.open(w, random)})
	}
	for w.left > 0 {
		w.one()
	}
	testkit.NoError(t, load.drain(t.Context(), w.recorder, k.open(w, random)))
	return w.recorder.History()
}
