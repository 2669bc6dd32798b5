package jobs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// model is a work queue as its documentation has it: a list of jobs, gone through from one end to
// the other for each verb.
type model struct {
	t      *rapid.T
	db     kv.DB
	q      *Queue
	config Config
	now    int64
	nextID int64
	token  int64
	jobs   map[int64]*modelJob
	claims map[string]modelClaim
	rates  map[string]int64
	rate   int64
	paused bool

	opening int64 // of the store, by a runner that reserves; 0 if it is no runner
	cleared bool  // Clear was called
}

type modelJob struct {
	id, priority, place, time, created  int64
	attempts, max, lease, token, unique int64
	timeout, opening                    int64
	state                               State
	key, claim                          string
	slot, cancelled, findable, claims   bool
	history                             History
}

type modelClaim struct {
	id    int64
	until int64 // 0 while its job lives
}

func newModel(t *rapid.T) *model {
	m := &model{
		t: t, db: memory.New(memory.Options{}), now: 1_000, nextID: 1,
		jobs: make(map[int64]*modelJob), claims: make(map[string]modelClaim), rates: make(map[string]int64),
	}
	m.config = Config{
		Settings: drawSettings(t),
		Skew:     rapid.SampledFrom([]int64{0, 7}).Draw(t, "skew"),
		Shards:   rapid.IntRange(1, 3).Draw(t, "shards"),
		NewID: func(context.Context) (int64, error) {
			m.nextID++
			return m.nextID - 1, nil
		},
	}
	m.q = NewQueue("q", kv.Limits{Value: rapid.SampledFrom([]int{0, 4}).Draw(t, "value limit")}, m.config)
	return m
}

func drawSettings(t *rapid.T) Settings {
	return Settings{
		KeyLimit:    rapid.Int64Range(1, 2).Draw(t, "key limit"),
		Concurrency: rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "concurrency"),
		Keep:        rapid.SampledFrom([]int64{0, 50}).Draw(t, "keep"),
		Rate:        rapid.SampledFrom([]Rate{{}, {}, {N: 3, Period: 30}}).Draw(t, "rate"),
		KeyRate:     rapid.SampledFrom([]Rate{{}, {}, {N: 2, Period: 40}}).Draw(t, "key rate"),
		MaxAttempts: rapid.Int64Range(0, 2).Draw(t, "attempts"),
		Lease:       rapid.Int64Range(1, 20).Draw(t, "lease"),
		Backoff:     Backoff{Kind: Constant, Base: 5, Max: 5},

		UniqueWhileDead: rapid.Bool().Draw(t, "unique while dead"),
		Timeout:         rapid.SampledFrom([]int64{0, 9}).Draw(t, "timeout"),
	}
}

// do runs a verb in a transaction of its own.
func (m *model) do(f func(kv.Tx) error) error {
	return m.db.Transact(context.Background(), f)
}

func (m *model) of(state State) (jobs []*modelJob) {
	for _, j := range m.jobs {
		if j.state == state {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int {
		if c := cmp.Compare(a.key, b.key); c != 0 && state == Blocked {
			return c
		}
		if state == Ready || state == Blocked {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.place, b.place), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id))
	})
	return jobs
}

func (m *model) lastPlace(priority int64) (last int64) {
	for _, j := range m.of(Ready) {
		if j.priority == priority {
			last = j.place
		}
	}
	return last
}

func (m *model) used(key string) (n int64) {
	for _, j := range m.jobs {
		if j.slot && j.key == key {
			n++
		}
	}
	return n
}

func (m *model) admit(j *modelJob, at int64) {
	if at > m.now {
		j.state, j.time = Scheduled, at
		return
	}
	m.ready(j)
}

func (m *model) ready(j *modelJob) {
	had := j.slot
	if j.slot = false; j.key == "" || had && m.room(j.key) {
		j.state, j.slot = Ready, j.key != ""
		return
	}
	j.state = Blocked
	m.letIn(j.key)
}

// room tells whether one more job of a key may be ready.
func (m *model) room(key string) bool {
	arrival, at := m.rates[key], m.now
	ready := 0
	for _, j := range m.of(Ready) {
		if j.key == key {
			ready++
		}
	}
	for range ready + 1 {
		at, arrival = m.config.KeyRate.start(arrival, m.now)
	}
	return at <= m.now && m.used(key) < m.config.KeyLimit
}

