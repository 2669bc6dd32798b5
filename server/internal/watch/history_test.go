package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
	"github.com/google/go-cmp/cmp"
)

func TestCode(t *testing.T) {
	for v := range 513 {
		if got := encode(float64(v)).value(); got != float64(v) {
			t.Errorf("%d is kept as %v", v, got)
		}
	}
	for _, v := range []float64{0.001, 0.7, 1234567, 9e18} {
		if got := encode(v).value(); math.Abs(got-v) > v/500 {
			t.Errorf("%v is kept as %v", v, got)
		}
	}
	for _, v := range []float64{-1, math.NaN(), 0} {
		if got := encode(v).value(); got != 0 {
			t.Errorf("%v is kept as %v", v, got)
		}
	}
	if encode(math.Inf(1)) == missing {
		t.Error("infinity is kept as a gap")
	}
}

// at is a second of a test.
func at(second int) time.Time { return time.Unix(1_200_000+int64(second), 0) }

func record(q *Queue, second int, depth int64) *State {
	state := &State{Counts: Counts{Depth: depth}}
	q.record(at(second), time.Time{}, state)
	return state
}

func TestSpans(t *testing.T) {
	q := newQueue()
	for second := range 3 * 24 * 3600 {
		q.Added(2)
		record(q, second, int64(second%100))
	}
	for span, points := range map[Span]int{Minutes: 600, Hours: 1080, Days: 1440} {
		s := q.Series(span, Depth, In)
		if len(s.Values[0]) != points || len(s.Values[1]) != points {
			t.Errorf("span %d has %d points, want %d", span, len(s.Values[0]), points)
		}
		for i, in := range s.Values[1] {
			if in != 2 {
				t.Fatalf("span %d, point %d: %v a second came in, want 2", span, i, in)
			}
		}
	}
	if got := q.Series(Days, Depth).Values[0][3]; got != 99 {
		t.Errorf("two minutes have a depth of %v, want the highest, 99", got)
	}
	if got, want := q.Series(Hours, Depth).Start, at(3*24*3600).Add(-3*time.Hour); !got.Equal(want) {
		t.Errorf("three hours begin at %v, want %v", got, want)
	}
}

func TestGaps(t *testing.T) {
	q := newQueue()
	record(q, 0, 5)
	record(q, 3, 7)
	record(q, 2, 9) // a clock that was set back
	if got, want := fmt.Sprint(q.Series(Minutes, Depth).Values[0]), "[5 NaN NaN 9]"; got != want {
		t.Errorf("series is %v, want %v", got, want)
	}
	record(q, 5000, 1)
	if got, want := fmt.Sprint(q.Series(Minutes, Depth).Values[0]), "[1]"; got != want {
		t.Errorf("after a long time series is %v, want %v", got, want)
	}
	if got := newQueue().Series(Hours, Depth).Values[0]; len(got) != 0 {
		t.Errorf("an empty history has %v", got)
	}
}

func TestRates(t *testing.T) {
	q := newQueue()
	for second := range 20 {
		q.Added(30)
		q.Taken(10)
		q.Ended(1, at(second), true)
		record(q, second, 0)
	}
	q.Added(600)
	state := record(q, 25, 0) // 6 s later: 100 a second
	if state.In != 72 {       // and 30 in each of the 4 before
		t.Errorf("%v a second came in, want 72", state.In)
	}
	if state.Failed != 0.4 {
		t.Errorf("%v a second have failed, want 0.4", state.Failed)
	}
}

