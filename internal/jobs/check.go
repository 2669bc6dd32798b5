package jobs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Problem is something in a queue that no verb leaves behind.
type Problem struct {
	Key  []byte
	What string
	// Repair removes the problem, in a transaction in which it was found again. It is nil where that can't be
	// done without a loss.
	Repair func(tx kv.Tx)
}

// Checker looks at all keys of a queue, in order, in as many transactions as that takes. What it says of
// one key holds in the transaction in which it has read it. The numbers of all are compared at the end.
type Checker struct {
	q *Queue

	first  map[State]int64 // the counts when the check began
	counts map[State]int64
	jobs   map[string]slots // of each key, as its jobs have it: used, ready, and wake if there are blocked ones
	stored map[string]slots // as stored
}

// NewChecker begins a check.
func (q *Queue) NewChecker(r kv.Reader) (*Checker, error) {
	first, err := q.Counts(r)
	c := q.newChecker()
	c.first = first
	return c, err
}

func (q *Queue) newChecker() *Checker {
	return &Checker{q: q, counts: make(map[State]int64), jobs: make(map[string]slots), stored: make(map[string]slots)}
}

// Check looks at a queue in one transaction.
func (q *Queue) Check(r kv.Reader) (problems []Problem, err error) {
	c, err := q.NewChecker(r)
	if err != nil {
		return nil, err
	}
	for pair, err := range r.Snapshot().Range(rangeOf(q.space), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		p, err := c.Key(r, pair)
		if err != nil {
			return nil, err
		}
		if p != nil {
			problems = append(problems, *p)
		}
	}
	rest, err := c.End(r)
	return append(problems, rest...), err
}

// Key looks at one key, and counts it. It returns what is wrong with it, or nil.
func (c *Checker) Key(r kv.Reader, pair kv.KeyValue) (*Problem, error) {
	return c.q.judge(r, pair, c)
}

// CheckKey looks at one key, and counts nothing.
func (q *Queue) CheckKey(r kv.Reader, pair kv.KeyValue) (*Problem, error) {
	return q.judge(r, pair, q.newChecker())
}

// judge dispatches on what a key is.
func (q *Queue) judge(r kv.Reader, pair kv.KeyValue, c *Checker) (*Problem, error) {
	for state, index := range q.indexes {
		if bytes.HasPrefix(pair.Key, index) {
			return q.judgeEntry(r, pair, state)
		}
	}
	for _, part := range []struct {
		prefix []byte
		judge  func(kv.Reader, kv.KeyValue, *Checker) (*Problem, error)
	}{
		{q.headers, q.judgeHeader}, {q.values, q.judgeValue}, {q.results, q.judgeValue}, {q.claims, q.judgeClaim},
		{q.slots, q.judgeSlots}, {q.wakes, q.judgeWake}, {q.periodic, q.judgePeriodic}, {q.ticks, q.judgeTick}, {q.ends, q.judgeEnd},
		{q.counts, q.judgeCount}, {q.state, q.judgeState}, {q.rate, q.judgeRate},
	} {
		if bytes.HasPrefix(pair.Key, part.prefix) {
			return part.judge(r, pair, c)
		}
	}
	return nil, nil // a signal, an outcome
}

// problem makes one of an error that is about what is stored, and leaves those of the store.
func problem(key []byte, err error, repair func(kv.Tx)) (*Problem, error) {
	if err == nil {
		return nil, nil
	}
	if !isCorrupt(err) {
		return nil, err
	}
	return &Problem{Key: key, What: err.Error(), Repair: repair}, nil
}

// removing repairs by removing a key.
func removing(key []byte) func(kv.Tx) { return func(tx kv.Tx) { tx.Clear(key) } }

// judgeEntry: an entry has a job that is there.
func (q *Queue) judgeEntry(r kv.Reader, pair kv.KeyValue, state State) (*Problem, error) {
	j, err := q.loadIn(r, state, pair.Key)
	if err == nil && state == Leased && string(pair.Value) != string(withInts(nil, j.Token)) {
		return &Problem{pair.Key, fmt.Sprintf("job %d has another token in the index of leases", j.ID), func(tx kv.Tx) { q.enterIndex(tx, j) }}, nil
	}
	return problem(pair.Key, err, removing(pair.Key))
}

// judgeHeader: a job has an entry, its payload, and a slot where it needs one.
func (q *Queue) judgeHeader(r kv.Reader, pair kv.KeyValue, c *Checker) (*Problem, error) {
	j, err := q.listed(r, 0, pair)
	if err != nil {
		return problem(pair.Key, err, nil)
	}
	c.count(j)
	if _, err := q.Payload(r, j); err != nil {
		return problem(pair.Key, err, nil)
	}
	entry, err := r.Get(q.index(j))
	switch {
	case err != nil:
		return nil, err
	case entry == nil:
		return &Problem{pair.Key, fmt.Sprintf("job %d is %v, but not in its index", j.ID, j.State), func(tx kv.Tx) { q.enterIndex(tx, j) }}, nil
	case j.HasSlot && (j.Key == "" || j.State == Blocked || j.State == Dead || j.State == Done):
		return &Problem{Key: pair.Key, What: fmt.Sprintf("job %d is %v and occupies a slot of key %q", j.ID, j.State, j.Key)}, nil
	case j.Key != "" && !j.HasSlot && (j.State == Ready || j.State == Leased):
		return &Problem{Key: pair.Key, What: fmt.Sprintf("job %d is %v without a slot of its key %q", j.ID, j.State, j.Key)}, nil
	}
	return q.judgeFindable(r, pair, j)
}

