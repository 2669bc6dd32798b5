package staging

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// fate is what happens to a client at one of its transactions.
type fate int

const (
	diesBefore fate = iota // the client stops for ever, nothing is committed
	diesAfter              // it stops, and the transaction is committed
	unknownDropped
	unknownApplied
)

var fates = map[fate]string{
	diesBefore: "dies before the commit", diesAfter: "dies after the commit",
	unknownDropped: "unknown, dropped", unknownApplied: "unknown, applied",
}

func (f fate) dies() bool    { return f <= diesAfter }
func (f fate) applied() bool { return f == diesAfter || f == unknownApplied }

var (
	errDead = errors.New("client is dead")
	errStop = errors.New("not committed")
)

// mortal is a store as one client sees it, whose fate comes at its transaction
// number at.
type mortal struct {
	kv.DB
	at   int // from 1 on; 0 is never
	fate fate

	before func(n int) // called before the nth transaction, if not nil
	died   func()      // called if the client dies after a commit, if not nil

	one  sync.Once
	turn chan struct{} // holds one: a client has several goroutines, but the test one fate for it
	n    int
	dead atomic.Bool
	hit  string          // name of the transaction number at
	ops  map[string]bool // operation ids of the client
}

func (m *mortal) Limits() kv.Limits {
	l := m.DB.Limits()
	l.UnknownCommits = l.UnknownCommits || !m.fate.dies()
	return l
}

func (m *mortal) Transact(ctx context.Context, f func(kv.Tx) error) error {
	m.one.Do(func() { m.turn = make(chan struct{}, 1) })
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.dead.Load() {
		return errDead
	}
	m.n++
	n := m.n
	if m.before != nil {
		m.before(n)
	}
	var r *recorder
	err := m.DB.Transact(ctx, func(tx kv.Tx) error {
		r = &recorder{Tx: tx}
		err := f(r)
		if err == nil && n == m.at && !m.fate.applied() && (m.fate.dies() || r.wrote()) {
			err = errStop
		}
		return err
	})
	name := "nothing: it fails"
	if err == nil || errors.Is(err, errStop) {
		name = m.stepName(r)
	}
	if n != m.at {
		return err
	}
	m.hit = name
	if m.fate.dies() {
		m.dead.Store(true)
		if err == nil && m.died != nil {
			m.died()
		}
		return errDead
	}
	if r != nil && r.wrote() && (err == nil || errors.Is(err, errStop)) {
		return kv.ErrCommitUnknown
	}
	return err
}

// recorder is a transaction whose writes are noted.
type recorder struct {
	kv.Tx
	sets, clears, conflicts []string
}

func (r *recorder) wrote() bool { return len(r.sets)+len(r.clears) > 0 }

func (r *recorder) Set(key, value []byte) {
	r.sets = append(r.sets, string(key))
	r.Tx.Set(key, value)
}

func (r *recorder) Clear(key []byte) {
	r.clears = append(r.clears, string(key))
	r.Tx.Clear(key)
}

func (r *recorder) ClearRange(span kv.Range) {
	r.clears = append(r.clears, string(span.Begin))
	r.Tx.ClearRange(span)
}

func (r *recorder) AddReadConflict(span kv.Range) {
	r.conflicts = append(r.conflicts, string(span.Begin))
	r.Tx.AddReadConflict(span)
}

// within returns the tuples of those keys that are in a subspace.
func within(keys []string, space subspace.Subspace) (all []tuple.Tuple) {
	for _, key := range keys {
		if t, err := space.Unpack([]byte(key)); err == nil && strings.HasPrefix(key, string(space.Bytes())) {
			all = append(all, t)
		}
	}
	return all
}

// ofKind returns the operation ids of those keys of a stage that are of a kind
// and have so many elements.
func ofKind(keys []string, kind int64, elements int) (ops []string) {
	for _, t := range within(keys, subspace.Named("stage")) {
		if t[0] == kind && len(t) == elements {
			ops = append(ops, string(t[map[int64]int{requestKind: 3, resultKind: 2}[kind]].([]byte)))
		}
	}
	return ops
}

// stepName tells which step of the protocol a transaction was.
func (m *mortal) stepName(r *recorder) string {
	queue := subspace.Named("q")
	role := string(keys{subspace.Named("stage").Bytes()}.kind(fulfillerKind))
	registered, cleared := ofKind(r.sets, requestKind, 4), ofKind(r.clears, requestKind, 4)
	mine := slices.ContainsFunc(cleared, func(op string) bool { return m.ops[op] })
	switch {
	case len(registered) > 0:
		if m.ops == nil {
			m.ops = map[string]bool{}
		}
		m.ops[registered[0]] = true
		return "register"
	case slices.Contains(r.clears, role):
		return "resign"
	case len(ofKind(r.clears, resultKind, 3)) > 0 && len(within(r.sets, queue)) > 0:
		return "expire"
	case len(ofKind(r.clears, resultKind, 3)) > 0:
		return "collect"
	case mine && len(ofKind(r.conflicts, requestKind, 4)) == 0:
		return "withdraw"
	case slices.Contains(r.sets, role) && len(m.ops) > 0 && len(within(r.clears, queue)) == 0:
		return "take over"
	case len(cleared) > 0 && slices.Contains(r.sets, role):
		return "fulfil own and others"
	case len(cleared) > 0:
		return "serve"
	case slices.Contains(r.sets, role) || len(within(r.clears, queue)) > 0:
		return "fulfil own"
	}
	return "look"
}
