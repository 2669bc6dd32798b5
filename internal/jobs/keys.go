package jobs

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// State is where a job is.
type State int64

// The states of a job.
const (
	Ready     State = iota + 1 // to be reserved
	Scheduled                  // ready at its time
	Leased                     // held by a worker until its deadline
	Blocked                    // until a slot of its key is free
	Dead                       // given up; kept to be looked at
	Done                       // acknowledged, and kept for a while
)

// States are all of them.
var States = []State{Ready, Scheduled, Leased, Blocked, Dead, Done}

var stateNames = map[State]string{
	Ready: "ready", Scheduled: "scheduled", Leased: "leased", Blocked: "blocked", Dead: "dead", Done: "done",
}

func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("state %d", int64(s))
}

// ParseState returns the state of that name.
func ParseState(name string) (State, error) {
	for state, n := range stateNames {
		if n == name {
			return state, nil
		}
	}
	return 0, fmt.Errorf("%w: there is no state %q: it can be ready, scheduled, leased, blocked, dead or done", kv.ErrInvalid, name)
}

// keys makes the keys of one queue.
type keys struct {
	space                                                                  []byte // the prefix of all
	name                                                                   []byte // the queue's, as a tuple
	indexes                                                                map[State][]byte
	headers, values, results, slots, claims, ends, counts, periodic, ticks []byte
	wakes                                                                  []byte
	state, rate                                                            []byte
}

// SystemSpace is what all keys of work queues begin with. Its bare prefix is the key of the last
// id that was given to a handle.
func SystemSpace() []byte {
	return tuple.AppendString(tuple.AppendBytes(nil, []byte("conq")), "work")
}

// Space returns the subspace of all keys of a queue.
func Space(queue string) subspace.Subspace {
	return subspace.FromBytes(tuple.AppendString(SystemSpace(), queue))
}

// SignalKey is the key that is set where workers in other processes may wait for what a transaction does.
func SignalKey(queue string) []byte { return tuple.AppendString(Space(queue).Bytes(), "signal") }

// Topic is of the signals that are in place of the key where one process has the store.
func Topic(queue string) string { return "work\x00" + queue }

// Announce has workers look again that wait, once tx has committed. signals are those of the store, or nil.
func Announce(tx kv.Tx, signals *kvext.Signals, queue string) {
	if signals != nil {
		tx.OnCommit(func() { signals.Notify(Topic(queue)) })
		return
	}
	var news [8]byte
	rand.Read(news[:]) // never fails
	tx.Set(SignalKey(queue), news[:])
}

// Outcomes is where the outcomes of transactions on a queue are kept.
func Outcomes(queue string) subspace.Subspace {
	return subspace.FromBytes(tuple.AppendString(Space(queue).Bytes(), "outcome"))
}

// headersName is what the keys of headers have in common.
const headersName = "j"

func keysOf(queue string) keys {
	space := Space(queue).Bytes()
	in := func(names ...string) []byte {
		key := space[:len(space):len(space)]
		for _, name := range names {
			key = tuple.AppendString(key, name)
		}
		return key
	}
	return keys{
		space: space, name: tuple.AppendString(nil, queue),
		indexes: map[State][]byte{
			Ready: in("r"), Scheduled: in("s"), Leased: in("l"), Blocked: in("b"), Dead: in("d"), Done: in("f"),
		},
		headers: in(headersName), values: in("v"), results: in("w"), slots: in("k"), claims: in("u"), ends: in("x"),
		counts: in("c"), periodic: in("p"), ticks: in("n"), wakes: in("y"),
		state: in("q", "settings"), rate: in("q", "rate"),
	}
}

// withInts and withString return a new key: prefix, and what follows.
func withInts(prefix []byte, ints ...int64) []byte {
	key := make([]byte, len(prefix), len(prefix)+9*len(ints))
	copy(key, prefix)
	for _, i := range ints {
		key = tuple.AppendInt(key, i)
	}
	return key
}

func withString(prefix []byte, s string) []byte {
	return tuple.AppendString(prefix[:len(prefix):len(prefix)], s)
}

// rangeOf is the range of all keys that go on behind a prefix.
func rangeOf(prefix []byte) kv.Range { return subspace.FromBytes(prefix).Range() }

// index returns the key of a job's entry in the index of its state.
func (k *keys) index(j *Job) []byte {
	prefix := k.indexes[j.State]
	switch j.State {
	case Ready:
		return withInts(prefix, j.Priority, j.Place, j.ID)
	case Blocked:
		return withInts(withString(prefix, j.Key), j.Priority, j.Place, j.ID)
	default:
		return withInts(prefix, j.Time, j.ID)
	}
}

// idOf returns the id at the end of an index key of a state.
func (k *keys) idOf(s State, key []byte) (int64, error) {
	rest, ok := key[len(k.indexes[s]):], true
	ints := 2
	switch s {
	case Ready:
		ints = 3
	case Blocked:
		ints = 3
		_, behind, err := tuple.Next(rest)
		rest, ok = behind, err == nil
	}
	var id int64
	for i := 0; ok && i < ints; i++ {
		id, rest, ok = tuple.NextInt(rest)
	}
	if !ok || len(rest) > 0 {
		return 0, corrupt(key, "it is no entry of a %s job", s)
	}
	return id, nil
}

// timeOf returns the time at the beginning of a key of an index that is ordered by time.
func timeOf(index, key []byte) (int64, error) {
	t, _, ok := tuple.NextInt(key[len(index):])
	if !ok {
		return 0, corrupt(key, "it does not begin with a time")
	}
	return t, nil
}

// IsHeader tells whether a key is that of a job's header.
func (k *keys) IsHeader(key []byte) bool { return bytes.HasPrefix(key, k.headers) }