// A look that comes some milliseconds after another makes no high rate of what has happened between, nor does one of a queue that was quiet a low one.
func TestRatesOfQuickLooks(t *testing.T) {
	q, state := newQueue(), new(State)
	rates := func(now, passed time.Time, in, chart float64) {
		t.Helper()
		q.record(now, passed, state)
		testkit.Equal(t, "rate", state.In, in)
		last := q.Series(Minutes, In).Values[0]
		testkit.Equal(t, "of the last second", math.Round(last[len(last)-1]), chart)
	}
	rates(at(0), time.Time{}, 0, 0)
	q.Added(1)
	rates(at(0).Add(6*time.Millisecond), at(0), 0.1, 1)
	q.Added(19)
	rates(at(0).Add(7*time.Millisecond), at(0), 2, 20)
	rates(at(11), at(10), 0, 0)
	q.quiet.Store(true)
	q.Added(5)
	rates(at(400), at(399), 0.5, 5)
	q.quiet.Store(false)
	rates(at(390), at(400), 0, 0) // the clock was set back
	q.Added(10)
	rates(at(391), at(390), 1, 10)
	rates(at(392).Add(-time.Millisecond), at(391), 1, 5)
	q.Added(2)
	rates(at(392).Add(3*time.Millisecond), at(392).Add(-time.Millisecond), 1.2, 2) // in another second
}

// A field takes memory for the times at which it was not 0, and is 0 at those between that a queue was quiet, whatever was there before.
func TestChunks(t *testing.T) {
	q := newQueue()
	for second := range 700 {
		record(q, second, 5)
	}
	q.quiet.Store(true)
	for second := 700; second <= 1400; second += 50 {
		record(q, second, 0)
	}
	testkit.EqualSlices(t, "depths", q.Series(Minutes, Depth).Values[0], make([]float64, 600))
	q = newQueue()
	for second := range 10_000 {
		record(q, second, max(0, int64(1-second))) // but for the first second, nothing
	}
	chunks := 0
	for _, r := range q.rings {
		for _, field := range r.codes {
			for _, c := range field {
				if c != nil {
					chunks++
				}
			}
		}
	}
	testkit.Equal(t, "chunks, after one value", chunks, int(spans))
}

func TestLatency(t *testing.T) {
	q := newQueue()
	record(q, 0, 0)
	for ms := range 100 {
		q.Reserved(int64(ms), at(0), time.Duration(ms)*time.Second)
		q.Ended(int64(ms), at(0).Add(time.Duration(ms)*time.Millisecond), false)
	}
	record(q, 1, 0)
	record(q, 10, 0)
	s := q.Series(Minutes, WaitP50, WaitP99, WorkP50, WorkP95)
	got := []float64{s.Values[0][0], s.Values[1][0], math.Round(s.Values[2][0] * 1000), math.Round(s.Values[3][0] * 1000)}
	if diff := cmp.Diff([]float64{50, 99, 50, 95}, got); diff != "" {
		t.Errorf("percentiles differ (-want +got):\n%s", diff)
	}
	if got := q.Series(Hours, WaitP50).Values[0][0]; got != 50 {
		t.Errorf("ten seconds have a median wait of %v, want 50", got)
	}
	if len(q.held) != 0 {
		t.Errorf("%d jobs are still held", len(q.held))
	}
}

func TestReservoirIsBounded(t *testing.T) {
	var r reservoir
	for i := range 100_000 {
		r.add(time.Duration(i) * time.Second)
	}
	if len(r.of) != reservoirSize {
		t.Errorf("it has %d durations", len(r.of))
	}
	if p := r.percentiles(); p[0] < 20_000 || p[0] > 80_000 || p[2] < p[1] || p[1] < p[0] {
		t.Errorf("percentiles are %v", p)
	}
}

func TestQueuesAreBounded(t *testing.T) {
	h := NewHistory()
	for i := range MaxQueues + 10 {
		h.Queue(fmt.Sprint(i)).Added(1)
	}
	if len(h.queues) != MaxQueues {
		t.Errorf("%d queues are kept", len(h.queues))
	}
}

func bytesOf(s string) []byte { return []byte(s) }