func (m *model) letIn(key string) {
	for _, j := range m.of(Blocked) {
		if j.key == key && m.room(key) {
			j.state, j.slot = Ready, true
		}
	}
}

func (m *model) free(j *modelJob) {
	if !j.slot {
		return
	}
	j.slot = false
	m.letIn(j.key)
}

func (m *model) endClaim(j *modelJob) {
	if j.claim == "" {
		return
	}
	if until := j.created + j.unique; until > m.now {
		m.claims[j.claim] = modelClaim{j.id, until}
	} else {
		delete(m.claims, j.claim)
	}
}

func (m *model) remove(j *modelJob) {
	delete(m.jobs, j.id)
	switch j.state {
	case Done:
	case Dead:
		if j.claims {
			m.endClaim(j)
		}
	default:
		m.endClaim(j)
		m.free(j)
	}
}

// claimOf returns the claim to a job's unique text, or nil if there is none now.
func (m *model) claimOf(j *modelJob) *modelClaim {
	c, claimed := m.claims[j.claim]
	if !claimed || c.until > 0 && c.until <= m.now {
		return nil
	}
	return &c
}

// mayRevive tells whether a dead job can be tried again.
func (m *model) mayRevive(j *modelJob) bool {
	c := m.claimOf(j)
	return j.state != Dead || c == nil || c.id == j.id
}

func (m *model) revive(j *modelJob) {
	if j.state == Dead && j.claim != "" {
		m.claims[j.claim] = modelClaim{id: j.id}
		j.claims = false
	}
	if m.wasLast(j) {
		j.max = j.attempts + 1
	}
}

// wasLast tells whether a job has no attempts left.
func (m *model) wasLast(j *modelJob) bool {
	most := cmp.Or(j.max, m.config.MaxAttempts)
	return most > 0 && j.attempts >= most
}

func (m *model) bury(j *modelJob) {
	j.state, j.time, j.cancelled, j.token = Dead, m.now, false, 0
	j.history.Buries++
	if j.claims = m.config.UniqueWhileDead && j.claim != ""; !j.claims {
		m.endClaim(j)
	}
	m.free(j)
}

// any draws the id of a job, or of none.
func (m *model) any() int64 {
	ids := append(slices.Sorted(maps.Keys(m.jobs)), 999)
	return rapid.SampledFrom(ids).Draw(m.t, "id")
}

// lease draws a job and a token, mostly that of its lease.
func (m *model) lease() (id, token int64, held *modelJob) {
	var ids []int64
	for _, j := range m.of(Leased) {
		ids = append(ids, j.id)
	}
	if id = m.any(); len(ids) > 0 && rapid.IntRange(0, 9).Draw(m.t, "leased") > 0 {
		id = rapid.SampledFrom(ids).Draw(m.t, "lease")
	}
	token = rapid.Int64Range(1, m.token+1).Draw(m.t, "token")
	j := m.jobs[id]
	if j != nil && j.state == Leased && rapid.IntRange(0, 9).Draw(m.t, "own") > 0 {
		token = j.token
	}
	if j != nil && j.state == Leased && j.token == token && j.time > m.now {
		held = j
	}
	return id, token, held
}

func (m *model) expect(err, want error) {
	if !errors.Is(err, want) {
		m.t.Fatalf("error %v, want %v", err, want)
	}
}

