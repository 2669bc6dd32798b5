package staging

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// lineClient is a client in TestLineModel, with what it knows.
type lineClient struct {
	line  *Line
	stamp int64 // since when it waits, or 0
	sure  bool  // it knows what has become of all that it has written
	first []byte
	since time.Time // see Line
}

// entry is one in the line.
type entry struct {
	key      []byte
	stamp    int64
	id       string
	deadline int64
}

type lineModel struct {
	t       *testing.T
	r       *rand.Rand
	db      kv.DB
	s       *Stage
	clock   *testkit.Clock
	items   int // how many there are
	clients []*lineClient
	firsts  int // how often somebody was first
	stuck   int // how often one who was stuck was removed
	opened  int // how often there were so many items that the line went
}

func (m *lineModel) entries(r kv.Reader) (all []entry) {
	for pair, err := range r.Range(m.s.keys.all(lineKind), kv.RangeOptions{}) {
		testkit.Check(m.t, err)
		elems, err := tuple.Unpack(pair.Key[len(m.s.keys.prefix):])
		testkit.Check(m.t, err)
		_, deadline, err := parseState(pair)
		testkit.Check(m.t, err)
		all = append(all, entry{pair.Key, elems[1].(int64), string(elems[2].([]byte)), deadline})
	}
	return all
}

// over tells whether an entry's deadline has passed.
func (m *lineModel) over(e entry) bool { return m.clock.Now().UnixNano() > e.deadline }

// dead tells whether c is to remove an entry of somebody else, which is not over, when it looks.
func (m *lineModel) dead(c *lineClient, e entry, own []byte) bool {
	now := m.clock.Now()
	if bytes.Compare(e.key, own) > 0 {
		return false
	}
	if !bytes.Equal(c.first, e.key) {
		c.first, c.since = e.key, time.Time{}
	}
	if m.items == 0 {
		c.since = time.Time{}
	} else if c.since.IsZero() {
		c.since = now
	} else if now.Sub(c.since) >= Patience {
		m.stuck++
		return true
	}
	return false
}

// view returns what c is to see, and the entries that are to be left.
func (m *lineModel) view(c *lineClient, all []entry, own []byte) (first, others bool, left []entry) {
	mine := func(e entry) bool { return e.id == string(c.line.id) }
	gone := 0
	defer func() { first = first && gone <= mostCleared }()
	for i, e := range all {
		if i == lookAt {
			return false, false, append(left, all[i:]...)
		}
		switch {
		case bytes.Equal(e.key, own):
			left = append(left, e)
		case mine(e) || m.over(e):
			gone++
		case bytes.Compare(e.key, own) < 0 && m.items >= Plenty:
			m.opened++
			return true, false, nil
		case m.dead(c, e, own):
			gone++
		default:
			if bytes.Compare(e.key, own) > 0 {
				return true, true, append(left, all[i:]...)
			}
			rest := slices.Clone(all[i:])
			at, _ := slices.BinarySearchFunc(rest, own, func(e entry, own []byte) int { return bytes.Compare(e.key, own) })
			for ; at > 0 && mine(rest[at-1]); at-- {
				rest = slices.Delete(rest, at-1, at)
			}
			return false, true, append(left, rest...)
		}
	}
	return len(all) < lookAt, false, left
}

