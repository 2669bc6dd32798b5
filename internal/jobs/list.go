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
}

// Page is some of the jobs that match a filter.
type Page struct {
	Jobs []*Job
	// Next is where to go on, or nil at the end. A page may be empty and have a next one: so many jobs
	// were looked at without a match.
	Next []byte
}

// List returns up to limit jobs that match, in the order of their state, or of their ids for
// any state, from where after says on; it looks at no more than scan jobs.
func (q *Queue) List(r kv.Reader, f Filter, after []byte, limit, scan int) (page Page, err error) {
	over := rangeOf(q.headers)
	switch {
	case f.State == Blocked && f.Key != "":
		over = rangeOf(withString(q.indexes[Blocked], f.Key))
	case f.State != 0:
		over = rangeOf(q.indexes[f.State])
	}
	if after != nil {
		if !over.Contains(after) {
			return page, fmt.Errorf("%w: %.60q is not where a page of these jobs ended", kv.ErrInvalid, after)
		}
		if f.Reverse {
			over.End = after
		} else {
			over.Begin = kv.After(after)
		}
	}
	looked := 0
	for entry, err := range r.Range(over, kv.RangeOptions{Limit: scan, Reverse: f.Reverse}) {
		if err != nil {
			return page, err
		}
		looked++
		j, err := q.listed(r, f.State, entry)
		if err != nil {
			return page, err
		}
		matches, err := q.Matches(r, j, f)
		if err != nil {
			return page, err
		}
		if matches {
			page.Jobs = append(page.Jobs, j)
		}
		if len(page.Jobs) == limit || looked == scan {
			page.Next = entry.Key
			return page, nil
		}
	}
	return page, nil
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
	if f.State != 0 && j.State != f.State || f.Key != "" && j.Key != f.Key || j.Attempts < f.MinAttempts ||
		f.Holder != "" && j.Holder != f.Holder || f.Before != 0 && j.Created >= f.Before {
		return false, nil
	}
	if f.Contains == "" {
		return true, nil
	}
	for _, failure := range j.Failures {
		if strings.Contains(failure.Error, f.Contains) {
			return true, nil
		}
	}
	payload, err := q.Payload(r, j)
	return bytes.Contains(payload, []byte(f.Contains)), err
}

// priorities is at how many of them Oldest looks.
const priorities = 8

// Oldest returns since when the first ready job is there, of the few lowest priorities the one that is
// there for longest, through a snapshot. It is 0 if there is none.
func (q *Queue) Oldest(r kv.Reader) (since int64, err error) {
	r = r.Snapshot()
	over := rangeOf(q.indexes[Ready])
	for range priorities {
		j, err := q.firstReady(r, over)
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

func (q *Queue) firstReady(r kv.Reader, over kv.Range) (*Job, error) {
	for entry, err := range r.Range(over, kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return nil, err
		}
		return q.loadIn(r, Ready, entry.Key)
	}
	return nil, nil
}