// judgeFindable: a job that is findable can be found.
func (q *Queue) judgeFindable(r kv.Reader, pair kv.KeyValue, j *Job) (*Problem, error) {
	if !j.Findable {
		return nil, nil
	}
	value, err := r.Get(FindKey(j.ID))
	if err != nil || string(value) == string(q.name) {
		return nil, err
	}
	return &Problem{pair.Key, fmt.Sprintf("job %d is not found by its id", j.ID), func(tx kv.Tx) { tx.Set(FindKey(j.ID), q.name) }}, nil
}

func (c *Checker) count(j *Job) {
	c.counts[j.State]++
	if j.Key == "" {
		return
	}
	s := c.jobs[j.Key]
	if j.HasSlot {
		s.used++
	}
	if j.HasSlot && j.State == Ready {
		s.ready++
	}
	if j.State == Blocked {
		s.wake = awaited
	}
	c.jobs[j.Key] = s
}

// judgeValue: a payload or a result has a job.
func (q *Queue) judgeValue(r kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	id, _, ok := tuple.NextInt(pair.Key[len(q.values):]) // as long as that of results
	if !ok {
		return &Problem{Key: pair.Key, What: "it has no id of a job"}, nil
	}
	_, err := q.Load(r, id)
	if err == ErrNotFound {
		return &Problem{pair.Key, fmt.Sprintf("it is of job %d, which is gone", id), removing(pair.Key)}, nil
	}
	return nil, nonCorrupt(err) // what is wrong with the header is told of that
}

// judgeClaim: a claim has a job, or an end.
func (q *Queue) judgeClaim(r kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	unique, err := textOf(q.claims, pair.Key)
	if err != nil {
		return problem(pair.Key, err, nil)
	}
	var id, ends int64
	if err := decodeInts(pair.Key, pair.Value, &id, &ends); err != nil {
		return problem(pair.Key, err, nil)
	}
	if ends > 0 {
		at := q.endKey(ends, endsClaim, unique)
		end, err := r.Get(at)
		if err == nil && end == nil {
			return &Problem{pair.Key, fmt.Sprintf("the claim %q of job %d never ends", unique, id), func(tx kv.Tx) { tx.Set(at, nil) }}, nil
		}
		return nil, err
	}
	j, err := q.Load(r, id)
	if nonCorrupt(err) != nil && err != ErrNotFound {
		return nil, err
	}
	if err == ErrNotFound || err == nil && (j.Unique != unique || j.State == Done || j.State == Dead && !j.Claims) {
		return &Problem{pair.Key, fmt.Sprintf("the claim %q outlives job %d", unique, id), removing(pair.Key)}, nil
	}
	return nil, nil
}

// textOf returns the string that a key ends with.
func textOf(prefix, key []byte) (text string, err error) {
	elems, err := tuple.Unpack(key[len(prefix):])
	if err != nil || len(elems) != 1 || !texts(elems, &text) {
		return "", corrupt(key, "it does not end with a string")
	}
	return text, nil
}

// judgeSlots: a key whose blocked jobs wait for a time is woken then. Without what can't be read its rate begins anew, and its slots are
// counted again.
func (q *Queue) judgeSlots(r kv.Reader, pair kv.KeyValue, c *Checker) (*Problem, error) {
	key, err := textOf(q.slots, pair.Key)
	if err != nil {
		return problem(pair.Key, err, nil)
	}
	var s slots
	if err := decodeInts(pair.Key, pair.Value, s.ints()...); err != nil {
		return problem(pair.Key, err, removing(pair.Key))
	}
	c.stored[key] = s
	if s.wake <= 0 {
		return nil, nil
	}
	at := q.wakeKey(s.wake, key)
	value, err := r.Get(at)
	if err == nil && value == nil {
		return &Problem{pair.Key, fmt.Sprintf("the blocked jobs of key %q are never looked at", key), func(tx kv.Tx) { tx.Set(at, nil) }}, nil
	}
	return nil, err
}

// judgeWake: what is due then is of a key with blocked jobs.
func (q *Queue) judgeWake(r kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	elems, err := tuple.Unpack(pair.Key[len(q.wakes):])
	var key string
	if err != nil || len(elems) != 2 || !texts(elems[1:], &key) {
		return &Problem{Key: pair.Key, What: "it is no time of a key"}, nil
	}
	s, err := q.loadSlots(r, key)
	if err == nil && elems[0] != s.wake {
		return &Problem{pair.Key, fmt.Sprintf("the blocked jobs of key %q are not looked at then", key), removing(pair.Key)}, nil
	}
	return nil, nonCorrupt(err)
}

