package staging

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// narrow is a store in which fewer items can be put back at a time than Limits tell, as in a
// cluster whose servers take less than usual.
type narrow struct {
	kv.DB
	most int
}

type narrowTx struct {
	kv.Tx
	items *int // that are set
}

func (tx narrowTx) Set(key, value []byte) {
	if bytes.HasPrefix(key, subspace.Named("q").Bytes()) {
		*tx.items++
	}
	tx.Tx.Set(key, value)
}

func (db narrow) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return db.DB.Transact(ctx, func(tx kv.Tx) error {
		items := 0
		if err := f(narrowTx{tx, &items}); err != nil || items <= db.most {
			return err
		}
		return &kv.TooLargeError{What: "transaction", Size: items, Limit: db.most, Unit: "items"}
	})
}

// A result that can't be put back in one transaction goes back in several, in order.
func TestPutBackInParts(t *testing.T) {
	for most := 1; most <= 7; most++ {
		testkit.Bubble(t, func(t *testing.T) {
			const n = 7
			db := testkit.NewMemory(t, kv.Limits{})
			fill(t, db, n+3)
			events := make(map[Kind]Event)
			s := stage(narrow{db, most}, Options{Observe: func(e Event) {
				was := events[e.Kind]
				events[e.Kind] = Event{e.Kind, was.Requests + e.Requests, was.Items + e.Items}
			}})
			register(t, stage(db, Options{}), Front, n) // and dies
			first, err := Take(t.Context(), s, Front, 1, nil, values)
			if err != nil || !slices.Equal(first, []string{"7"}) {
				t.Errorf("%v, %v: want what is behind the items of the one who died", first, err)
			}
			pass(time.Minute)
			got, err := takeAll(t.Context(), s, Front, 1)
			if want := []string{"0", "1", "2", "3", "4", "5", "6", "8", "9"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("%d at a time: %v, %v, want %v", most, got, err, want)
			}
			if e := events[Expired]; e.Requests != 1 || e.Items != n {
				t.Errorf("%d at a time: %d results with %d items have expired, want 1 with %d", most, e.Requests, e.Items, n)
			}
			if left := leftovers(t, db); left > 0 {
				t.Errorf("%d at a time: %d keys are left", most, left)
			}
		})
	}
}

// Of a result of which a part was put back, the rest is as any other: an owner who comes late
// gets it.
func TestLateForAPart(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 6)
		s := stage(db, Options{})
		late := register(t, s, Front, 5)
		if _, err := Take(t.Context(), s, Front, 1, nil, values); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if _, err := s.expireSome(t.Context(), 1, 2); err != nil {
			t.Fatal(err)
		}
		r := &run{t: t, store: db, counts: make(map[string]int)}
		if r.check(); r.counts["checked"] == 0 {
			t.Error("nothing was checked")
		}
		look, err := late.step(t.Context())
		if want := []string{"0", "1", "2"}; err != nil || !slices.Equal(look.value, want) {
			t.Errorf("late: %v, %v, want %v", look.value, err, want)
		}
		got, err := takeAll(t.Context(), s, Front, 1)
		if want := []string{"3", "4"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("behind him: %v, %v, want %v", got, err, want)
		}
		nothingLeft(t, db)
	})
}

// told is a store that tells of other limits than it has.
type told struct {
	kv.DB
	limits kv.Limits
}

func (db told) Limits() kv.Limits { return db.limits }

// Dead requests go, however few of them a transaction can remove.
func TestDropDeadInParts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Operations: 8})
		for range 10 {
			register(t, stage(db, Options{}), Front, 1) // and dies
		}
		pass(time.Minute)
		testkit.Check(t, stage(told{db, kv.Limits{Operations: 128}}, Options{}).Expire(t.Context()))
		nothingLeft(t, db)
	})
}
