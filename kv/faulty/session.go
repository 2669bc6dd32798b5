package faulty

import (
	"context"
	"errors"
	"slices"

	"github.com/conq-go/conq/kv"
)

var (
	errAbort = errors.New("faulty: aborted")
	errAgain = errors.New("faulty: the store below tries again")
)

// session is one attempt of a transaction of the store below, taken out of its
// Transact: that runs in a goroutine of its own, where it waits between the
// beginning of the transaction and its end. So the end may come at any time, from
// anywhere.
type session struct {
	tx      kv.Tx
	watched bool // tx.Watch was called

	verdict chan error    // nil commits
	done    chan struct{} // closed when err is final
	err     error

	untie  func() bool // lets the transaction outlive the caller's context
	cancel context.CancelCauseFunc
}

// open begins a transaction. It ends with ctx as long as it is not untied.
func open(ctx context.Context, db kv.DB) (*session, error) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &session{
		verdict: make(chan error, 1), done: make(chan struct{}), cancel: cancel,
		untie: context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }),
	}
	opened := make(chan kv.Tx, 1)
	go s.transact(own, db, opened)
	select {
	case s.tx = <-opened:
		return s, nil
	case <-s.done:
		s.release()
		return nil, s.err
	}
}

// transact is the life of the session. Transact would run a function again whose
// attempt failed. That is for the wrapper to do, which has to know why: ending
// the context then gives an error that tells whether there was a conflict.
func (s *session) transact(ctx context.Context, db kv.DB, opened chan<- kv.Tx) {
	defer close(s.done)
	ran := false
	err := db.Transact(ctx, func(tx kv.Tx) error {
		if ran {
			s.cancel(errAgain)
			return context.Cause(ctx)
		}
		ran = true
		opened <- tx
		return <-s.verdict
	})
	switch {
	case !errors.Is(err, errAgain):
		s.err = err
	case errors.Is(err, kv.ErrConflict):
		s.err = kv.ErrConflict
	default: // the only other reason to try again
		s.err = kv.ErrTooOld
	}
}

// finish commits, or aborts with an error, and returns how that ended. It may be
// called once.
func (s *session) finish(verdict error) error {
	s.verdict <- verdict
	<-s.done
	if verdict != nil || s.err != nil || !s.watched {
		s.release()
	}
	return s.err
}

// release lets go of the contexts, which only watches need for longer.
func (s *session) release() {
	s.untie()
	s.cancel(nil)
}

// held is a commit that is late.
type held struct {
	session *session
	due     uint64 // the step at which it is let go; 0 for none
}

// hold keeps the commit of s back.
func (db *DB) hold(s *session, after int) {
	s.untie()
	db.mu.Lock()
	db.stats.Late++
	if db.closed {
		db.mu.Unlock()
		db.lose(s)
		return
	}
	defer db.mu.Unlock()
	h := held{session: s}
	if after > 0 {
		h.due = db.step + uint64(after)
	}
	db.held = append(db.held, h)
}

// tick makes a step, and lets those commits go that are due.
func (db *DB) tick() {
	db.mu.Lock()
	db.step++
	var due []held
	db.held = slices.DeleteFunc(db.held, func(h held) bool {
		now := h.due != 0 && h.due <= db.step
		if now {
			due = append(due, h)
		}
		return now
	})
	db.mu.Unlock()
	for _, h := range due {
		db.land(h.session)
	}
}

// Flush lets all commits go that are held back. They have been applied, or
// refused by the store because of conflicts or their age, when it returns.
func (db *DB) Flush() {
	for _, h := range db.takeHeld() {
		db.land(h.session)
	}
}

// takeHeld returns what is held back, for the caller to decide on.
func (db *DB) takeHeld() []held {
	db.mu.Lock()
	defer db.mu.Unlock()
	all := db.held
	db.held = nil
	return all
}

// land commits what was held back.
func (db *DB) land(s *session) {
	err := s.finish(nil)
	db.count(func(st *Stats) {
		if err == nil {
			st.Landed++
		} else {
			st.Lost++
		}
	})
}

// lose aborts what was held back.
func (db *DB) lose(s *session) {
	_ = s.finish(errAbort) // which is what it returns
	db.count(func(st *Stats) { st.Lost++ })
}
