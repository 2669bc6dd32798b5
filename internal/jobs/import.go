package jobs

import (
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Importer puts records of a dump into a queue, in several transactions. Jobs keep their ids and their places. Those
// that were leased are ready, as if their holders had released them. It is not safe for concurrent use.
type Importer struct {
	q     *Queue
	fresh bool  // settings are the dump's
	slots int64 // of a key that jobs of the dump may have at once

	free *FreeIDs
}

// Imported says what became of the jobs of one transaction.
type Imported struct {
	Jobs, Bytes int
	Duplicates  int // left out: a job of the same unique name is there
	NewIDs      int // have another id than in the dump

	took span // ids
}

// FreeIDs are ids that a store has given out, or that an import has taken from it, and that are of no job which others
// may be putting meanwhile. A job of a dump that has another one gets a new one, unless the store has not come so far.
type FreeIDs struct{ spans []span }

type span struct{ first, last int64 }

// Free returns those of a store before the first import into it: none where other processes may have some in hand, and
// else all but those of the block of this process.
func Free(r kv.Reader, db kv.DB) (*FreeIDs, error) {
	f := &FreeIDs{}
	if db.Limits().Shared {
		return f, nil
	}
	ids := ShareIDs(db)
	defer ids.Leave()
	first, last := ids.skip()
	given, err := lastID(r)
	f.add(span{1, first - 1})
	f.add(span{last + 1, given})
	return f, err
}

func (f *FreeIDs) add(s span) {
	switch n := len(f.spans); {
	case s.first > s.last:
	case n > 0 && f.spans[n-1].last+1 == s.first:
		f.spans[n-1].last = s.last
	default:
		f.spans = append(f.spans, s)
	}
}

func (f *FreeIDs) has(id int64) bool {
	for _, s := range f.spans {
		if s.first <= id && id <= s.last {
			return true
		}
	}
	return false
}

// Import begins an import into a queue, or into the one with what it has if it is not fresh. Others may use it
// meanwhile.
func (q *Queue) Import(free *FreeIDs, fresh bool) *Importer {
	return &Importer{q: q, fresh: fresh, slots: 1, free: free}
}

// IsEmpty tells whether a queue has no jobs, of any state, and no periodic ones.
func (q *Queue) IsEmpty(r kv.Reader) (bool, error) {
	for _, prefix := range [][]byte{q.headers, q.periodic} {
		for _, err := range r.Range(rangeOf(prefix), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
			return false, err
		}
	}
	return true, nil
}

// ClearAll removes jobs as Clear does, and what Import brings besides.
func (q *Queue) ClearAll(tx kv.Tx) {
	q.Clear(tx)
	tx.ClearRange(rangeOf(q.periodic))
	tx.ClearRange(rangeOf(q.ticks))
	tx.Clear(q.state)
	tx.Clear(q.rate)
}

// Put adds what records say, in one transaction, after which Committed is to be called. Those of settings must have been
// put before those of jobs.
func (m *Importer) Put(tx kv.Tx, now int64, records []*Record) (done Imported, err error) {
	last, err := lastID(tx)
	if err != nil {
		return done, err
	}
	ids := importedIDs{before: last, last: last}
	for _, r := range records {
		switch r.Kind {
		case SettingsRecord:
			ids.last = max(ids.last, r.Queue.LastID)
			m.settings(tx, r.Queue)
		case JobRecord:
			err = m.job(tx, now, r, &ids, &done)
		case KeyRecord:
			err = m.key(tx, now, r)
		case PeriodicRecord:
			err = m.periodic(tx, r.Periodic)
		case ClaimRecord:
			err = m.claim(tx, now, r)
		}
		if err != nil {
			return done, err
		}
	}
	if ids.last > ids.before {
		tx.Set(SystemSpace(), tuple.AppendInt(nil, ids.last))
	}
	done.took = span{ids.before + 1, ids.last}
	return done, nil
}

// Committed notes that what Put has returned is in the store.
func (m *Importer) Committed(done Imported) { m.free.add(done.took) }

// importedIDs is the last id that the store has given out, before and after a transaction.
type importedIDs struct{ before, last int64 }

// idFor returns the id of a job of the dump, or another one if that may be some other job's.
func (m *Importer) idFor(tx kv.Tx, id int64, ids *importedIDs) (int64, error) {
	free := id > ids.before || m.free.has(id)
	if free {
		value, err := tx.Get(withInts(m.q.headers, id))
		if err != nil {
			return 0, err
		}
		free = value == nil
	}
	if !free {
		id = ids.last + 1
	}
	ids.last = max(ids.last, id)
	return id, nil
}

func (m *Importer) settings(tx kv.Tx, s QueueState) {
	m.slots = s.Slots
	if !m.fresh {
		return
	}
	if s.Stored != nil {
		tx.Set(m.q.state, s.Stored)
	}
	if s.Arrival > 0 {
		tx.Set(m.q.rate, withInts(nil, s.Arrival))
	}
}

func (m *Importer) job(tx kv.Tx, now int64, r *Record, ids *importedIDs, done *Imported) (err error) {
	q, j := m.q, *r.Job // a copy: the transaction may run again
	j.Failures = append([]Failure(nil), j.Failures...)
	done.Jobs++
	done.Bytes += len(r.Payload)
	release(&j, now)
	claims, ends := j.Unique != "" && j.State != Done, false
	if claims && j.State == Dead && !j.Claims {
		claims = r.Job.State == Leased && j.Created+j.UniqueFor > now // it has just died
		ends = claims
	}
	if claims {
		err := q.checkClaim(tx, j.Unique, now)
		if isDuplicate(err) && j.State == Dead {
			claims, j.Claims = false, false // it is dead all the same
		} else if isDuplicate(err) {
			done.Duplicates++
			done.Bytes -= len(r.Payload)
			return nil
		} else if err != nil {
			return err
		}
	}
	if j.ID, err = m.idFor(tx, j.ID, ids); err != nil {
		return err
	}
	if j.ID != r.Job.ID {
		done.NewIDs++
	}
	q.setPayload(tx, &j, r.Payload)
	if j.Findable {
		tx.Set(FindKey(j.ID), q.name)
	}
	if claims {
		q.claim(tx, &j)
		if ends {
			q.endClaim(tx, &j, now)
		}
	}
	if r.Result != nil && j.State == Done {
		q.setPieces(tx, q.results, j.ID, r.Result)
	}
	if err := m.slot(tx, &j); err != nil {
		return err
	}
	q.enter(tx, &j)
	return nil
}

// release makes a job that was leased what it is if its holder gives it back.
func release(j *Job, now int64) {
	if j.State != Leased {
		return
	}
	if j.Cancelled {
		j.fail(now, cancelledText)
		j.State, j.Time, j.HasSlot, j.Cancelled = Dead, now, false, false
		return
	}
	j.State, j.Time, j.Attempts = Ready, 0, max(0, j.Attempts-1)
}

// slot gives a job the slot that it had, or blocks it if there is none. Admit has blocked ones looked at.
func (m *Importer) slot(tx kv.Tx, j *Job) error {
	if j.HasSlot {
		s, err := m.q.loadSlots(tx, j.Key)
		if err != nil {
			return err
		}
		if j.HasSlot = s.used < m.slots; j.HasSlot {
			s.used++
			if j.State == Ready {
				s.ready++
			}
			m.q.saveSlots(tx, j.Key, s)
		}
	}
	if j.Key != "" && j.State == Ready && !j.HasSlot {
		j.State = Blocked
	}
	return nil
}

// key keeps up what a key has used of its rate.
func (m *Importer) key(tx kv.Tx, now int64, r *Record) error {
	s, err := m.q.loadSlots(tx, r.Text)
	if err != nil || r.Time <= max(now, s.next) {
		return err
	}
	s.next = r.Time
	m.q.saveSlots(tx, r.Text, s)
	return nil
}

// periodic adds a periodic job, unless there is one of that name.
func (m *Importer) periodic(tx kv.Tx, p *Periodic) error {
	_, err := m.q.loadPeriodic(tx, p.Name)
	if err == ErrNotFound {
		m.q.savePeriodic(tx, p)
		return nil
	}
	return err
}

// claim adds a claim that outlives its job, unless there is one.
func (m *Importer) claim(tx kv.Tx, now int64, r *Record) error {
	if r.Time <= now {
		return nil
	}
	err := m.q.checkClaim(tx, r.Text, now)
	if isDuplicate(err) {
		return nil
	}
	if err == nil {
		tx.Set(withString(m.q.claims, r.Text), withInts(nil, r.Job.ID, r.Time))
		tx.Set(m.q.endKey(r.Time, endsClaim, r.Text), nil)
	}
	return err
}

// Admit lets in the first job of each key that has jobs blocked by none: those before them were left out, or have
// gone between two parts of the dump. What else may come in, as the limit and the rate of a key say, does so when the next
// handle does what is due. It looks at up to limit keys, and returns where to go on, or nil.
func (q *Queue) Admit(tx kv.Tx, now int64, after []byte, limit int) (next []byte, err error) {
	blocked := rangeOf(q.indexes[Blocked])
	if after != nil {
		blocked.Begin = after
	}
	for n := range limit {
		if n > 0 && !q.Fits(tx) {
			break
		}
		key, err := q.admitFirst(tx, now, blocked)
		if err != nil || key == "" {
			return nil, err
		}
		blocked.Begin = rangeOf(withString(q.indexes[Blocked], key)).End
	}
	return blocked.Begin, nil
}

// admitFirst lets in the first job of the first key in a range if no other one has a slot and its rate has room, and
// returns the key.
func (q *Queue) admitFirst(tx kv.Tx, now int64, blocked kv.Range) (key string, err error) {
	j, err := q.firstIn(tx, Blocked, blocked)
	if err != nil || j == nil {
		return "", err
	}
	s, err := q.loadSlots(tx, j.Key)
	if err != nil {
		if q.PassOver(j.ID, err) {
			err = nil
		}
		return j.Key, err
	}
	if s.used == 0 && s.next <= now {
		q.move(tx, j, Ready, func() { s.enter(j) })
	}
	q.setWake(tx, j.Key, &s, now)
	q.saveSlots(tx, j.Key, s)
	return j.Key, nil
}