// judgePeriodic: a periodic job has its tick, and a tick its periodic job.
func (q *Queue) judgePeriodic(r kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	name, err := textOf(q.periodic, pair.Key)
	if err != nil {
		return problem(pair.Key, err, nil)
	}
	p, err := decodePeriodic(pair.Key, name, pair.Value)
	if err != nil {
		return problem(pair.Key, err, nil)
	}
	tick := withString(withInts(q.ticks, p.Next), name)
	value, err := r.Get(tick)
	if err == nil && value == nil {
		return &Problem{pair.Key, fmt.Sprintf("the periodic job %q has no tick", name), func(tx kv.Tx) { tx.Set(tick, nil) }}, nil
	}
	if q.config.NextTick != nil && err == nil {
		if _, err := q.config.NextTick(p.Spec, p.Next); err != nil {
			return &Problem{Key: pair.Key, What: fmt.Sprintf("the periodic job %q is never due: %v", name, err)}, nil
		}
	}
	return nil, err
}

// judgeEnd: it can be read, so that it can end.
func (q *Queue) judgeEnd(_ kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	if _, err := q.parseEnd(pair.Key); err != nil {
		return problem(pair.Key, err, removing(pair.Key))
	}
	return nil, nil
}

// judgeCount: it is a number of jobs in a state. One that is not is left out, and what is missing then is counted again.
func (q *Queue) judgeCount(_ kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	_, _, err := q.parseCount(pair)
	return problem(pair.Key, err, removing(pair.Key))
}

// judgeState: the settings can be read.
func (q *Queue) judgeState(_ kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	_, err := decodeState(pair.Key, pair.Value, q.defaults)
	return problem(pair.Key, err, nil)
}

// judgeRate: it is a time. Without it the rate begins anew.
func (q *Queue) judgeRate(_ kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	return problem(pair.Key, decodeInts(pair.Key, pair.Value, new(int64)), removing(pair.Key))
}

func (q *Queue) judgeTick(r kv.Reader, pair kv.KeyValue, _ *Checker) (*Problem, error) {
	elems, err := tuple.Unpack(pair.Key[len(q.ticks):])
	var name string
	if err != nil || len(elems) != 2 || !texts(elems[1:], &name) {
		return &Problem{Key: pair.Key, What: "it is no tick of a periodic job"}, nil
	}
	p, err := q.loadPeriodic(r, name)
	if err == ErrNotFound || err == nil && elems[0] != p.Next {
		return &Problem{pair.Key, fmt.Sprintf("the periodic job %q is not due then", name), removing(pair.Key)}, nil
	}
	return nil, nonCorrupt(err)
}

// End compares the numbers of all, unless others have changed jobs since the check began.
func (c *Checker) End(r kv.Reader) (problems []Problem, err error) {
	counts, err := c.q.Counts(r)
	if err != nil {
		return nil, err
	}
	for _, state := range States {
		if counts[state] != c.first[state] {
			return nil, nil
		}
	}
	for _, state := range States {
		if d := c.counts[state] - counts[state]; d != 0 {
			problems = append(problems, Problem{
				withInts(c.q.counts, int64(state)), fmt.Sprintf("%d jobs are counted as %v, there are %d", counts[state], state, c.counts[state]),
				func(tx kv.Tx) { c.q.count(tx, state, d) },
			})
		}
	}
	return append(problems, c.slotProblems()...), nil
}

// slotProblems: as many slots are taken as jobs have one, as many jobs are ready as are counted, and blocked ones are
// looked at when others end. There is one problem a key, as it is repaired once.
func (c *Checker) slotProblems() (problems []Problem) {
	keys := maps.Clone(c.jobs)
	maps.Copy(keys, c.stored)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		stored, found := c.stored[key], c.jobs[key]
		switch {
		case stored.used != found.used:
			problems = append(problems, c.slotProblem(key, "key %q has %d slots taken, and %d jobs with one", key, stored.used, found.used))
		case stored.ready != found.ready:
			problems = append(problems, c.slotProblem(key, "key %q has %d ready jobs counted, there are %d", key, stored.ready, found.ready))
		case found.wake != 0 && (stored.wake == 0 || stored.wake == awaited && found.used == 0):
			problems = append(problems, c.slotProblem(key, "key %q has blocked jobs that nobody lets in", key))
		}
	}
	return problems
}

// slotProblem is repaired by counting again, and having blocked jobs looked at.
func (c *Checker) slotProblem(key, format string, args ...any) Problem {
	return Problem{withString(c.q.slots, key), fmt.Sprintf(format, args...), func(tx kv.Tx) {
		s, err := c.q.loadSlots(tx, key)
		if err == nil { // else it is one of the commit, too
			found := c.jobs[key]
			s.used, s.ready = found.used, found.ready
			c.q.setWake(tx, key, &s, -found.wake) // long ago, so that it is due
			c.q.saveSlots(tx, key, s)
		}
	}}
}
