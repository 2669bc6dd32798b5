package handle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// silent is a store whose watches tell nothing, as if they took for ever.
type silent struct{ kv.DB }

func (s silent) Signals() *kv.Signals { return kv.NewsOf(s.DB) }

func (s silent) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return s.DB.Transact(ctx, func(tx kv.Tx) error { return f(silentTx{tx}) })
}

type silentTx struct{ kv.Tx }

func (silentTx) Watch([]byte) <-chan error { return make(chan error) }

// Callers that wait learn at once, without a watch, what is added through the store that they use,
// whatever the handle; so do those in line behind each other. Others look once a second.
func TestNewsWithinProcess(t *testing.T) {
	for mode, staging := range map[string]conq.Staging{"auto": conq.StagingAuto, "never": conq.StagingNever} {
		for _, end := range allEnds {
			t.Run(mode+" "+end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := testkit.NewCluster(t, 1, faulty.Options{})
					defer c.Close()
					db, o := silent{c.Process()}, conq.Options{Staging: staging}
					producer := end.open(t, db, o)
					waits := func(v endVerbs) *taken {
						pass(time.Millisecond) // stamps differ
						return startWaiter(t.Context(), v, 1)
					}
					first := waits(producer)
					second, third := waits(end.open(t, db, o)), waits(end.open(t, db, o))
					apart := waits(end.open(t, silent{c.Process()}, o))
					testkit.NoError(t, producer.add(t.Context(), "1"))
					testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return producer.in(tx, "2") }))
					testkit.NoError(t, end.open(t, db, o).add(t.Context(), "3"))
					synctest.Wait() // no time passes
					for i, got := range []*taken{first, second, third} {
						testkit.Equal(t, "served at once", got.done.Load(), true)
						testkit.EqualSlices(t, "items", got.values, []string{string(rune('1' + i))})
					}
					testkit.NoError(t, producer.add(t.Context(), "4"))
					synctest.Wait()
					testkit.Equal(t, "another process was served at once", apart.done.Load(), false)
					pass(2 * time.Second)
					synctest.Wait()
					testkit.EqualSlices(t, "items of another process", apart.values, []string{"4"})
				})
			})
		}
	}
}
