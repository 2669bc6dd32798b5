package staging

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// TestBounds checks that one transaction serves no more than it is allowed to.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		l    kv.Limits
		want int // items in one result
	}{
		{"items", Options{Items: 3}, kv.Limits{}, 3},
		{"bytes", Options{Bytes: 120}, kv.Limits{}, 2},
		{"a large item", Options{Bytes: 10}, kv.Limits{}, 1},
		{"engine's bytes", Options{}, kv.Limits{Transaction: 4 * 120}, 2},
		{"engine's operations", Options{}, kv.Limits{Operations: 16 + perRequest + 4*perItem}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := testkit.NewMemory(t, c.l)
			fill(t, db, 10)
			got, err := Take(t.Context(), stage(db, c.o), Front, 10, values)
			if err != nil || len(got) != c.want {
				t.Errorf("got %q, %v; want %d items", got, err, c.want)
			}
		})
	}
}

// registerOnly is a step that only writes the request.
func (t *taking[T]) registerOnly(ctx context.Context) (outlook[T], error) {
	look, err := transact(ctx, t, func(tx kv.Tx) (look outlook[T], err error) {
		return t.register(tx, others) // or it would be this process
	})
	if err == nil {
		t.request = look.request
		t.s.o.Observe(Event{Registered, 1, t.n})
	}
	return look, err
}

// register writes a request and does nothing more, as a client that dies.
func register(t *testing.T, s *Stage, side Side, n int) *taking[[]string] {
	t.Helper()
	op, err := s.newOp()
	testkit.NoError(t, err)
	dead := &taking[[]string]{s: s, side: side, n: n, collect: values, op: op}
	dead.unwatch = func() {}
	t.Cleanup(func() { dead.unwatch() })
	if _, err := dead.registerOnly(context.Background()); err != nil {
		t.Fatal(err)
	}
	return dead
}

// TestCancel cancels a client before and after it was served.
func TestCancel(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	fill(t, db, 3)
	s := stage(db, Options{})
	early := register(t, s, Front, 1)
	if got, err := early.leave(t.Context(), context.Canceled); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("before it was served a client that leaves gets %q, %v", got, err)
	}
	served := register(t, s, Front, 1)
	if _, err := Take(t.Context(), s, Back, 1, values); err != nil {
		t.Fatal(err)
	}
	if got, err := served.leave(t.Context(), context.Canceled); err != nil || !slices.Equal(got, []string{"0"}) {
		t.Errorf("after it was served a client that leaves gets %q, %v; want its item", got, err)
	}
	if got, err := takeAll(t.Context(), s, Front, 1); err != nil || !slices.Equal(got, []string{"1"}) {
		t.Errorf("%q, %v are left", got, err)
	}
	nothingLeft(t, db)
}
