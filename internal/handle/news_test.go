package handle_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// Callers that wait learn at once, without a watch, what is added through the store that they use,
// whatever the handle. Others look once a second.
func TestNewsWithinProcess(t *testing.T) {
	for mode, staging := range map[string]conq.Staging{"auto": conq.StagingAuto, "never": conq.StagingNever} {
		for _, end := range allEnds {
			t.Run(mode+" "+end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := testkit.NewCluster(t, 1, faulty.Options{})
					defer c.Close()
					db, o := testkit.Deaf(c.Process()), conq.Options{Staging: staging}
					producer := end.open(t, db, o)
					add := func(value string) error { return producer.add(t.Context(), value) }
					for i, add := range []func(string) error{
						add,
						func(value string) error {
							return db.Transact(t.Context(), func(tx kv.Tx) error { return producer.in(tx, value) })
						},
						func(value string) error { return end.open(t, db, o).add(t.Context(), value) },
					} {
						waits := startWaiter(t.Context(), producer, 1)
						testkit.NoError(t, add(fmt.Sprint(i)))
						synctest.Wait() // no time passes
						testkit.Equal(t, "served at once", waits.done.Load(), true)
						testkit.EqualSlices(t, "items", waits.values, []string{fmt.Sprint(i)})
					}
					apart := startWaiter(t.Context(), end.open(t, testkit.Deaf(c.Process()), o), 1)
					testkit.NoError(t, add("apart"))
					synctest.Wait()
					testkit.Equal(t, "another process was served at once", apart.done.Load(), false)
					pass(2 * time.Second)
					synctest.Wait()
					testkit.EqualSlices(t, "items of another process", apart.values, []string{"apart"})
				})
			})
		}
	}
}
