package jobs

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/conq-go/conq/tuple"
)

// Job is the header of a job. Times are in microseconds.
type Job struct {
	ID       int64
	State    State
	Priority int64 // lower is first
	Place    int64 // among those of its priority

	// Time is when a scheduled job becomes ready, a lease is over, a job died, or a done one is forgotten. Of a ready
	// or blocked one it is when it last became so, or 0 if it always was.
	Time int64

	Created     int64
	Attempts    int64 // that have begun
	MaxAttempts int64 // after which it dies; 0 is as the queue says, -1 without end
	Token       int64 // of its lease
	Lease       int64 // how long its leases are; 0 is up to the handle that reserves it
	UniqueFor   int64 // how long its claim lasts at least, from Created on
	Pieces      int64 // over how many keys its payload lies; 0 if the header has it
	Timeout     int64 // how long an attempt may run; 0 is as the queue says, NoTimeout without limit

	HasSlot   bool // it occupies a slot of its key
	Cancelled bool // it dies when its lease ends, unless it is acknowledged
	Findable  bool // its queue is known by its id alone; see Find
	Claims    bool // it is dead, and has its unique text all the same

	History
	Key      string
	Unique   string
	Holder   string            // of its last lease
	Meta     map[string]string // the user's
	Failures []Failure         // of its last attempts, oldest first

	payload []byte // if the header has it; else nil
}

// History is what has happened to a job. Reserves that ended in a release are in Releases, and others in Attempts.
type History struct {
	Delay    int64 // that Put or Release asked for last
	Releases int64
	Expiries int64 // leases that ran out
	Buries   int64
	Kicks    int64
}

func (h *History) ints() []*int64 {
	return []*int64{&h.Delay, &h.Releases, &h.Expiries, &h.Buries, &h.Kicks}
}

// Failure is how an attempt ended.
type Failure struct {
	Attempt int64
	Time    int64
	Error   string
	Holder  string
}

// Bounds of what is kept of failures.
const (
	MaxFailures     = 8
	MaxFailureBytes = 2048
)

// Formats are the first element of a header.
const (
	formatApart  = 1 // the payload lies in keys of its own
	formatInside = 2 // the header has the payload
)

const (
	flagSlot = 1 << iota
	_
	flagCancelled
	flagFindable
	flagClaims
)

// ints are the integers of a header, in order.
func (j *Job) ints() []*int64 {
	return []*int64{
		(*int64)(&j.State), &j.Priority, &j.Place, &j.Time, &j.Created, &j.Attempts, &j.MaxAttempts,
		&j.Token, &j.Lease, &j.UniqueFor, &j.Pieces,
	}
}

func (j *Job) flags() (flags int64) {
	if j.HasSlot {
		flags |= flagSlot
	}
	if j.Cancelled {
		flags |= flagCancelled
	}
	if j.Findable {
		flags |= flagFindable
	}
	if j.Claims {
		flags |= flagClaims
	}
	return flags
}

// encode returns the header: the tuple (format, integers..., flags, key, unique, holder, meta, failures), with the payload behind the
// flags if the header has that, and the history and the timeout behind all if there are any.
func (j *Job) encode() []byte {
	format := int64(formatApart)
	if j.payload != nil {
		format = formatInside
	}
	b := tuple.AppendInt(make([]byte, 0, 96+len(j.payload)), format)
	for _, i := range j.ints() {
		b = tuple.AppendInt(b, *i)
	}
	b = tuple.AppendInt(b, j.flags())
	if j.payload != nil {
		b = tuple.AppendBytes(b, j.payload)
	}
	for _, s := range []string{j.Key, j.Unique, j.Holder} {
		b = tuple.AppendString(b, s)
	}
	failures := make(tuple.Tuple, 0, len(j.Failures))
	for _, f := range j.Failures {
		failures = append(failures, tuple.Tuple{f.Attempt, f.Time, f.Error, f.Holder})
	}
	rest := tuple.Tuple{packMeta(j.Meta), failures}
	if j.History != (History{}) || j.Timeout != 0 {
		history := make(tuple.Tuple, 0, 5)
		for _, i := range j.History.ints() {
			history = append(history, *i)
		}
		rest = append(rest, history)
	}
	if j.Timeout != 0 {
		rest = append(rest, j.Timeout)
	}
	b, err := rest.Append(b)
	if err != nil {
		panic("jobs: text that is not UTF-8 was not refused: " + err.Error())
	}
	return b
}

