package check_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// Whatever has happened to some keys of a store, a check ends without an error, a
// look changes nothing, and a repair keeps each item, and leaves nothing that it
// could have mended.
func TestCheckRandomDamage(t *testing.T) {
	repaired, left, putBack := 0, 0, 0
	for seed := range uint64(400) {
		db := memory.New(memory.Options{Limits: small})
		random := rand.New(rand.NewPCG(seed, 1))
		damage(t, random, db, fillHealthy(t, db))
		page, o := 1+random.IntN(60), check.CheckOptions{}
		before := testkit.Everything(t, db)
		report, _ := runPages(t, readOnly{db}, page, o)
		testkit.Equal(t, fmt.Sprint(seed, ": keys"), report.Keys, len(before))
		o.Repair = true
		report, _ = runPages(t, db, page, o)
		repaired, left, putBack = repaired+report.Repaired, left+report.Faults, putBack+report.PutBack
		after := testkit.Everything(t, db)
		testkit.Equal(t, fmt.Sprint(seed, ": items"), fmt.Sprint(itemsOf(after)), fmt.Sprint(itemsOf(before)))
		// What goes back may be what something else is waiting for: an item for its
		// pieces, a place for its result.
		for range 3 {
			report, _ = runPages(t, db, page, o)
		}
		testkit.Equal(t, fmt.Sprint(seed, ": repaired by the fourth repair"), report.Repaired+report.PutBack, 0)
		testkit.NoError(t, db.Close())
	}
	t.Log(repaired, "faults repaired,", left, "left,", putBack, "items put back")
	if repaired < 100 || left < 100 || putBack < 100 {
		t.Error("the damage was not of all kinds")
	}
}

// damage adds a result that is too old, and then changes some keys.
func damage(t *testing.T, random *rand.Rand, db kv.DB, f fixture) {
	stageItems(t, db, testkit.Laid("q"), opID(7), 2, checkTime.Add(-time.Second))
	stageItems(t, db, testkit.Laid("p"), opID(6), 3, checkTime.Add(-time.Second))
	pairs := testkit.Everything(t, db)
	testkit.NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		for range 1 + random.IntN(5) {
			pair := pairs[random.IntN(len(pairs))]
			if bytes.Equal(pair.Key, layout.FormatKey()) {
				continue // or it may be a newer one
			}
			switch random.IntN(4) {
			case 0:
				if _, item := itemsOf([]kv.KeyValue{pair})[string(pair.Key)]; !item {
					tx.Clear(pair.Key)
				}
			case 1:
				if len(pair.Value) > 0 {
					pair.Value[random.IntN(len(pair.Value))] ^= 1 << random.IntN(8)
				}
				tx.Set(pair.Key, pair.Value)
			case 2:
				if random.IntN(2) == 0 {
					tx.Clear(pair.Key)
				}
				pair.Key[random.IntN(len(pair.Key))] ^= 1 << random.IntN(7) // not 0xff
				tx.Set(pair.Key, pair.Value)
			case 3:
				tx.Set(pair.Key[:1+random.IntN(len(pair.Key))], pair.Value)
			}
		}
		return nil
	}))
}