// A sampler sees queues of all kinds, and what happens to them.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		db := memory.New(memory.Options{})
		h := NewHistory()
		done := make(chan struct{})
		go func() {
			defer close(done)
			NewSampler(db, h).Run(ctx)
		}()
		fifo, err := conq.OpenQueue(ctx, db, "fifo", conq.Bytes(), conq.Options{Observe: h.ObserveItems})
		testkit.NoError(t, err)
		for range 3 {
			testkit.NoError(t, fifo.Enqueue(ctx, bytesOf("x")))
		}
		jobs, err := work.Open(ctx, db, "jobs", conq.Bytes(), work.Options{Observe: h.ObserveJobs})
		testkit.NoError(t, err)
		_, err = jobs.Put(ctx, bytesOf("x"))
		testkit.NoError(t, err)
		testkit.NoError(t, jobs.Pause(ctx))
		time.Sleep(time.Minute) // of the test's clock: it is counted by then
		synctest.Wait()

		s := h.Latest()
		if len(s.Queues) != 2 || s.Err != nil {
			t.Fatalf("there are %d queues (%v)", len(s.Queues), s.Err)
		}
		if q := s.Queue("fifo"); q.Depth != 3 || q.Estimated || q.Kind != conq.KindQueue || q.Age(s.Time) < 55*time.Second {
			t.Errorf("the queue is %+v", q)
		}
		if q := s.Queue("jobs"); q.Ready != 1 || q.Depth != 1 || !q.Paused || q.Age(s.Time) < 55*time.Second {
			t.Errorf("the work queue is %+v", q)
		}
		_, err = fifo.DequeueN(ctx, 3)
		testkit.NoError(t, err)
		testkit.NoError(t, fifo.Enqueue(ctx, bytesOf("y")))
		<-s.Next()
		if q := h.Latest().Queue("fifo"); q.Depth != 1 || q.Estimated || q.Age(h.Latest().Time) > time.Second || q.AtLeast {
			t.Errorf("then the queue is %+v", q)
		}
		testkit.NoError(t, fifo.Close())
		testkit.NoError(t, jobs.Close())
		stop()
		<-done
	})
}

// What others have put into a queue is counted, whether it is small or large.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		db := memory.New(memory.Options{})
		q, err := conq.OpenPriorityQueue(ctx, db, "q", conq.Bytes())
		testkit.NoError(t, err)
		const n = 2*countAtOnce + 17
		testkit.NoError(t, q.PushAll(ctx, make([]conq.Prioritized[[]byte], n)))
		h := NewHistory()
		s := NewSampler(db, h)
		s.Sample(ctx)
		if got := h.Latest().Queue("q"); got.Depth != countFirst || !got.Estimated {
			t.Errorf("before it is counted it is %+v", got)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := h.Latest().Queue("q"); got.Depth != n || got.Estimated {
			t.Errorf("it has %d items (estimated: %v), want %d", got.Depth, got.Estimated, n)
		}
		testkit.NoError(t, q.Close())
		stop()
		<-done
	})
}

// A store that fails is told of; what was known stays.
func TestSamplerFails(t *testing.T) {
	db := memory.New(memory.Options{})
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.Bytes())
	testkit.NoError(t, err)
	testkit.NoError(t, q.Close())
	h := NewHistory()
	s := NewSampler(db, h)
	s.Sample(t.Context())
	testkit.NoError(t, db.Close())
	s.Sample(t.Context())
	if latest := h.Latest(); latest.Err == nil || latest.Queue("q") == nil {
		t.Errorf("after the store was closed there are %d queues, and the error is %v", len(latest.Queues), latest.Err)
	}
}

func TestThinned(t *testing.T) {
	var i items
	i.integers = 1
	for range 10 * maxTails {
		i.tails = append(i.tails, tail{index: int64(len(i.tails))})
		if len(i.tails) > maxTails {
			i.tails = thinned(i.tails)
		}
	}
	if len(i.tails) > maxTails || i.tails[0].index != 0 {
		t.Errorf("%d tails are kept, from %d on", len(i.tails), i.tails[0].index)
	}
}