// decode reads the header of the job with that id.
func decode(key []byte, id int64, b []byte) (*Job, error) {
	j := &Job{ID: id}
	format, rest, ok := tuple.NextInt(b)
	if !ok || format != formatApart && format != formatInside {
		return nil, corrupt(key, "its header has format %d, this version of conq knows %d and %d", format, formatApart, formatInside)
	}
	var flags int64
	for _, i := range append(j.ints(), &flags) {
		if *i, rest, ok = tuple.NextInt(rest); !ok {
			return nil, corrupt(key, "its header is cut off")
		}
	}
	j.HasSlot, j.Cancelled, j.Findable, j.Claims = flags&flagSlot != 0, flags&flagCancelled != 0, flags&flagFindable != 0, flags&flagClaims != 0
	if _, known := stateNames[j.State]; !known {
		return nil, corrupt(key, "%v is not known", j.State)
	}
	if format == formatInside {
		elem, behind, err := tuple.Next(rest)
		if j.payload, ok = elem.([]byte); err != nil || !ok || j.Pieces != 0 {
			return nil, corrupt(key, "its header does not have its payload")
		}
		rest = behind
	}
	elems, err := tuple.Unpack(rest)
	if err != nil {
		return nil, corrupt(key, "its header: %v", err)
	}
	if err := j.setTexts(elems); err != nil {
		return nil, corrupt(key, "its header: %v", err)
	}
	return j, nil
}

// setTexts sets what follows the integers of a header.
func (j *Job) setTexts(elems tuple.Tuple) error {
	if len(elems) < 5 || len(elems) > 7 {
		return fmt.Errorf("it has %d elements behind the flags, not 5 to 7", len(elems))
	}
	if len(elems) == 7 {
		var ok bool
		if j.Timeout, ok = elems[6].(int64); !ok {
			return fmt.Errorf("its timeout is no integer")
		}
	}
	if len(elems) > 5 {
		if err := j.History.set(elems[5]); err != nil {
			return err
		}
	}
	meta, okMeta := elems[3].(tuple.Tuple)
	failures, okFailures := elems[4].(tuple.Tuple)
	if !okMeta || !okFailures || !texts(elems[:3], &j.Key, &j.Unique, &j.Holder) {
		return fmt.Errorf("an element has another type")
	}
	var err error
	if j.Meta, err = unpackMeta(meta); err != nil {
		return err
	}
	for _, elem := range failures {
		f, ok := elem.(tuple.Tuple)
		if !ok || len(f) != 4 {
			return fmt.Errorf("a failure is not a tuple of four")
		}
		var failure Failure
		attempt, okAttempt := f[0].(int64)
		at, okTime := f[1].(int64)
		if !okAttempt || !okTime || !texts(f[2:], &failure.Error, &failure.Holder) {
			return fmt.Errorf("a failure has an element of another type")
		}
		failure.Attempt, failure.Time = attempt, at
		j.Failures = append(j.Failures, failure)
	}
	return nil
}

func packMeta(meta map[string]string) tuple.Tuple {
	packed := make(tuple.Tuple, 0, 2*len(meta))
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		packed = append(packed, name, meta[name])
	}
	return packed
}

func unpackMeta(packed tuple.Tuple) (meta map[string]string, err error) {
	for ; len(packed) > 0; packed = packed[2:] {
		var name, value string
		if len(packed) < 2 || !texts(packed[:2], &name, &value) {
			return nil, fmt.Errorf("its metadata are not pairs of strings")
		}
		if meta == nil {
			meta = make(map[string]string)
		}
		meta[name] = value
	}
	return meta, nil
}

func (h *History) set(elem any) error {
	elems, ok := elem.(tuple.Tuple)
	ints := h.ints()
	if !ok || len(elems) != len(ints) {
		return fmt.Errorf("its history is not a tuple of %d", len(ints))
	}
	for i, elem := range elems {
		if *ints[i], ok = elem.(int64); !ok {
			return fmt.Errorf("its history has an element of another type")
		}
	}
	return nil
}

// texts sets strings to the elements, and tells whether these are so many strings.
func texts(elems tuple.Tuple, to ...*string) bool {
	for i, s := range to {
		text, ok := elems[i].(string)
		if !ok {
			return false
		}
		*s = text
	}
	return len(elems) == len(to)
}

// fail notes how the attempt under way ended. Of long texts the end is kept: there the cause stands.
func (j *Job) fail(now int64, reason string) {
	if n := len(reason) - MaxFailureBytes; n > 0 {
		reason = "…" + reason[n:]
	}
	f := Failure{Attempt: j.Attempts, Time: now, Error: validText(reason), Holder: j.Holder}
	j.Failures = append(j.Failures, f)
	if n := len(j.Failures) - MaxFailures; n > 0 {
		j.Failures = slices.Delete(j.Failures, 0, n)
	}
}

// validText returns s with what is not UTF-8 replaced.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// since is when a ready job became so.
func (j *Job) since() int64 { return max(j.Created, j.Time) }
