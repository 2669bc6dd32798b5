package work

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// What the caller's transaction does to a lease happens with what else it writes, or not at all.
func TestLeaseInTransaction(t *testing.T) {
	ctx := context.Background()
	abandoned := errors.New("abandoned")
	for _, c := range []struct {
		name  string
		verb  func(l LeaseTx[string]) error
		state State
	}{
		{"Ack", LeaseTx[string].Ack, Done},
		{"AckResult", func(l LeaseTx[string]) error { return l.AckResult([]byte("result")) }, Done},
		{"Release", func(l LeaseTx[string]) error { return l.Release(0) }, Ready},
		{"Fail", func(l LeaseTx[string]) error { return l.Fail(errors.New("why")) }, Scheduled},
		{"Bury", func(l LeaseTx[string]) error { return l.Bury("why") }, Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := open(t, store(t), Options{Settings: &Settings{Keep: time.Hour}})
			id, err := q.Put(ctx, "v")
			noError(t, err)
			l, err := q.ReserveWait(ctx)
			noError(t, err)
			run := func(end error) error {
				return q.db.Transact(ctx, func(tx kv.Tx) error {
					tx.Set([]byte("effect"), nil)
					return errors.Join(c.verb(l.In(tx)), end)
				})
			}
			isError(t, run(abandoned), abandoned)
			info, err := q.Get(ctx, id)
			noError(t, err)
			if info.State != Leased {
				t.Fatalf("%v after a transaction that was abandoned", info.State)
			}
			noError(t, run(nil))
			info, err = q.Get(ctx, id)
			noError(t, err)
			if info.State != c.state {
				t.Errorf("%v, want %v", info.State, c.state)
			}
			if f := info.Failures; (c.name == "Fail" || c.name == "Bury") && (len(f) != 1 || f[0].Error != "why") {
				t.Errorf("failures %v", f)
			}
			result, err := q.Result(ctx, id)
			noError(t, err)
			if (c.name == "AckResult") != (string(result) == "result") {
				t.Errorf("result %q", result)
			}
			isError(t, run(nil), ErrLeaseLost)
			sound(t, q)
		})
	}
}