// What goes through transactions of a caller is counted, too, once they have committed.
func TestTransactionsAreCounted(t *testing.T) {
	ctx := t.Context()
	db := memory.New(memory.Options{})
	h := NewHistory()
	items, err := conq.OpenQueue(ctx, db, "items", conq.Bytes(), conq.Options{Observe: h.ObserveItems})
	testkit.NoError(t, err)
	jobs, err := work.Open(ctx, db, "jobs", conq.Bytes(), work.Options{Observe: h.ObserveJobs})
	testkit.NoError(t, err)
	failed := errors.New("no")
	for _, end := range []error{failed, nil} {
		err := db.Transact(ctx, func(tx kv.Tx) error {
			if err := items.In(tx).EnqueueAll([][]byte{{1}, {2}, {3}}); err != nil {
				return err
			}
			if _, err := items.In(tx).DequeueN(2); err != nil {
				return err
			}
			if _, err := jobs.In(tx).Put([]byte("x")); err != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	if in, out := h.Queue("items").in.Load(), h.Queue("items").out.Load(); in != 3 || out != 2 {
		t.Errorf("%d items have come and %d gone, want 3 and 2", in, out)
	}
	if in := h.Queue("jobs").in.Load(); in != 1 {
		t.Errorf("%d jobs have come, want 1", in)
	}
	testkit.NoError(t, errors.Join(items.Close(), jobs.Close()))
}

// Of many queues that are quiet some are looked at each time, and few have a history. What happens to one is seen at the next look.
func TestManyQuietQueues(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	h := NewHistory()
	const n = 1000
	for i := range n {
		_, err := conq.OpenQueue(t.Context(), db, fmt.Sprintf("q%04d", i), conq.Bytes())
		testkit.NoError(t, err)
	}
	var reads atomic.Int64
	s := NewSampler(&testkit.Hooked{DB: db, Reader: func(r kv.Reader) kv.Reader { reads.Add(1); return r }}, h)
	now := time.Now()
	s.now = func() time.Time { return now }
	look := func() int64 {
		reads.Store(0)
		now = now.Add(time.Second)
		s.Sample(t.Context())
		return reads.Load()
	}
	all := look()
	testkit.Equal(t, "queues", len(h.Latest().Queues), n)
	if quiet := look(); quiet > all/2 {
		t.Errorf("%d transactions for quiet queues, %d for all", quiet, all)
	}
	if got := h.size(); got > maxQuiet {
		t.Errorf("%d quiet queues have a history", got)
	}
	for _, name := range []string{"q0000", "q0999"} { // with a history, and without
		q, err := conq.OpenQueue(t.Context(), db, name, conq.Bytes(), conq.Options{Observe: h.ObserveItems})
		testkit.NoError(t, err)
		testkit.NoError(t, q.Enqueue(t.Context(), []byte("x")))
		look()
		testkit.Equal(t, "depth of "+name, h.Latest().Queue(name).Depth, int64(1))
	}
	_, err := conq.OpenQueue(t.Context(), db, "new", conq.Bytes())
	testkit.NoError(t, err)
	testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q0500"))
	s.relist = time.Time{}
	look()
	testkit.Equal(t, "there is the new one", h.Latest().Queue("new") != nil, true)
	testkit.Equal(t, "the deleted one is gone", h.Latest().Queue("q0500") == nil, true)
}

// Where the clock is set back by more than a moment, what is recorded goes on at once: what was recorded as later is gone.
func TestClockSetBack(t *testing.T) {
	for _, ahead := range []int{100, 3600, 30 * 24 * 3600} {
		q := newQueue()
		for second := range 50 {
			record(q, second, 5)
		}
		for second := range 20 {
			record(q, ahead+second, 6)
		}
		for second := 50; second < 60; second++ {
			record(q, second, int64(second))
		}
		for span := range spans {
			series := q.Series(span, Depth)
			values := series.Values[0]
			end := series.Start.Add(time.Duration(len(values)-1) * span.Step())
			if want := at(59).Truncate(span.Step()); values[len(values)-1] != 59 || !end.Equal(want) {
				t.Errorf("%d s back: the %d-th series ends with %v at %v, want 59 at %v", ahead, span, values[len(values)-1], end, want)
			}
			if i := slices.Index(values, 6); i >= 0 {
				t.Errorf("%d s back: the %d-th series has what was later at %d", ahead, span, i)
			}
		}
	}
}

// Of queues that were made, used and emptied between two looks, few keep a history; of those that were deleted, none does. What is known of a
// queue that rests is its last state alone, and while nothing happens the snapshot is the same.
func TestManyEmptied(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	h := NewHistory()
	s := NewSampler(db, h)
	now := time.Now()
	s.now = func() time.Time { return now }
	look := func(times int) {
		for range times {
			now = now.Add(time.Second)
			s.Sample(t.Context())
		}
	}
	use := func(n int, name string) {
		for i := range n {
			q, err := conq.OpenQueue(t.Context(), db, fmt.Sprint(name, i), conq.Bytes(), conq.Options{Observe: h.ObserveItems})
			testkit.NoError(t, err)
			testkit.NoError(t, q.Enqueue(t.Context(), []byte("x")))
			testkit.NoError(t, testkit.Drop(q.Dequeue(t.Context())))
			testkit.NoError(t, q.Close())
		}
	}
	const n = 1000
	look(1)
	use(n, "q")
	look(1)
	busy := s.order[n/2]
	look(60)
	testkit.Equal(t, "histories", h.size(), maxQuiet)
	testkit.Equal(t, "they stay where they were", s.order[n/2] == busy, false)
	for i, q := range s.order {
		state := h.Latest().Queues[i]
		testkit.Equal(t, q.name+" is where others look for it", s.queues[q.name] == q && state == q.state && state.Name == q.name, true)
	}
	known := 0
	for _, q := range s.queues {
		if q.items != nil {
			known++
		}
	}
	testkit.Equal(t, "queues of which items are known", known, maxQuiet)

	look(sparkPoints * sparkStep) // until sparklines are all 0
	before := h.Latest()
	look(5)
	testkit.Equal(t, "the snapshot is the same", &h.Latest().Queues[0] == &before.Queues[0], true)

	use(n, "other") // and is deleted before the sampler has seen it
	for i := range n {
		testkit.NoError(t, conq.DeleteQueue(t.Context(), db, fmt.Sprint("other", i)))
		testkit.NoError(t, conq.DeleteQueue(t.Context(), db, fmt.Sprint("q", i)))
	}
	look(1)
	testkit.Equal(t, "histories of deleted queues", h.size(), 0)
	testkit.Equal(t, "queues", len(h.Latest().Queues), 0)
}

// What is put into a queue that rested is counted at once, however much it is.
func TestRestedIsFilled(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	h := NewHistory()
	s := NewSampler(db, h)
	const n = maxQuiet + 10
	for i := range n {
		testkit.NoError(t, testkit.Drop(conq.OpenQueue(t.Context(), db, fmt.Sprintf("q%04d", i), conq.Bytes())))
	}
	s.Sample(t.Context())
	s.Sample(t.Context())
	name := ""
	for _, q := range s.queues {
		if q.items == nil {
			name = q.name
		}
	}
	q, err := conq.OpenQueue(t.Context(), db, name, conq.Bytes(), conq.Options{Observe: h.ObserveItems})
	testkit.NoError(t, err)
	testkit.NoError(t, q.EnqueueAll(t.Context(), make([][]byte, 3*countFirst)))
	s.Sample(t.Context())
	got := h.Latest().Queue(name)
	testkit.Equal(t, "depth", got.Depth, int64(3*countFirst))
	testkit.Equal(t, "it may have been there before", got.AtLeast, false)
	testkit.NoError(t, q.Close())
}
