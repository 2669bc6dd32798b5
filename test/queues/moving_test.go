package queues

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

func TestMoveVerb(t *testing.T) {
	ctx := t.Context()
	db := memory.New(memory.Options{})
	open := func(name string) *conq.PriorityQueue[string] {
		q, err := conq.OpenPriorityQueue(ctx, db, name, conq.String())
		testkit.NoError(t, err)
		return q
	}
	from, to := open("from"), open("to")
	_, err := conq.Move(ctx, from, to, 1)
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, conq.ErrEmpty), true)
	for i, v := range []string{"a", "b", "c", "d"} {
		testkit.NoError(t, from.Push(ctx, v, int64(i)))
	}
	n, err := conq.Move(ctx, from, to, 2)
	testkit.NoError(t, err)
	testkit.Equal(t, "moved", n, 2)
	n, err = conq.Move(ctx, from, to, 1, conq.MoveOptions{From: conq.Max})
	testkit.NoError(t, err)
	testkit.Equal(t, "moved", n, 1)
	got, err := to.PopN(ctx, conq.Min, 9)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "at the other one", got, []conq.Prioritized[string]{{Value: "a", Priority: 0}, {Value: "b", Priority: 1}, {Value: "d", Priority: 3}})
	n, err = conq.Move(ctx, from, to, 9)
	testkit.NoError(t, err)
	testkit.Equal(t, "moved of the last one", n, 1)

	_, err = conq.Move(ctx, from, from, 1)
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, kv.ErrInvalid), true)
	_, err = conq.Move(ctx, from, to, 0)
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, kv.ErrInvalid), true)
	_, err = conq.Move(ctx, from, to, 1, conq.MoveOptions{From: 7})
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, kv.ErrInvalid), true)
	fifo, err := conq.OpenQueue(ctx, db, "fifo", conq.String())
	testkit.NoError(t, err)
	_, err = conq.Move[conq.Transactor](ctx, from, fifo, 1)
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, conq.ErrKind), true)
	other, err := conq.OpenPriorityQueue(ctx, memory.New(memory.Options{Limits: kv.Limits{}}), "elsewhere", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, from.Push(ctx, "stays", 1))
	_, err = conq.Move(ctx, from, other, 1)
	testkit.Equal(t, fmt.Sprint(err), errors.Is(err, kv.ErrInvalid), true)
	n, err = from.Len(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "left", n, 1)
}
