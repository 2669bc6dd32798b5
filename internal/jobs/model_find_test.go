package jobs

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/kv"
)

func (m *model) ReserveOne(t *rapid.T) {
	id := m.any()
	request := Request{Holder: "h", NewToken: func() int64 { return m.token + 1 }}
	var got Reserved
	err := m.do(func(tx kv.Tx) (err error) {
		got, err = m.q.ReserveOne(tx, id, m.now, request)
		return err
	})
	j := m.jobs[id]
	if j == nil {
		m.expect(err, ErrNotFound)
		return
	}
	if (j.state == Ready || j.state == Scheduled || j.state == Dead) && !m.mayRevive(j) {
		m.expect(err, ErrDuplicate)
		return
	}
	at, next := m.now, m.rate
	if m.config.Rate.limits() {
		at, next = m.config.Rate.start(m.rate, m.now)
	}
	switch c := m.config.Concurrency; {
	case j.state != Ready && j.state != Scheduled && j.state != Dead,
		m.paused, c > 0 && len(m.of(Leased)) >= int(c), at > m.now,
		!m.mayStart(j):
		m.expect(err, ErrState)
		return
	}
	m.expect(err, nil)
	m.rate = next
	j.slot = j.slot || j.key != ""
	m.revive(j)
	if m.start(j); got.ID != id || got.Token != j.token {
		t.Fatalf("reserved %d with %d, want %d with %d", got.ID, got.Token, id, j.token)
	}
}

// mayStart tells whether the limit and the rate of a job's key let it start.
func (m *model) mayStart(j *modelJob) bool {
	r := m.config.KeyRate
	switch {
	case j.key == "":
		return true
	case j.state == Ready:
		at, _ := r.start(m.rates[j.key], m.now)
		return at <= m.now
	}
	slot := j.slot
	j.slot = false
	defer func() { j.slot = slot }()
	return m.room(j.key)
}

func (m *model) DeleteFree(*rapid.T) {
	id := m.any()
	err := m.do(func(tx kv.Tx) error { return m.q.DeleteFree(tx, id, m.now) })
	switch j := m.jobs[id]; {
	case j == nil:
		m.expect(err, ErrNotFound)
	case j.state == Leased:
		m.expect(err, ErrState)
	default:
		m.expect(err, nil)
		m.remove(j)
	}
}

func (m *model) KickFirst(t *rapid.T) {
	state := rapid.SampledFrom([]State{Dead, Scheduled}).Draw(t, "state")
	n, kicked := rapid.IntRange(1, 3).Draw(t, "n"), 0
	m.expect(m.do(func(tx kv.Tx) (err error) {
		kicked, err = m.q.KickFirst(tx, state, m.now, n)
		return err
	}), nil)
	var first []*modelJob
	for _, j := range m.of(state) {
		if len(first) < n && m.mayRevive(j) {
			first = append(first, j)
		}
	}
	want := 0
	for _, j := range first {
		if m.mayRevive(j) { // one that was kicked before it may have its unique text
			m.kick(j)
			want++
		}
	}
	if kicked != want {
		t.Fatalf("kicked %d of %d", kicked, want)
	}
}

// First compares which ready jobs there are.
func (m *model) First(t *rapid.T) {
	limit := rapid.Int64Range(-1, 3).Draw(t, "below")
	m.expect(m.do(func(tx kv.Tx) error {
		ready := m.of(Ready)
		first, found, err := m.q.First(tx, nil)
		if err != nil {
			return err
		}
		if found != (len(ready) > 0) || found && (first != Position{ready[0].priority, ready[0].place, ready[0].id}) {
			return fmt.Errorf("the first one is %+v, %v", first, found)
		}
		want := len(slices.DeleteFunc(ready, func(j *modelJob) bool { return j.priority >= limit }))
		n, err := m.q.ReadyBelow(tx, limit, 1000)
		if err == nil && n != want {
			err = fmt.Errorf("%d jobs are below %d, want %d", n, limit, want)
		}
		return err
	}), nil)
}

// compareFindable compares which jobs are known by their ids alone. Those that Clear has removed may be.
func (m *model) compareFindable(r kv.Reader) error {
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		queue, err := Find(r, id)
		if m.jobs[id].findable && (err != nil || queue != "q") || !m.jobs[id].findable && err != ErrNotFound {
			return fmt.Errorf("job %d is found in %q, %v", id, queue, err)
		}
	}
	for pair, err := range r.Range(rangeOf(findSpace()), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		if _, p, err := CheckFindable(r, pair); err != nil || p != nil && !m.cleared {
			return fmt.Errorf("key %x: %+v, %v", pair.Key, p, err)
		}
	}
	return nil
}
