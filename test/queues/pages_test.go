package queues

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// newClocked returns queues in a store whose transactions expire by the clock.
func newClocked(t *testing.T) (fixture, *testkit.Clock) {
	db, clock := testkit.Clocked(t)
	return newFixture(t, db, nil), clock
}

// A loop whose body takes longer than a transaction may last gets all items in
// order, however the pages fall.
func TestAllPages(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 3 * time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			f, clock := newClocked(t)
			want := testkit.SplitValues('a', 'z')
			testkit.NoError(t, f.q.EnqueueAll(f.ctx, want))
			for i, v := range want {
				testkit.NoError(t, f.p.Push(f.ctx, v, int64(i/5)))
			}
			var got, popped []string
			for v, err := range f.q.All(f.ctx) {
				testkit.NoError(t, err)
				got = append(got, v)
				clock.Pass(pause)
			}
			for v, err := range f.p.All(f.ctx) {
				testkit.NoError(t, err)
				popped = append(popped, v.Value)
				clock.Pass(pause)
			}
			testkit.EqualSlices(t, "items", got, want)
			testkit.EqualSlices(t, "items by priority", popped, want)
		})
	}
}

// On one snapshot a loop does not meet what happens meanwhile. On pages it goes on
// behind the last item, with what is there then.
func TestAllWhileChanging(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		want  []string
	}{
		{0, testkit.SplitValues('a', 'e')},
		{time.Minute, append(testkit.SplitValues('a', 'b'), testkit.SplitValues('d', 'f')...)},
	} {
		f, clock := newClocked(t)
		testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'e')))
		var got []string
		for v, err := range f.q.All(f.ctx) {
			testkit.NoError(t, err)
			if got = append(got, v); len(got) == 2 {
				testkit.NoError(t, drop(f.q.DequeueN(f.ctx, 3))) // a, b, c: the body may use the queue
				testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('f', 'f')))
			}
			clock.Pass(c.pause)
		}
		testkit.EqualSlices(t, "items", got, c.want)
	}
}

// A loop can be left, and the sequence used again.
func TestAllLeftEarly(t *testing.T) {
	f, clock := newClocked(t)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'e')))
	all := f.q.All(f.ctx)
	for range 2 {
		n := 0
		for v, err := range all {
			testkit.NoError(t, err)
			testkit.Equal(t, "item", v, testkit.SplitValues('a', 'e')[n])
			clock.Pass(time.Minute)
			if n++; n == 3 {
				break
			}
		}
		testkit.Equal(t, "items", n, 3)
	}
	next, stop := iter.Pull2(all)
	v, err, ok := next()
	testkit.NoError(t, err)
	testkit.Equal(t, "first", v, testkit.SplitValues('a', 'a')[0])
	testkit.Equal(t, "is there", ok, true)
	stop()
	testkit.NoError(t, f.q.Enqueue(f.ctx, "still works"))
}

// Len, Queues and All go on when reading itself takes too long.
func TestSlowReads(t *testing.T) {
	f, clock := newClocked(t)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'z')))
	f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
		return testkit.SlowReader{Reader: r, Pass: func() { clock.Pass(time.Second) }}
	}
	n, err := f.q.Len(f.ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "length", n, 26)
	testkit.EqualSlices(t, "items", testkit.List(t, f.q.All(f.ctx)), testkit.SplitValues('a', 'z'))
	for i := range 20 {
		testkit.NoError(t, drop(conq.OpenQueue(t.Context(), f.db, fmt.Sprintf("more %02d", i), conq.String())))
	}
	infos, err := conq.Queues(f.ctx, f.db)
	testkit.NoError(t, err)
	testkit.Equal(t, "queues", len(infos), 22)
}

// Where a snapshot becomes too old Len goes on behind what was counted, however much that is, and counts nothing twice.
func TestLenGoesOn(t *testing.T) {
	for _, items := range []int{5, 500} {
		f, clock := newClocked(t)
		testkit.NoError(t, f.q.EnqueueAll(f.ctx, make([]string, items)))
		seen := 0
		f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
			return testkit.SlowReader{Reader: r, Pass: func() {
				if seen++; seen%(items/4+1) == 0 {
					clock.Pass(time.Minute)
				}
			}}
		}
		n, err := f.q.Len(f.ctx)
		testkit.NoError(t, err)
		testkit.Equal(t, "length", n, items)
		if seen > items+5 {
			t.Errorf("%d pairs were read to count %d items", seen, items)
		}
	}
}

