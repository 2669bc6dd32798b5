package queues

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// model is what the queues should be: a slice, and a slice sorted by priority in
// which equals are in the order of their pushes.
type model struct {
	queue []string
	heap  pairs
}

func (m *model) clone() *model { return &model{slices.Clone(m.queue), slices.Clone(m.heap)} }

func (m *model) equal(o *model) bool {
	return slices.Equal(m.queue, o.queue) && slices.Equal(m.heap, o.heap)
}

func (m *model) push(v conq.Prioritized[string]) {
	m.heap = append(m.heap, v)
	sort.SliceStable(m.heap, func(i, j int) bool { return m.heap[i].Priority < m.heap[j].Priority })
}

// max returns which item PopMax takes of a queue that is not empty.
func (m *model) max(fifo bool) int {
	i := len(m.heap) - 1
	for fifo && i > 0 && m.heap[i-1].Priority == m.heap[i].Priority {
		i--
	}
	return i
}

func (m *model) pop(n int, which func() int) (popped pairs) {
	for ; n > 0 && len(m.heap) > 0; n-- {
		i := which()
		popped = append(popped, m.heap[i])
		m.heap = slices.Delete(m.heap, i, i+1)
	}
	return popped
}

func (m *model) dequeue(n int) []string {
	n = min(n, len(m.queue))
	taken := slices.Clone(m.queue[:n])
	m.queue = slices.Delete(m.queue, 0, n)
	return taken
}

// apply does o and returns what run should.
func (m *model) apply(o op) string {
	first, last := func() int { return 0 }, func() int { return m.max(o.fifo) }
	switch o.verb {
	case "Enqueue", "EnqueueAll":
		m.queue = append(m.queue, o.strings()...)
	case "Dequeue":
		return one(m.dequeue(1))
	case "DequeueN":
		return some(m.dequeue(o.n))
	case "Peek":
		return one(m.clone().dequeue(1))
	case "Len":
		return fmt.Sprint(len(m.queue))
	case "Clear":
		m.queue = nil
	case "All":
		return fmt.Sprint(m.queue[:min(o.n, len(m.queue))])
	case "Push", "PushAll":
		for _, v := range o.values {
			m.push(v)
		}
	case "PopMin":
		return value(m.pop(1, first))
	case "PopMax":
		return value(m.pop(1, last))
	case "PopN Min":
		return some(m.pop(o.n, first))
	case "PopN Max":
		return some(m.pop(o.n, last))
	case "Peek Min":
		return value(m.heap[:min(1, len(m.heap))])
	case "Peek Max":
		m = m.clone()
		return value(m.pop(1, func() int { return m.max(o.fifo) }))
	case "PLen":
		return fmt.Sprint(len(m.heap))
	case "PClear":
		m.heap = nil
	case "PAll":
		return fmt.Sprint(m.heap[:min(o.n, len(m.heap))])
	}
	return ""
}

func one(values []string) string {
	if len(values) == 0 {
		return "empty"
	}
	return values[0]
}

func value(values pairs) string {
	if len(values) == 0 {
		return "empty"
	}
	return values[0].Value
}

func some[V any](values []V) string {
	if len(values) == 0 {
		return "empty"
	}
	return fmt.Sprint(values)
}

func (m *model) applyAll(ops []op) (results []string) {
	for _, o := range ops {
		results = append(results, m.apply(o))
	}
	return results
}

