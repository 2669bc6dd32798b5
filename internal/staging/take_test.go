package staging

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

func TestTakeAlone(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	fill(t, db, 5)
	s := stage(db, Options{})
	for _, c := range []struct {
		side Side
		n    int
		want []string
	}{
		{Front, 1, []string{"0"}}, {Back, 1, []string{"4"}}, {Front, 2, []string{"1", "2"}}, {Front, 9, []string{"3"}},
	} {
		if got, err := Take(t.Context(), s, c.side, c.n, values); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("side %d, %d items: got %q, %v; want %q", c.side, c.n, got, err, c.want)
		}
	}
	for _, side := range []Side{Front, Back} {
		if got, err := Take(t.Context(), s, side, 1, values); !errors.Is(err, ErrEmpty) {
			t.Errorf("side %d of an empty queue: got %q, %v", side, got, err)
		}
	}
	nothingLeft(t, db)
}

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
		{"engine's operations", Options{}, kv.Limits{Operations: overhead + perRequest + 4*perItem}, 4},
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

// TestCollectFails checks that an error of collect loses nothing.
func TestCollectFails(t *testing.T) {
	db, clock := testkit.NewMemory(t, kv.Limits{}), newClock()
	fill(t, db, 2)
	s := stage(db, Options{Now: clock.now})
	broken := errors.New("broken")
	_, err := Take(t.Context(), s, Front, 1, func(kv.Tx, []kv.KeyValue) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	clock.advance(time.Minute)
	if got, err := takeAll(t.Context(), s, Front, 1); err != nil || !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("afterwards %q, %v are taken", got, err)
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
