package jobs

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Filter says which jobs; the zero Filter is all.
type Filter struct {
	State       State  // 0 is any
	Key         string // "" is any
	Contains    string // in the payload or in an error; "" is any
	MinAttempts int64
	Holder      string // of its last lease; "" is any
	Before      int64  // it was put; 0 is at any time
	Reverse     bool   // List begins at the end
	Payloads    bool   // found reads the payload of each job
}

// maxSearched is how many bytes of payloads one List looks into.
const maxSearched = 8 << 20

// List calls found with each job that matches, in the order of their state, or of their ids for any state, from where
// after says on, until it does not want more. It looks at no more than scan jobs, and into no more than some MiB. next is
// where to go on, or nil at the end; looked is at how many it has looked. It passes over those that can't be read.
func (q *Queue) List(r kv.Reader, f Filter, after []byte, scan int, found func(*Job) (more bool, err error)) (next []byte, looked int, err error) {
	over := rangeOf(q.headers)
	switch {
	case f.State == Blocked && f.Key != "":
		over = rangeOf(withString(q.indexes[Blocked], f.Key))
	case f.State != 0:
		over = rangeOf(q.indexes[f.State])
	}
	if after != nil {
		if !over.Contains(after) {
			return nil, 0, fmt.Errorf("%w: %.60q is not where a page of these jobs ended", kv.ErrInvalid, after)
		}
		if f.Reverse {
			over.End = after
		} else {
			over.Begin = kv.After(after)
		}
	}
	searched := 0
	for {
		n := min(scan-looked, listPage)
		entries, err := pairs(r, over, kv.RangeOptions{Limit: n, Reverse: f.Reverse})
		if err != nil {
			return nil, looked, err
		}
		q.expectListed(r, f, entries, maxSearched-searched)
		for _, entry := range entries {
			j, err := q.listed(r, f.State, entry)
			var matches bool
			var size int
			if err == nil {
				matches, size, err = q.matches(r, j, f)
			}
			if err != nil && !q.aside(entry.Key, err) {
				return nil, looked, err
			}
			more := true
			if matches {
				if more, err = found(j); err != nil {
					return nil, looked, err
				}
			}
			looked, searched = looked+1, searched+size
			if !more || looked == scan || searched >= maxSearched {
				return entry.Key, looked, nil
			}
		}
		if len(entries) < n {
			return nil, looked, nil
		}
		if last := entries[n-1].Key; f.Reverse {
			over.End = last
		} else {
			over.Begin = kv.After(last)
		}
	}
}

// listPage is how many entries are read at once, with their headers and payloads.
const listPage = 48

func pairs(r kv.Reader, over kv.Range, o kv.RangeOptions) (all []kv.KeyValue, err error) {
	for pair, err := range r.Range(over, o) {
		if err != nil {
			return nil, err
		}
		all = append(all, pair)
	}
	return all, nil
}

func (q *Queue) listed(r kv.Reader, state State, entry kv.KeyValue) (*Job, error) {
	if state != 0 {
		return q.loadIn(r, state, entry.Key)
	}
	id, rest, ok := tuple.NextInt(entry.Key[len(q.headers):])
	if !ok || len(rest) > 0 {
		return nil, corrupt(entry.Key, "it is not the key of a header")
	}
	return decode(entry.Key, id, entry.Value)
}

// Matches tells whether a job matches a filter.
func (q *Queue) Matches(r kv.Reader, j *Job, f Filter) (bool, error) {
	matches, _, err := q.matches(r, j, f)
	return matches, err
}

// matches is Matches, and tells how many bytes of a payload it has looked into.
func (q *Queue) matches(r kv.Reader, j *Job, f Filter) (matches bool, size int, err error) {
	if f.State != 0 && j.State != f.State || f.Key != "" && j.Key != f.Key || j.Attempts < f.MinAttempts ||
		f.Holder != "" && j.Holder != f.Holder || f.Before != 0 && j.Created >= f.Before {
		return false, 0, nil
	}
	if f.Contains == "" {
		return true, 0, nil
	}
	for _, failure := range j.Failures {
		if strings.Contains(failure.Error, f.Contains) {
			return true, 0, nil
		}
	}
	payload, err := q.Payload(r, j)
	return bytes.Contains(payload, []byte(f.Contains)), len(payload), err
}

// priorities is at how many of them Oldest looks.
const priorities = 8

// Oldest returns since when the first ready job is there, of the few lowest priorities the one that is
// there for longest, through a snapshot. It is 0 if there is none.
func (q *Queue) Oldest(r kv.Reader) (since int64, err error) {
	r = r.Snapshot()
	over := rangeOf(q.indexes[Ready])
	for range priorities {
		j, err := q.firstIn(r, Ready, over)
		if err != nil || j == nil {
			return since, err
		}
		if since == 0 || j.since() < since {
			since = j.since()
		}
		over.Begin = rangeOf(withInts(q.indexes[Ready], j.Priority)).End
	}
	return since, nil
}

// Look is how a queue looks.
type Look struct {
	Counts map[State]int64
	Paused bool
	Oldest int64 // as Oldest returns it
}

// Look reads how the queue looks, through snapshots but for the settings.
func (q *Queue) Look(r kv.Reader) (l Look, err error) {
	if l.Counts, err = q.Counts(r); err != nil {
		return l, err
	}
	at, err := q.At(r)
	if err != nil {
		return l, err
	}
	if l.Paused = at.Paused(); l.Counts[Ready] > 0 {
		l.Oldest, err = q.Oldest(r)
	}
	return l, err
}