func (m *model) Put(t *rapid.T) {
	n := New{
		Payload:     []byte(rapid.StringN(0, 9, -1).Draw(t, "payload")),
		Priority:    rapid.Int64Range(-1, 2).Draw(t, "priority"),
		Key:         rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"),
		Unique:      rapid.SampledFrom([]string{"", "", "u", "v"}).Draw(t, "unique"),
		UniqueFor:   rapid.SampledFrom([]int64{0, 20}).Draw(t, "unique for"),
		MaxAttempts: rapid.Int64Range(-1, 3).Draw(t, "max"),
		Lease:       rapid.Int64Range(0, 30).Draw(t, "lease"),
		Timeout:     rapid.SampledFrom([]int64{0, 0, 7, NoTimeout}).Draw(t, "timeout"),
		Findable:    rapid.Bool().Draw(t, "findable"),
	}
	if rapid.Bool().Draw(t, "later") {
		n.At = m.now + rapid.Int64Range(-5, 30).Draw(t, "at")
	}
	var made *Job
	err := m.do(func(tx kv.Tx) (err error) {
		made, err = m.q.Put(tx, m.q.Places(), m.now, &n)
		return err
	})
	if c, claimed := m.claims[n.Unique]; claimed && (c.until == 0 || c.until > m.now) {
		m.expect(err, ErrDuplicate)
		var d *Duplicate
		if !errors.As(err, &d) || d.ID != c.id {
			t.Fatalf("duplicate %+v, want of %d", d, c.id)
		}
		return
	}
	m.expect(err, nil)
	j := &modelJob{
		id: made.ID, priority: n.Priority, place: max(m.lastPlace(n.Priority)+1, m.now), created: m.now,
		max: n.MaxAttempts, lease: n.Lease, timeout: n.Timeout, key: n.Key, claim: n.Unique, unique: n.UniqueFor,
		findable: n.Findable, history: History{Delay: max(0, n.At-m.now)},
	}
	if n.Unique != "" {
		m.claims[n.Unique] = modelClaim{id: j.id}
	}
	m.jobs[j.id] = j
	m.admit(j, n.At)
}

func (m *model) Reserve(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "n")
	m.opening = rapid.Int64Range(0, 2).Draw(t, "opening")
	defer func() { m.opening = 0 }()
	request := Request{N: n, Holder: "h", NewToken: func() int64 { m.token++; return m.token }}
	request.Opening, request.Terms = m.opening, func(int) Terms { return Terms{Runner: m.opening > 0} }
	first := m.token
	var found Found
	m.expect(m.do(func(tx kv.Tx) (err error) {
		m.token = first
		found, err = m.q.Reserve(tx, m.now, request)
		return err
	}), nil)
	m.token = first
	got, want := found.Jobs, m.reserve(n)
	if len(got) != len(want) {
		t.Fatalf("reserved %d jobs, want %d", len(got), len(want))
	}
	for i, j := range got {
		if j.ID != want[i].id || j.Token != want[i].token {
			t.Fatalf("reserved %d with %d, want %d with %d", j.ID, j.Token, want[i].id, want[i].token)
		}
	}
}

func (m *model) reserve(n int) (got []*modelJob) {
	if m.paused {
		return nil
	}
	if c := m.config.Concurrency; c > 0 {
		n = min(n, int(c)-len(m.of(Leased)))
	}
	for _, j := range m.of(Ready) {
		if len(got) == n {
			break
		}
		if r := m.config.Rate; r.limits() {
			if at, _ := r.start(m.rate, m.now); at > m.now {
				break
			}
		}
		if r := m.config.KeyRate; j.key != "" {
			if at, _ := r.start(m.rates[j.key], m.now); at > m.now { // it was ready in a dump already
				j.state, j.slot = Blocked, false
				continue
			}
		}
		if r := m.config.Rate; r.limits() {
			_, m.rate = r.start(m.rate, m.now)
		}
		m.start(j)
		got = append(got, j)
	}
	return got
}

func (m *model) start(j *modelJob) {
	m.token++
	length := cmp.Or(j.lease, m.config.Lease)
	j.state, j.time, j.token, j.opening = Leased, m.now+length, m.token, m.opening
	if j.opening > 0 {
		j.token = runnerToken(j.opening, j.token)
	}
	if r := m.config.KeyRate; j.key != "" {
		_, m.rates[j.key] = r.start(m.rates[j.key], m.now)
	}
	j.attempts++
}

func (m *model) Ack(t *rapid.T) {
	id, token, j := m.lease()
	err := m.do(func(tx kv.Tx) error { return m.q.Ack(tx, id, token, m.now, []byte("result")) })
	if j == nil {
		m.expect(err, ErrLeaseLost)
		return
	}
	m.expect(err, nil)
	if m.config.Keep == 0 {
		m.remove(j)
		return
	}
	j.state, j.time, j.token, j.cancelled = Done, m.now+m.config.Keep, 0, false
	m.endClaim(j)
	m.free(j)
}

