package budget

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// What is counted is never less than what an engine counts: one that does as much as fits is never too large.
func TestCountsAsEngines(t *testing.T) {
	limits := kv.Limits{Transaction: 600, Operations: 40}
	db := testkit.NewMemory(t, limits)
	random := rand.New(rand.NewPCG(1, 2))
	var room Room
	room.Init(limits)
	for range 500 {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			counted := room.Tx(tx)
			counted.(*Tx).most = Budget{limits.Operations, limits.Transaction}
			for n := 0; n == 0 || Fits(counted, 2, 24); n++ {
				key := fmt.Appendf(nil, "key %d", random.IntN(6))
				switch random.IntN(8) {
				case 0:
					counted.Set(key, []byte("value"))
				case 1:
					counted.Clear(key)
				case 2:
					counted.ClearRange(kv.KeyRange(key))
				case 3:
					counted.Add(key, 1)
				case 4:
					counted.AddReadConflict(kv.KeyRange(key))
				case 5:
					counted.AddWriteConflict(kv.PrefixRange(key))
				case 6:
					for _, err := range counted.Range(kv.PrefixRange(key), kv.RangeOptions{}) {
						testkit.NoError(t, err)
					}
				default:
					_, err := counted.Get(key)
					testkit.NoError(t, err)
				}
			}
			return nil
		}))
	}
}

func TestHalf(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Operations: 40})
	var room Room
	room.Init(db.Limits())
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		all := room.Tx(tx)
		for n := range 4 {
			all.Set(fmt.Appendf(nil, "%d", n), nil)
		}
		half := Half(all)
		testkit.Equal(t, "all", Fits(all, 20, 0) && !Fits(all, 21, 0), true)
		testkit.Equal(t, "half", Fits(half, 10, 0) && !Fits(half, 11, 0), true)
		half.Set([]byte("x"), nil)
		testkit.Equal(t, "after one more", Fits(all, 19, 0) && !Fits(all, 20, 0) && !Fits(half, 10, 0), true)
		testkit.Equal(t, "one that does not count", Half(tx) == tx && Fits(tx, math.MaxInt, math.MaxInt), true)
		return nil
	}))
}

// A server that takes less than its engine says is given less, until that is one thing.
func TestRefused(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Operations: 40})
	var room Room
	room.Init(db.Limits())
	tooLarge := fmt.Errorf("refused: %w", kv.ErrTooLarge)
	for _, fits := range []int{24, 12, 6} {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			counted := room.Tx(tx)
			testkit.Equal(t, "refused with one thing", room.Refused(counted, tooLarge), false)
			testkit.Equal(t, "fits", Fits(counted, fits, 0) && !Fits(counted, fits+1, 0), true)
			testkit.Equal(t, "another error", room.Refused(counted, kv.ErrConflict), false)
			testkit.Equal(t, "refused", room.Refused(counted, tooLarge), true)
			return nil
		}))
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		limits                     kv.Limits
		operations, payload, times int
	}{
		{kv.Limits{}, math.MaxInt, math.MaxInt, 100},
		{kv.Limits{Operations: 128, Transaction: 1000, Value: 10}, 112, 500, 22},
		{kv.Limits{Operations: 64, Transaction: 1000, Value: 10}, 48, 280, 9},
		{kv.Limits{Operations: 20}, 10, math.MaxInt, 2},
		{kv.Limits{Operations: 1, Value: 10}, 1, 10, 1},
	} {
		b := Of(c.limits)
		testkit.Equal(t, "operations", b.Operations, c.operations)
		testkit.Equal(t, "payload", MaxPayload(c.limits), c.payload)
		testkit.Equal(t, "times", b.Times(5, 100), c.times)
	}
	b := Budget{Operations: 10, Bytes: 1000}
	testkit.Equal(t, "weight by operations", b.Weight(5, 100, 200), 100)
	testkit.Equal(t, "weight by bytes", b.Weight(1, 150, 200), 150)
	testkit.Equal(t, "weight of many bytes", b.Weight(1, 150, 4000), 600)
}