// drawOps returns a generator of operations, whose values are all different.
func drawOps() *rapid.Generator[op] {
	number := 0
	sizes := []int{0, 15, 16, 17, 32, 40, 80}
	names := []string{
		"Enqueue", "EnqueueAll", "Dequeue", "DequeueN", "Peek", "Len", "Clear", "All", "Enqueue", "EnqueueAll",
		"Push", "PushAll", "PopMin", "PopMax", "PopN Min", "PopN Max", "Peek Min", "Peek Max", "PLen", "PClear", "PAll",
		"Push", "PushAll", "PopN Max", "PopMax",
	}
	return rapid.Custom(func(t *rapid.T) op {
		o := op{
			verb: rapid.SampledFrom(names).Draw(t, "verb"),
			fifo: rapid.Bool().Draw(t, "fifo"),
			n:    rapid.IntRange(1, 5).Draw(t, "n"),
		}
		count := 1
		if strings.HasSuffix(o.verb, "All") {
			count = rapid.IntRange(0, 4).Draw(t, "count")
		}
		for range count {
			number++
			v := fmt.Sprint("v", number)
			v += strings.Repeat(".", max(0, rapid.SampledFrom(sizes).Draw(t, "size")-len(v)))
			o.values = append(o.values, conq.Prioritized[string]{Value: v, Priority: rapid.SampledFrom([]int64{-300, -1, 0, 1, 1, 7}).Draw(t, "priority")})
		}
		return o
	})
}

var errCancelled = errors.New("cancelled by the test")

// modelTest is a store beside its model.
type modelTest struct {
	fixture
	*model
	ops *rapid.Generator[op]
}

// single runs an operation on the handle.
func (m *modelTest) single(t *rapid.T) {
	o := m.ops.Draw(t, "op")
	got, err := o.run(m.verbs())
	testkit.NoError(t, err)
	testkit.Equal(t, o.String(), got, m.apply(o))
}