// Len reads no payloads, in a transaction or not.
func TestLenReadsKeys(t *testing.T) {
	o := testkit.NewMemory(t, kv.Limits{})
	read := 0
	db := &testkit.Hooked{DB: o}
	db.Reader = func(r kv.Reader) kv.Reader { return valueReader{r, &read} }
	f := newFixture(t, db, nil)
	for i := range 10 {
		testkit.NoError(t, f.q.Enqueue(f.ctx, strings.Repeat("x", 1000)))
		testkit.NoError(t, f.p.Push(f.ctx, strings.Repeat("x", 250_000), int64(i))) // of several pieces
	}
	read = 0
	for _, length := range []func(context.Context) (int, error){f.q.Len, f.p.Len} {
		n, err := length(f.ctx)
		testkit.NoError(t, err)
		testkit.Equal(t, "length", n, 10)
	}
	db.Attempt = func(tx kv.Tx) kv.Tx { return valueTx{tx, &read} }
	testkit.NoError(t, db.Transact(f.ctx, func(tx kv.Tx) error {
		return errors.Join(drop(f.q.In(tx).Len()), drop(f.p.In(tx).Len()))
	}))
	testkit.Equal(t, "ranges with values that were read", read, 0)
}

// valueReader counts the ranges that are read with their values.
type valueReader struct {
	kv.Reader
	read *int
}

func (v valueReader) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	if !o.KeysOnly {
		*v.read++
	}
	return v.Reader.Range(r, o)
}

type valueTx struct {
	kv.Tx
	read *int
}

func (v valueTx) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return valueReader{v.Tx, v.read}.Range(r, o)
}

// What can't be read in the time at all is an error, not an endless loop.
func TestTooSlow(t *testing.T) {
	f, clock := newClocked(t)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'c')))
	f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
		return testkit.SlowReader{Reader: r, Pass: func() { clock.Pass(time.Minute) }}
	}
	var err error
	for _, err = range f.q.All(f.ctx) { // its pieces are never read in time
	}
	testkit.WantError(t, err, kv.ErrTooOld)
	testkit.WantError(t, drop(f.q.Peek(f.ctx)), kv.ErrTooOld)
	n, err := f.q.Len(f.ctx) // reads one pair a page
	testkit.NoError(t, err)
	testkit.Equal(t, "length", n, 3)
}

// Pages go on where the one before ended, from either end, and leave all as it is.
func TestPage(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'g')))
	for _, size := range []int{1, 2, 3, 7, 100} {
		var got []string
		for after, more := []byte(nil), true; more; more = after != nil {
			values, next, err := f.q.Page(f.ctx, after, size)
			testkit.NoError(t, err)
			got, after = append(got, values...), next
		}
		testkit.EqualSlices(t, "items", got, testkit.SplitValues('a', 'g'))
	}
	for i, v := range []string{"a", "b", "c", "d", "e"} {
		testkit.NoError(t, f.p.Push(f.ctx, v, int64(i/2)))
	}
	lowest, next, err := f.p.Page(f.ctx, conq.Min, nil, 3)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "lowest", lowest, []conq.Prioritized[string]{{Value: "a", Priority: 0}, {Value: "b", Priority: 0}, {Value: "c", Priority: 1}})
	rest, end, err := f.p.Page(f.ctx, conq.Min, next, 3)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "rest", rest, []conq.Prioritized[string]{{Value: "d", Priority: 1}, {Value: "e", Priority: 2}})
	testkit.Equal(t, "more", end == nil, true)
	highest, next, err := f.p.Page(f.ctx, conq.Max, nil, 2)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "highest", highest, []conq.Prioritized[string]{{Value: "e", Priority: 2}, {Value: "d", Priority: 1}})
	rest, end, err = f.p.Page(f.ctx, conq.Max, next, 9)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "rest", rest, []conq.Prioritized[string]{{Value: "c", Priority: 1}, {Value: "b", Priority: 0}, {Value: "a", Priority: 0}})
	testkit.Equal(t, "more", end == nil, true)

	_, _, err = f.q.Page(f.ctx, next, 1) // a place of another queue
	testkit.WantError(t, err, kv.ErrInvalid, "no place")
	_, _, err = f.q.Page(f.ctx, nil, 0)
	testkit.WantError(t, err, kv.ErrInvalid, "from 1 on")
	testkit.NoError(t, f.q.Clear(f.ctx))
	none, next, err := f.q.Page(f.ctx, nil, 1)
	testkit.NoError(t, err)
	testkit.Equal(t, "items of an empty queue", len(none), 0)
	testkit.Equal(t, "its next", next == nil, true)
	testkit.NoError(t, f.q.Close())
	_, _, err = f.q.Page(f.ctx, nil, 1)
	testkit.WantError(t, err, conq.ErrClosed)
}
