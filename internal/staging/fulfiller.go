package staging

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// The role of the fulfiller: of all processes that stage, the one that has it serves the requests of
// all, one transaction after the other, while the others only wait. It has the role while its id is at
// the key (-1).
//
//   - A client that finds nobody there takes the role, in the transaction in which it takes its own
//     items. So a lone client needs one transaction. If that has conflicted, it takes the role in the
//     one that writes its request, which conflicts with no others that take.
//   - When it has got them, a goroutine goes on to serve what others ask for. It gives the role up when
//     nothing was asked for for lingering, in a transaction that conflicts with whoever registers.
//   - If the first of all requests stays the same for Options.Takeover, its client takes the role, or
//     one behind it.
//
// Nothing depends on the role but speed: two that fulfil at the same time conflict on what they serve.

const (
	// lingering is how long the fulfiller waits for requests until it gives the role up: longer than
	// clients take that come back at once, shorter than StagingAuto stages.
	lingering = 50 * time.Millisecond
	// lookEvery is how often it looks for requests of others meanwhile.
	lookEvery = 2 * time.Millisecond
)

// holder is who has the role.
type holder struct {
	live bool // somebody has it
	own  bool // this process
	old  bool // half of its time is over
}

// fulfiller is the part of a process in the role. It has a goroutine while it has it.
type fulfiller struct {
	id      []byte
	busy    chan struct{} // holds one: a transaction that fulfils is under way
	serving bool          // the goroutine runs
	last    time.Time     // when something was served
	waiting map[string]chan struct{}
}

// holder reads who has the role. Whoever takes it or gives it up conflicts.
func (s *Stage) holder(r kv.Reader) (h holder, err error) {
	key := s.keys.kind(fulfillerKind)
	value, err := r.Get(key)
	if err != nil || value == nil {
		return h, err
	}
	id, deadline, err := parseFulfiller(kv.KeyValue{Key: key, Value: value})
	h.live = err == nil && !s.past(deadline)
	h.own = h.live && bytes.Equal(id, s.fulfiller.id)
	h.old = s.past(deadline - int64(s.o.Lease/2))
	return h, err
}

// hold takes the role, or keeps it.
func (s *Stage) hold(tx kv.Tx, h holder) {
	if !h.own || h.old {
		value := tuple.AppendInt(tuple.AppendBytes(nil, s.fulfiller.id), s.deadline())
		tx.Set(s.keys.kind(fulfillerKind), value)
	}
}

// startFulfilling tells whether nobody else in this process fulfils; then
// endFulfilling has to be called.
func (s *Stage) startFulfilling() bool {
	select {
	case s.fulfiller.busy <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Stage) endFulfilling() { <-s.fulfiller.busy }

// expect returns a channel that is closed when this process has served op.
func (s *Stage) expect(op []byte) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := make(chan struct{})
	s.fulfiller.waiting[string(op)] = served
	return served
}

// tell tells those who expect it that this process has served ops.
func (s *Stage) tell(ops ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		if served, ok := s.fulfiller.waiting[string(op)]; ok {
			close(served)
			delete(s.fulfiller.waiting, string(op))
		}
	}
}

// fulfilledBy notes what a client of this process has served, which has the role since, and has the
// goroutine go on.
func (s *Stage) fulfilledBy(f fulfilled) {
	if len(f.ops) == 0 && !f.claimed {
		return
	}
	s.tell(f.ops...)
	s.mu.Lock()
	s.fulfiller.last = time.Now()
	if !s.fulfiller.serving {
		s.fulfiller.serving = true
		s.taking++ // Close waits for it; the client is there yet
		go s.serve()
	}
	s.mu.Unlock()
	if len(f.ops) > 0 {
		s.o.Observe(Event{Fulfilled, len(f.ops), f.items})
	}
}

// serve serves requests while there are any, or may be soon. If the store fails the role is left to
// whoever has waited for long enough.
func (s *Stage) serve() {
	defer s.end()
	for !s.resigns() {
		for {
			f, err := s.serveSome()
			if err != nil {
				s.stopServing()
				return
			}
			if len(f.ops) == 0 {
				break
			}
			s.fulfilledBy(f)
		}
	}
}

func (s *Stage) stopServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fulfiller.serving = false
}

// errLost means that another process has the role.
var errLost = errors.New("staging: another process fulfils")

// serveSome serves the first requests, if there are any. What is too large for one transaction with the
// bounds of all is tried with one item.
func (s *Stage) serveSome() (fulfilled, error) {
	f, err := s.serveIn(s.o.Requests, s.o.Items)
	if errors.Is(err, kv.ErrTooLarge) {
		f, err = s.serveIn(1, 1)
	}
	if errors.Is(err, errDue) {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		return fulfilled{}, s.expire(ctx)
	}
	return f, err
}

func (s *Stage) serveIn(limit, most int) (fulfilled, error) {
	s.fulfiller.busy <- struct{}{}
	defer s.endFulfilling()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return outcome.Do(ctx, s.lanes, func(tx kv.Tx) (done fulfilled, err error) {
		kv.Prefetch(tx.Snapshot(), s.requestsRead(limit), oneOf(s.keys.all(dueKind), false))
		h, err := s.holder(tx)
		if err == nil && !h.own {
			err = errLost
		}
		if err != nil {
			return done, err
		}
		requests, err := s.requests(tx, limit)
		if err != nil || len(requests) == 0 {
			return done, err
		}
		all, err := s.fulfilIn(tx, requests, most)
		s.hold(tx, h)
		for _, r := range all {
			s.setResult(tx, r)
			done.ops = append(done.ops, r.op)
			done.items += len(r.items)
		}
		return done, err
	})
}

// resigns waits for requests, and gives the role up if none come: then it returns true.
func (s *Stage) resigns() bool {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(lookEvery)
		case <-s.closing:
		}
		there, err := s.anyRequest()
		switch {
		case err != nil:
			s.stopServing()
			return true
		case there:
			return false
		case s.isClosed() != nil || s.idleFor() > lingering:
			return s.resign()
		}
	}
}

// idleFor returns for how long nothing was served.
func (s *Stage) idleFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.fulfiller.last)
}

// anyRequest tells whether there is a request.
func (s *Stage) anyRequest() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var first []byte
	err := s.db.ReadTransact(ctx, func(r kv.Reader) (err error) {
		first, err = s.firstRequest(r)
		return err
	})
	return first != nil, err
}

// resign gives the role up, unless there is a request.
func (s *Stage) resign() bool {
	s.fulfiller.busy <- struct{}{}
	defer s.endFulfilling()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	gone, err := outcome.Do(ctx, s.lanes, func(tx kv.Tx) (gone bool, err error) {
		for _, err := range tx.Range(s.keys.all(requestKind), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
			return false, err
		}
		h, err := s.holder(tx)
		if err == nil && h.own {
			tx.Clear(s.keys.kind(fulfillerKind))
		}
		return err == nil, err
	})
	if gone || err != nil {
		s.stopServing()
	}
	return gone || err != nil
}