// transaction runs several in one transaction, which may fail at its end, and may
// meet another transaction in the middle of its first attempt.
func (m *modelTest) transaction(t *rapid.T) {
	outer := rapid.SliceOfN(m.ops, 1, 4).Draw(t, "outer")
	inner := rapid.SliceOfN(m.ops, 0, 2).Draw(t, "inner")
	at := rapid.IntRange(0, len(outer)).Draw(t, "at")
	fail := rapid.IntRange(0, 4).Draw(t, "fail") == 0
	var innerResults, results []string
	attempts := 0
	err := m.db.Transact(m.ctx, func(tx kv.Tx) (err error) {
		attempts++
		results = nil
		for i, o := range outer {
			if i == at && attempts == 1 {
				innerResults = m.commit(t, inner)
			}
			result, err := o.run(m.in(tx))
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		if at == len(outer) && attempts == 1 {
			innerResults = m.commit(t, inner)
		}
		if fail {
			return errCancelled
		}
		return nil
	})
	if fail {
		testkit.WantError(t, err, errCancelled)
		outer, results = nil, nil
	} else {
		testkit.NoError(t, err)
	}
	m.settle(t, attempts, history{inner, innerResults}, history{outer, results})
}

// commit runs operations in a transaction.
func (m *modelTest) commit(t *rapid.T, ops []op) (results []string) {
	testkit.NoError(t, m.db.Transact(m.ctx, func(tx kv.Tx) error {
		results = nil
		for _, o := range ops {
			result, err := o.run(m.in(tx))
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		return nil
	}))
	return results
}

// history is what a transaction did.
type history struct {
	ops     []op
	results []string
}

// adds returns how many items a history adds to either queue.
func (h history) adds() (q, p int) {
	for _, o := range h.ops {
		switch o.verb {
		case "Enqueue", "EnqueueAll":
			q += len(o.values)
		case "Push", "PushAll":
			p += len(o.values)
		}
	}
	return q, p
}

// settle checks that both transactions behaved as if one had run after the other.
// Once there was a conflict, the inner one was first. Otherwise either may have
// been; and where both add to a queue, and one of them does more than that, their
// items may also mix, which is for mixed to check.
func (m *modelTest) settle(t *rapid.T, attempts int, inner, outer history) {
	actual := m.actual(t)
	after := m.model.clone()
	for _, order := range [][2]history{{inner, outer}, {outer, inner}} {
		next := m.model.clone()
		ok := slices.Equal(next.applyAll(order[0].ops), order[0].results) &&
			slices.Equal(next.applyAll(order[1].ops), order[1].results)
		if ok && next.equal(actual) {
			m.model = actual
			return
		}
		if attempts > 1 {
			t.Fatalf("after a conflict: %v then %v on %v: is %v, want %v", inner, outer, after, actual, next)
		}
	}
	qi, pi := inner.adds()
	qo, po := outer.adds()
	several := len(inner.ops) > 1 || len(outer.ops) > 1 || qi+qo > 2 || pi+po > 2
	if !several || (qi == 0 || qo == 0) && (pi == 0 || po == 0) {
		t.Fatalf("no serial order gives this: %v and %v on %v: is %v", inner, outer, after, actual)
	}
	m.mixed(t, actual, inner, outer)
	m.model = actual
}

// mixed checks what holds for all that run at the same time: nothing appears that
// was not added, nothing is there twice, and the items of each transaction are in
// the order in which it added them.
func (m *modelTest) mixed(t *rapid.T, actual *model, inner, outer history) {
	for _, h := range []history{inner, outer} {
		only := &model{}
		for _, o := range h.ops {
			if strings.HasPrefix(o.verb, "Enqueue") || strings.HasPrefix(o.verb, "Push") {
				only.apply(o)
			}
		}
		inOrder(t, actual.queue, only.queue)
		inOrder(t, actual.heap, only.heap)
	}
	known := m.model.clone()
	for _, o := range append(slices.Clone(inner.ops), outer.ops...) {
		if strings.HasPrefix(o.verb, "Enqueue") || strings.HasPrefix(o.verb, "Push") {
			known.apply(o)
		}
	}
	subset(t, actual.queue, known.queue)
	subset(t, actual.heap, known.heap)
	inOrder(t, actual.queue, m.model.queue)
	inOrder(t, actual.heap, m.model.heap)
}

// inOrder checks that those of want that are in got are there in want's order.
func inOrder[V comparable](t *rapid.T, got, want []V) {
	last := -1
	for _, v := range want {
		if i := slices.Index(got, v); i >= 0 {
			if i < last {
				t.Fatalf("%v is out of order: %v, want the order of %v", v, got, want)
			}
			last = i
		}
	}
}

func subset[V comparable](t *rapid.T, got, of []V) {
	seen := make(map[V]bool)
	for _, v := range got {
		if seen[v] || !slices.Contains(of, v) {
			t.Fatalf("%v is there twice, or was never added: %v", v, got)
		}
		seen[v] = true
	}
}

func (m *modelTest) actual(t *rapid.T) *model {
	q, p := contents(t, m.fixture)
	return &model{q, p}
}

// audit compares all that can be seen from outside, and that no piece is left
// over.
func (m *modelTest) audit(t *rapid.T) {
	if actual := m.actual(t); !actual.equal(m.model) {
		t.Fatalf("is %v, want %v", actual, m.model)
	}
	for _, verb := range []string{"Peek", "Len", "Peek Min", "Peek Max", "PLen"} {
		for _, fifo := range []bool{false, true} {
			o := op{verb: verb, fifo: fifo}
			got, err := o.run(m.verbs())
			testkit.NoError(t, err)
			testkit.Equal(t, o.String(), got, m.clone().apply(o))
		}
	}
	size := m.db.Limits().Value
	want := 0
	for _, v := range m.queue {
		want += max(1, (len(v)+size-1)/size)
	}
	for _, v := range m.heap {
		want += max(1, (len(v.Value)+size-1)/size)
	}
	testkit.Equal(t, "keys in the store", len(testkit.Stored(t, m.db)), want)
}

// Random operations on both queues, on their handles and in transactions, with
// conflicts and failures, do what they do to a slice.
func TestModel(t *testing.T) {
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db := &testkit.Hooked{DB: open(kv.Limits{}), Bounds: kv.Limits{Value: 16, Transaction: 100_000}}
			random := rand.NewChaCha8([32]byte{})
			f := newFixture(t, db, random)
			rapid.Check(t, func(rt *rapid.T) {
				random.Seed([32]byte{}) // so that a failure can be reproduced
				testkit.NoError(rt, f.q.Clear(f.ctx))
				testkit.NoError(rt, f.p.Clear(f.ctx))
				m := &modelTest{f, &model{}, drawOps()}
				rt.Repeat(map[string]func(*rapid.T){
					"single": m.single, "transaction": m.transaction, "": m.audit,
				})
			})
		})
	}
}
