package jobs

import (
	"pgregory.net/rapid"

	"github.com/conq-go/conq/kv"
)

func (m *model) BuryAny(t *rapid.T) {
	id := m.any()
	err := m.do(func(tx kv.Tx) error { return m.q.BuryAny(tx, id, m.now, "why") })
	switch j := m.jobs[id]; {
	case j == nil:
		m.expect(err, ErrNotFound)
	case j.state == Done:
		m.expect(err, ErrState)
	case j.state != Dead:
		m.expect(err, nil)
		m.bury(j)
	}
}

func (m *model) Cancel(t *rapid.T) {
	id := m.any()
	err := m.do(func(tx kv.Tx) error { return m.q.Cancel(tx, id, m.now) })
	j := m.jobs[id]
	if j == nil {
		m.expect(err, ErrNotFound)
		return
	}
	m.expect(err, nil)
	switch j.state {
	case Dead, Done:
	case Leased:
		j.cancelled = true
	default:
		m.bury(j)
	}
}

func (m *model) Reprioritise(t *rapid.T) {
	id, priority := m.any(), rapid.Int64Range(-1, 2).Draw(t, "priority")
	err := m.do(func(tx kv.Tx) error { return m.q.Reprioritise(tx, id, m.now, priority) })
	switch j := m.jobs[id]; {
	case j == nil:
		m.expect(err, ErrNotFound)
	case j.priority == priority:
		m.expect(err, nil)
	case j.state == Done:
		m.expect(err, ErrState)
	default:
		m.expect(err, nil)
		j.priority, j.place = priority, max(m.lastPlace(priority)+1, m.now)
	}
}

func (m *model) Clear(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "clear") > 0 {
		return
	}
	m.expect(m.do(func(tx kv.Tx) error { m.q.Clear(tx); return nil }), nil)
	m.cleared = true
	m.jobs, m.claims, m.rates = make(map[int64]*modelJob), make(map[string]modelClaim), make(map[string]int64)
}

func (m *model) Pause(t *rapid.T) {
	m.paused = rapid.Bool().Draw(t, "paused")
	m.changed(func(tx kv.Tx) error { return m.q.Pause(tx, m.paused) })
}

// Configure changes the settings, and lets in what they have room for.
func (m *model) Configure(t *rapid.T) {
	m.config.Settings = drawSettings(t)
	m.changed(func(tx kv.Tx) error {
		_, err := m.q.SetSettings(tx, m.config.Settings, -1)
		return err
	})
	m.expect(m.do(func(tx kv.Tx) error {
		_, err := m.q.Admit(tx, m.now, nil, 10)
		return err
	}), nil)
	m.due(t)
}

// changed changes what is stored of the queue itself.
func (m *model) changed(change func(kv.Tx) error) {
	m.expect(m.do(func(tx kv.Tx) (err error) {
		if err := change(tx); err != nil {
			return err
		}
		m.q, err = m.q.At(tx)
		return err
	}), nil)
}
