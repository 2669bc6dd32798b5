package staging

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// fulfilModel is a model of what a transaction does that fulfils: who is served, with what.
type fulfilModel struct {
	t        *testing.T
	s        *Stage
	db       kv.DB
	requests []request
	items    []kv.KeyValue // in the queue
	event    Event         // the last one
	bounded  bool          // by operations, which are not counted here
}

// read reads what is there.
func (m *fulfilModel) read() (requests []request, items []kv.KeyValue) {
	testkit.Check(m.t, m.db.ReadTransact(m.t.Context(), func(r kv.Reader) (err error) {
		if requests, err = m.s.requests(r, 0); err != nil {
			return err
		}
		for item, err := range testQueue.Items(r, Front, 0) {
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	}))
	return requests, items
}

// result returns what a request was served, and takes it away.
func (m *fulfilModel) result(r request) (items []kv.KeyValue) {
	testkit.Check(m.t, m.db.Transact(m.t.Context(), func(tx kv.Tx) error {
		got, found, err := m.s.takeResult(tx, r.deadline, r.op)
		items = got.items
		if err == nil && found == m.s.past(r.deadline) {
			m.t.Errorf("a request has a result: %t, and its deadline is over: %t", found, m.s.past(r.deadline))
		}
		return err
	}))
	return items
}

// next takes off the item that is next at a side, and its weight.
func (m *fulfilModel) next(side Side) (item kv.KeyValue, weight int) {
	i := 0
	if side == Back {
		i = len(m.items) - 1
	}
	item = m.items[i]
	m.items = slices.Delete(m.items, i, i+1)
	return item, len(item.Key) + m.s.o.Source.Keys(item.Key)*(len(item.Key)+len(item.Value))
}

// check compares what a transaction has done, of one request or of as many as fit, with what it should have.
func (m *fulfilModel) check(alone bool) {
	left, items := m.read()
	gone := slices.DeleteFunc(slices.Clone(m.requests), func(r request) bool {
		return slices.ContainsFunc(left, func(l request) bool { return bytes.Equal(l.op, r.op) })
	})
	first := m.requests[:min(len(m.requests), m.s.o.Requests)]
	if alone {
		first = first[:1]
	}
	if len(gone) == 0 || len(gone) > len(first) {
		m.t.Fatalf("%d requests were served of %d", len(gone), len(first))
	}
	taken, live, bytesLeft, full := 0, 0, m.s.o.Bytes, false
	for i, r := range first {
		served := i < len(gone)
		if served && !bytes.Equal(gone[i].op, r.op) {
			m.t.Fatalf("request %d was not served, and later ones were", i)
		}
		if m.s.past(r.deadline) {
			if served {
				m.result(r)
			} else if !full && !m.bounded {
				m.t.Errorf("request %d is dead, and still there", i)
			}
			continue
		}
		var got []kv.KeyValue
		if served {
			got, live = m.result(r), live+1
		}
		if served && full && len(m.items) > 0 {
			m.t.Errorf("request %d was served, and one in front of it did not get what it could", i)
		}
		for n := range r.items {
			if len(m.items) == 0 {
				room := taken < m.s.o.Items && bytesLeft > 0 // else whether there are more is not looked at
				if len(got) > n || !served && room && !m.bounded && !full {
					m.t.Errorf("request %d: %d items, served %t; there are only %d", i, len(got), served, n)
				}
				full = full || !served
				break
			}
			before := slices.Clone(m.items)
			item, weight := m.next(r.side)
			fits := taken == 0 || taken < m.s.o.Items && bytesLeft-weight >= 0 && !alone
			if n < len(got) {
				if !fits || !bytes.Equal(item.Key, got[n].Key) || !bytes.Equal(item.Value, got[n].Value) {
					m.t.Errorf("request %d was served %x, as its number %d: next was %x, which fits: %t", i, got[n].Key, n, item.Key, fits)
				}
				taken, bytesLeft = taken+1, bytesLeft-weight
				continue
			}
			if fits && !m.bounded && !full || served && n == 0 {
				m.t.Errorf("request %d was served: %t, with %d items of %d, and there are more; a further one fits: %t", i, served, n, r.items, fits)
			}
			m.items, full = before, true
			break
		}
	}
	if m.event != (Event{Fulfilled, live, taken}) && live > 0 {
		m.t.Errorf("%+v was observed, of %d requests that got %d items", m.event, live, taken)
	}
	if !slices.EqualFunc(m.items, items, func(a, b kv.KeyValue) bool { return bytes.Equal(a.Key, b.Key) }) {
		m.t.Errorf("%d items are left, and should be %d", len(items), len(m.items))
	}
	m.requests = left
}

// TestFulfilModel serves requests, with random requests, items, and bounds, and compares
// what each transaction does with what it should: those at the front are served in order, with
// as much as there is room for, and are told that there is nothing if there is.
func TestFulfilModel(t *testing.T) {
	for seed := range uint64(testkit.Cases(3000)) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := kv.Limits{Operations: []int{0, 0, 20, 24, 60}[r.IntN(5)]}
		c := newClock()
		m := &fulfilModel{t: t, db: testkit.NewMemory(t, l), bounded: l.Operations > 0}
		m.s = stage(m.db, Options{
			Requests: r.IntN(4), Items: r.IntN(6), Bytes: 40 * r.IntN(40), Now: c.Now,
			Observe: func(e Event) { m.event = e },
		})
		m.s.o.Source = pieces{testQueue}
		m.s.fulfiller.serving = true // one transaction at a time is looked at
		for range r.IntN(9) {
			testkit.Check(t, m.db.Transact(t.Context(), func(tx kv.Tx) error {
				return testQueue.Enqueue(tx, make([]byte, r.IntN(200)))
			}))
		}
		for range 1 + r.IntN(8) {
			client := register(t, m.s, Side(r.IntN(2)), 1+r.IntN(4))
			if r.IntN(4) == 0 { // its client dies
				testkit.Check(t, m.db.Transact(t.Context(), func(tx kv.Tx) error {
					tx.Set(client.request.key, state(client.n, c.Now().UnixNano()-1))
					return nil
				}))
			}
		}
		assume(t, m.s)
		for m.requests, m.items = m.read(); len(m.requests) > 0 && !t.Failed(); {
			f, err := m.s.serveIn(m.s.o.Requests, m.s.o.Items)
			alone := errors.Is(err, kv.ErrTooLarge)
			if alone {
				f, err = m.s.serveIn(1, 1)
			}
			testkit.Check(t, err)
			m.s.fulfilled(f)
			m.check(alone)
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