// look has c look, and enter the line or take, in a transaction that may come to nothing, or of
// which it is not told.
func (m *lineModel) look(c *lineClient) {
	if c.stamp == 0 {
		c.stamp = m.clock.Now().UnixNano() + m.r.Int64N(3)
	}
	fate, leaves := m.r.IntN(6), m.r.IntN(2) == 0
	own := m.s.keys.waiter(c.stamp, c.line.id)
	entered, first := int64(0), false
	err := m.db.Transact(m.t.Context(), func(tx kv.Tx) error {
		before := m.entries(tx)
		wantFirst, wantOthers, left := m.view(c, before, own)
		v, err := c.line.Look(tx, c.stamp, func() (int, error) { return m.items, nil })
		testkit.Check(m.t, err)
		if v.First != wantFirst || v.Others != wantOthers {
			m.t.Errorf("it is first: %t, and should be: %t; there are others: %t, and should be: %t", v.First, wantFirst, v.Others, wantOthers)
		}
		if after := m.entries(tx); !slices.EqualFunc(after, left, func(a, b entry) bool { return bytes.Equal(a.key, b.key) }) {
			m.t.Errorf("after its look %d entries are left, and should be %d", len(after), len(left))
		}
		if first = v.First; first && leaves {
			c.line.Leave(tx, math.MaxInt64)
		} else {
			if entered = c.stamp; first {
				entered++ // the one who has waited longest is served
			}
			c.line.Enter(tx, v, entered)
		}
		if !first && wantOthers {
			m.checkAhead(tx, c, v, own)
		}
		m.checkOwn(tx, c, entered)
		if fate == 0 {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		m.t.Fatal(err)
	}
	if fate <= 1 { // it tries again, or another caller is the one who waits
		c.sure = false
		if fate == 0 && m.r.IntN(2) == 0 {
			c.stamp++
		}
		return
	}
	if first {
		m.firsts++
	}
	if c.stamp = entered; entered == 0 {
		c.line.Left(math.MaxInt64)
	} else {
		c.line.Entered(entered)
	}
	c.sure = true
	if c.line.Waits(math.MaxInt64) != (entered != 0) || c.line.Waits(entered) {
		m.t.Errorf("it waits since %d, and knows of entries %d", entered, c.line.mine)
	}
}

// checkAhead checks that c watches the last entry in front of its own.
func (m *lineModel) checkAhead(tx kv.Tx, c *lineClient, v View, own []byte) {
	var ahead []byte
	for _, e := range m.entries(tx) {
		if bytes.Compare(e.key, own) < 0 {
			ahead = e.key
		}
	}
	news := c.line.Ahead(tx, v)
	select {
	case <-news:
		if ahead != nil {
			m.t.Errorf("it is told to look at once, and somebody is in front of it")
		}
	default:
		if ahead == nil || !bytes.Equal(v.ahead, ahead) {
			m.t.Errorf("it waits for entry %x, and in front of it is %x", v.ahead, ahead)
		}
	}
}

// checkOwn checks that c has the entry that it should, and those alone of which it can't know.
func (m *lineModel) checkOwn(tx kv.Tx, c *lineClient, stamp int64) {
	there := false
	for _, e := range m.entries(tx) {
		if e.id != string(c.line.id) {
			continue
		}
		if e.stamp != stamp && c.sure {
			m.t.Errorf("it has an entry since %d, and waits since %d", e.stamp, stamp)
		}
		there = there || e.stamp == stamp
		if e.stamp == stamp && e.deadline < m.clock.Now().UnixNano()+int64(m.s.o.Lease/2) {
			m.t.Errorf("its entry ends in %v", time.Duration(e.deadline-m.clock.Now().UnixNano()))
		}
	}
	if there != (stamp != 0) {
		m.t.Errorf("it has an entry: %t, and waits since %d", there, stamp)
	}
}

// crowd adds entries of so many clients who have died long ago.
func (m *lineModel) crowd(n int) {
	now := m.clock.Now().UnixNano()
	testkit.Check(m.t, m.db.Transact(m.t.Context(), func(tx kv.Tx) error {
		for i := range n {
			tx.Set(m.s.keys.waiter(now-m.r.Int64N(int64(time.Minute)), []byte{byte(i)}), state(0, now-1))
		}
		return nil
	}))
}

// leave has c give up.
func (m *lineModel) leave(c *lineClient) {
	testkit.Check(m.t, m.db.Transact(m.t.Context(), func(tx kv.Tx) error {
		own := m.s.keys.waiter(c.stamp, c.line.id)
		before, err := tx.Get(own)
		testkit.Check(m.t, err)
		c.line.Leave(tx, c.stamp) // it has come since
		after, err := tx.Get(own)
		if testkit.Check(m.t, err); !bytes.Equal(before, after) {
			m.t.Errorf("an entry has gone that is not as old")
		}
		c.line.Leave(tx, c.stamp+1)
		return nil
	}))
	c.line.Left(c.stamp + 1)
	c.stamp = 0
}

// TestLineModel has clients wait in line, die, come back, and give up, while transactions fail,
// or those who run them are not told that they have committed; and compares with a model what
// they see, and what is there.
func TestLineModel(t *testing.T) {
	firsts, stuck, opened := 0, 0, 0
	for seed := range uint64(testkit.Cases(500)) {
		m := &lineModel{t: t, r: rand.New(rand.NewPCG(seed, 0)), db: testkit.NewMemory(t, kv.Limits{}), clock: newClock()}
		m.s = stage(m.db, Options{Now: m.clock.Now})
		for range 4 {
			l, err := m.s.NewLine()
			testkit.Check(t, err)
			m.clients = append(m.clients, &lineClient{line: l, sure: true})
		}
		live := m.clients
		for range 60 {
			c := live[m.r.IntN(len(live))]
			switch m.r.IntN(12) {
			case 0:
				m.leave(c)
			case 1:
				live = m.clients[m.r.IntN(4):] // others don't look for a while
			case 2:
				m.items = []int{0, 0, 1, Plenty - 1, Plenty}[m.r.IntN(5)]
				m.crowd(m.r.IntN(2 * lookAt))
			case 3:
				m.clock.Pass(time.Duration(m.r.Int64N(int64(m.s.o.Lease))))
			case 4, 5:
				m.clock.Pass(time.Duration(m.r.Int64N(int64(Patience))))
			default:
				m.look(c)
			}
			if t.Failed() {
				t.Fatalf("with seed %d", seed)
			}
		}
		firsts, stuck, opened = firsts+m.firsts, stuck+m.stuck, opened+m.opened
		m.clock.Pass(2 * m.s.o.Lease)
		last, err := m.s.NewLine()
		testkit.Check(t, err)
		for range 40 {
			testkit.Check(t, m.db.Transact(t.Context(), func(tx kv.Tx) error {
				_, err := last.Look(tx, math.MaxInt64, func() (int, error) { return 1, nil })
				return err
			}))
		}
		if n := leftovers(t, m.db); n > 0 {
			t.Fatalf("with seed %d, %d entries are left", seed, n)
		}
	}
	if firsts == 0 || stuck == 0 || opened == 0 {
		t.Errorf("%d times somebody was first, %d times one was stuck, and %d times the line went", firsts, stuck, opened)
	}
}