func (m *model) Extend(t *rapid.T) {
	id, token, j := m.lease()
	until := m.now + rapid.Int64Range(0, 40).Draw(t, "until")
	var cancelled bool
	err := m.do(func(tx kv.Tx) (err error) {
		cancelled, err = m.q.Extend(tx, id, token, m.now, until)
		return err
	})
	if j == nil {
		m.expect(err, ErrLeaseLost)
		return
	}
	m.expect(err, nil)
	if j.time = until; cancelled != j.cancelled {
		t.Fatalf("cancelled: %v", cancelled)
	}
}

func (m *model) Release(t *rapid.T) {
	id, token, j := m.lease()
	at := m.now + rapid.Int64Range(-5, 20).Draw(t, "at")
	var as *NewPriority
	if rapid.Bool().Draw(t, "other priority") {
		as = &NewPriority{rapid.Int64Range(-1, 2).Draw(t, "priority"), rapid.Bool().Draw(t, "old place")}
	}
	err := m.do(func(tx kv.Tx) error { return m.q.Release(tx, id, token, m.now, at, as) })
	if j == nil {
		m.expect(err, ErrLeaseLost)
		return
	}
	m.expect(err, nil)
	if j.cancelled {
		m.bury(j)
		return
	}
	j.attempts--
	j.token = 0
	if as != nil && as.Priority != j.priority {
		if !as.OldPlace {
			j.place = max(m.lastPlace(as.Priority)+1, m.now)
		}
		j.priority = as.Priority
	}
	j.history.Releases++
	j.history.Delay = max(0, at-m.now)
	m.admit(j, at)
}

func (m *model) Fail(t *rapid.T) {
	id, token, j := m.lease()
	at := m.now + rapid.Int64Range(0, 20).Draw(t, "at")
	next := at
	if rapid.Bool().Draw(t, "by backoff") {
		next, at = ByBackoff, m.now+m.config.Backoff.Base
	}
	var dead bool
	err := m.do(func(tx kv.Tx) (err error) {
		dead, err = m.q.Fail(tx, id, token, m.now, next, "why")
		return err
	})
	if j == nil {
		m.expect(err, ErrLeaseLost)
		return
	}
	m.expect(err, nil)
	want := j.cancelled || m.wasLast(j)
	if dead != want {
		t.Fatalf("dead: %v after %d of %d attempts", dead, j.attempts, j.max)
	}
	if j.token = 0; want {
		m.bury(j)
	} else {
		m.admit(j, at)
	}
}

func (m *model) Bury(t *rapid.T) {
	id, token, j := m.lease()
	var priority *int64
	if rapid.Bool().Draw(t, "other priority") {
		priority = new(int64)
	}
	err := m.do(func(tx kv.Tx) error { return m.q.Bury(tx, id, token, m.now, "why", priority) })
	if j == nil {
		m.expect(err, ErrLeaseLost)
		return
	}
	m.expect(err, nil)
	if priority != nil {
		j.priority = 0
	}
	m.bury(j)
}

func (m *model) Kick(t *rapid.T) {
	id := m.any()
	err := m.do(func(tx kv.Tx) error { return m.q.Kick(tx, id, m.now) })
	switch j := m.jobs[id]; {
	case j == nil:
		m.expect(err, ErrNotFound)
	case j.state != Dead && j.state != Scheduled:
		m.expect(err, ErrState)
	case !m.mayRevive(j):
		m.expect(err, ErrDuplicate)
	default:
		m.expect(err, nil)
		m.kick(j)
	}
}

func (m *model) kick(j *modelJob) {
	m.revive(j)
	j.history.Kicks++
	m.admit(j, 0)
}

func (m *model) Delete(t *rapid.T) {
	id := m.any()
	err := m.do(func(tx kv.Tx) error { return m.q.Delete(tx, id, m.now) })
	if j := m.jobs[id]; j == nil {
		m.expect(err, ErrNotFound)
	} else {
		m.expect(err, nil)
		m.remove(j)
	}
}
