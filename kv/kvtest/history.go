package kvtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/conq-go/conq/kv"
)

// serial is the specification: a store that runs one transaction after the
// other. Porcupine looks for an order of the transactions, in agreement with
// real time, in which each saw what it saw. The whole store is one object, so
// this is strict serializability, and nothing less.
var serial = porcupine.Model{
	Init: func() any { return make(state) },
	Step: func(before, input, output any) (bool, any) {
		after := maps.Clone(before.(state))
		seen := output.([]string)
		for i, o := range input.([]op) {
			if after.do(o) != seen[i] {
				return false, before
			}
		}
		return true, after
	},
	Equal: func(a, b any) bool { return maps.Equal(a.(state), b.(state)) },
	DescribeOperation: func(input, output any) string {
		var s strings.Builder
		for i, o := range input.([]op) {
			fmt.Fprintf(&s, "%v -> %s; ", o, output.([]string)[i])
		}
		return s.String()
	},
}

func checkHistories(t *tester) {
	const histories = 30
	for seed := range uint64(histories) {
		t.reset()
		history := t.history(seed)
		switch result := porcupine.CheckOperationsTimeout(serial, history, t.patience); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			t.Fatalf("history %d could not be checked in time", seed)
		default:
			for _, o := range history {
				t.Logf("%d..%d client %d: %s", o.Call, o.Return, o.ClientId, serial.DescribeOperation(o.Input, o.Output))
			}
			t.Fatalf("history %d: no order of these transactions explains what they saw", seed)
		}
	}
}

// history runs random transactions from several goroutines, and records them.
func (t *tester) history(seed uint64) []porcupine.Operation {
	const clients, transactions = 4, 10
	recorded := make([][]porcupine.Operation, clients)
	start := time.Now()
	var group sync.WaitGroup
	for client := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		group.Go(func() {
			for i := range transactions {
				ops := randomOps(random, fmt.Sprintf("%d.%d", client, i))
				o := porcupine.Operation{ClientId: client, Input: ops, Call: int64(time.Since(start))}
				seen, err := t.runSlowly(ops)
				if err != nil {
					t.Errorf("Transact: %v", err)
					return
				}
				o.Output, o.Return = seen, int64(time.Since(start))
				recorded[client] = append(recorded[client], o)
			}
		})
	}
	group.Wait()
	return slices.Concat(recorded...)
}

// runSlowly runs ops as a transaction that lets others run in between.
func (t *tester) runSlowly(ops []op) (seen []string, err error) {
	err = t.db.Transact(t.ctx, func(tx kv.Tx) error {
		if len(ops)%2 == 0 {
			kv.NoSync(tx)
		}
		seen = make([]string, len(ops))
		for i, o := range ops {
			var err error
			if seen[i], err = o.run(tx); err != nil {
				return err
			}
			runtime.Gosched()
		}
		return nil
	})
	return seen, err
}

// randomOps returns a transaction on few keys, with values that tell it apart.
// It reads without Snapshot, as what that sees need not be serializable.
func randomOps(random *rand.Rand, name string) []op {
	keys := []string{"a", "b", "c", "d", "e"}
	ops := make([]op, 1+random.IntN(4))
	for i := range ops {
		begin, end := random.IntN(len(keys)), random.IntN(len(keys)+1)
		o := op{
			kind:  opKinds[random.IntN(len(opKinds))],
			key:   keys[begin],
			value: fmt.Sprintf("%s.%d", name, i),
			delta: random.Int64N(100),
			limit: random.IntN(3), stop: random.IntN(3), reverse: random.IntN(2) == 0,
		}
		if o.kind == "range" || o.kind == "clear range" {
			if o.end = "f"; end > begin && end < len(keys) {
				o.end = keys[end]
			}
		}
		ops[i] = o
	}
	return ops
}
