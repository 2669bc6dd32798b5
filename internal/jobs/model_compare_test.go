package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/kv"
)

// Due lets some time pass, and does what is due.
func (m *model) Due(t *rapid.T) {
	if m.now += rapid.Int64Range(1, 25).Draw(t, "time"); !m.config.KeyRate.limits() && !m.config.Rate.limits() && rapid.IntRange(0, 9).Draw(t, "back") == 0 {
		m.now = max(1_000, m.now-500) // the clock was set back
	}
	m.due(t)
}

func (m *model) due(t *rapid.T) {
	var d Dues
	m.expect(m.do(func(tx kv.Tx) (err error) {
		d, err = m.q.Due(tx, m.now, 1000)
		return err
	}), nil)
	for _, j := range m.of(Scheduled) {
		if j.time <= m.now {
			m.ready(j)
		}
	}
	expired, dead := 0, 0
	for _, j := range m.of(Leased) {
		if j.time+m.config.Skew > m.now {
			continue
		}
		if expired++; m.endLease(j) {
			dead++
		}
	}
	for _, j := range m.of(Done) {
		if j.time <= m.now {
			m.remove(j)
		}
	}
	for _, key := range []string{"a", "b"} {
		if m.letIn(key); m.used(key) == 0 && m.rates[key] <= m.now {
			delete(m.rates, key) // forgotten, whatever the clock says later
		}
	}
	maps.DeleteFunc(m.claims, func(_ string, c modelClaim) bool { return c.until > 0 && c.until <= m.now })
	if d.Next <= m.now {
		t.Fatalf("something is due at %d, it is %d", d.Next, m.now)
	}
	if d.Expired != expired || d.Dead != dead {
		t.Fatalf("%d leases are over and %d jobs dead, want %d and %d", d.Expired, d.Dead, expired, dead)
	}
	for _, j := range m.of(Blocked) {
		if m.used(j.key) == 0 && d.Next > m.now+m.config.KeyRate.Period {
			t.Fatalf("the next thing is said to be due at %d, job %d is blocked", d.Next, j.id)
		}
	}
	for _, s := range []State{Scheduled, Leased, Done} {
		for _, j := range m.of(s) {
			if at := j.time + map[bool]int64{true: m.config.Skew}[s == Leased]; d.Next > at {
				t.Fatalf("the next thing is said to be due at %d, job %d is at %d", d.Next, j.id, at)
			}
		}
	}
}

func (m *model) endLease(j *modelJob) (dead bool) {
	j.history.Expiries++
	if j.token = 0; j.cancelled || m.wasLast(j) {
		m.bury(j)
		return true
	}
	m.admit(j, 0)
	return false
}

// EndOrphans has the store opened again.
func (m *model) EndOrphans(t *rapid.T) {
	opening := rapid.Int64Range(1, 3).Draw(t, "opening")
	var looked, ended, dead int
	m.expect(m.do(func(tx kv.Tx) error {
		ids, err := m.q.Orphans(tx, opening)
		if err == nil {
			looked, ended, dead, err = m.q.EndOrphans(tx, ids, opening, m.now)
		}
		return err
	}), nil)
	orphans, died := 0, 0
	for _, j := range m.of(Leased) {
		if j.opening > 0 && j.opening != opening {
			if orphans++; m.endLease(j) {
				died++
			}
		}
	}
	if looked != orphans || ended != orphans || dead != died {
		t.Fatalf("looked at %d orphans, ended %d, %d died; want %d, and %d to die", looked, ended, dead, orphans, died)
	}
}

// Check compares the store with the model.
func (m *model) Check(t *rapid.T) {
	err := m.db.ReadTransact(context.Background(), func(r kv.Reader) error {
		problems, err := m.q.Check(r)
		for _, p := range problems {
			t.Errorf("%x: %s", p.Key, p.What)
		}
		if err != nil {
			return err
		}
		return m.compare(r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *model) compare(r kv.Reader) error {
	for _, s := range States {
		var found []*Job
		_, _, err := m.q.List(r, Filter{State: s}, nil, 1000, func(j *Job) (bool, error) {
			found = append(found, j)
			return true, nil
		})
		if err != nil {
			return err
		}
		if got, want := texted(found), modelTexts(m.of(s)); !slices.Equal(got, want) {
			return fmt.Errorf("%v are\n%v, want\n%v", s, got, want)
		}
	}
	return m.compareFindable(r)
}

func texted(jobs []*Job) (texts []string) {
	for _, j := range jobs {
		texts = append(texts, fmt.Sprint(j.ID, j.State, j.Priority, j.Place, timeIn(j.State, j.Time), j.Attempts, j.MaxAttempts, j.Token, j.HasSlot, j.Cancelled, j.History, j.Timeout))
	}
	return texts
}

func modelTexts(jobs []*modelJob) (texts []string) {
	for _, j := range jobs {
		token := map[bool]int64{true: j.token}[j.state == Leased]
		texts = append(texts, fmt.Sprint(j.id, j.state, j.priority, j.place, timeIn(j.state, j.time), j.attempts, j.max, token, j.slot, j.cancelled, j.history, j.timeout))
	}
	return texts
}

// timeIn is a job's time where that means something.
func timeIn(s State, time int64) int64 {
	if s == Ready || s == Blocked {
		return 0
	}
	return time
}

// TestModel plays random verbs, and compares all of the store with a model after each.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		defer m.db.Close()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.Check, "put": m.Put, "put2": m.Put, "reserve": m.Reserve, "reserve2": m.Reserve, "ack": m.Ack,
			"extend": m.Extend, "release": m.Release, "fail": m.Fail, "bury": m.Bury, "kick": m.Kick, "bury any": m.BuryAny,
			"delete": m.Delete, "cancel": m.Cancel, "reprioritise": m.Reprioritise, "pause": m.Pause, "clear": m.Clear, "due": m.Due, "configure": m.Configure, "move": m.Move,
			"reserve one": m.ReserveOne, "orphans": m.EndOrphans, "delete free": m.DeleteFree, "kick first": m.KickFirst, "first": m.First,
		})
	})
}
