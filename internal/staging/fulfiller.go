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
// the key (0).
//
//   - A client that finds nobody there takes the role, in the transaction in which it takes its own
//     items. So a lone client needs one transaction. If that has conflicted, it takes the role in the
//     one that writes its request, which conflicts with no others that take.
//   - From then on a goroutine serves what others ask for. It gives the role up when nothing was asked
//     for for lingering, in a transaction that conflicts with whoever registers.
//   - If the first of all requests stays the same for Options.Takeover, its client takes the role, or
//     one behind it. No clock tells that somebody has died.
//
// Nothing depends on the role but speed: two that fulfil at the same time conflict on what they serve.

const (
	// lingering is how long the fulfiller waits for requests until it gives the role up: longer than
	// clients take that come back at once, shorter than StagingAuto stages.
	lingering = 50 * time.Millisecond
	// lookEvery is how often it looks for requests of others meanwhile.
	lookEvery = 2 * time.Millisecond
)

// role is who fulfils.
type role int

const (
	vacant role = iota
	others
	own // this process does
)

// fulfiller is the part of a process in the role. It has a goroutine while it has it.
type fulfiller struct {
	id      []byte
	busy    chan struct{} // holds one: a transaction that fulfils is under way
	serving bool          // the goroutine runs
	last    time.Time     // when something was served
}

// role reads who fulfils. Whoever takes the role or gives it up conflicts.
func (s *Stage) role(r kv.Reader) (role, error) {
	key := s.keys.kind(fulfillerKind)
	value, err := r.Get(key)
	if err != nil || value == nil {
		return vacant, err
	}
	id, err := parseFulfiller(kv.KeyValue{Key: key, Value: value})
	if bytes.Equal(id, s.fulfiller.id) {
		return own, err
	}
	return others, err
}

// assume takes the role, unless this process has it.
func (s *Stage) assume(tx kv.Tx, now role) {
	if now != own {
		tx.Set(s.keys.kind(fulfillerKind), tuple.AppendBytes(nil, s.fulfiller.id))
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

// fulfilled tells those of this process who wait what was served, and has the goroutine go on if this
// process has the role.
func (s *Stage) fulfilled(f fulfilled) {
	for _, op := range f.ops {
		s.o.News.Notify(string(op))
	}
	s.mu.Lock()
	if f.role && !s.fulfiller.serving {
		s.fulfiller.serving = true
		s.taking++ // Close waits for it; the client is there yet
		go s.serve()
	}
	if f.role {
		s.fulfiller.last = time.Now()
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
	for s.requested() {
		for {
			f, err := s.serveSome()
			if err != nil {
				s.stopServing()
				return
			}
			if len(f.ops) == 0 {
				break
			}
			s.fulfilled(f)
		}
	}
}

// requested returns true when there are requests, or false when the role was given up as none came. It
// keeps no caller of this process from fulfilling.
func (s *Stage) requested() bool {
	for {
		there, err := s.anyRequest()
		switch {
		case err != nil:
			s.stopServing()
			return false
		case there:
			return true
		case s.isClosed() != nil || s.idleFor() > lingering:
			return !s.resign()
		}
		select {
		case <-time.After(lookEvery):
		case <-s.closing:
		}
	}
}

// anyRequest tells whether there is a request.
func (s *Stage) anyRequest() (there bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err = s.db.ReadTransact(ctx, func(r kv.Reader) error {
		there, err = some(r, s.requestsRead(1))
		return err
	})
	return there, err
}

// serves tells whether this process has the role, as far as it knows.
func (s *Stage) serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fulfiller.serving
}

func (s *Stage) stopServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fulfiller.serving = false
}

// idleFor returns for how long nothing was served.
func (s *Stage) idleFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.fulfiller.last)
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
		return f, s.expire(ctx)
	}
	return f, err
}

func (s *Stage) serveIn(limit, most int) (fulfilled, error) {
	return inRole(s, func(tx kv.Tx) (f fulfilled, err error) {
		kv.Prefetch(tx.Snapshot(), s.expectedReads(limit)...)
		now, err := s.role(tx)
		if err == nil && now != own {
			err = errLost
		}
		if err != nil {
			return f, err
		}
		requests, err := s.requests(tx, limit)
		if err != nil || len(requests) == 0 {
			return f, err
		}
		f, _, err = s.fulfil(tx, requests, most, nil)
		return f, err
	})
}

// resign gives the role up, unless there is a request.
func (s *Stage) resign() bool {
	gone, err := inRole(s, func(tx kv.Tx) (gone bool, err error) {
		for _, err := range tx.Range(s.keys.all(requestKind), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
			return false, err
		}
		now, err := s.role(tx)
		if err == nil && now == own {
			tx.Clear(s.keys.kind(fulfillerKind))
		}
		return err == nil, err
	})
	if gone || err != nil {
		s.stopServing()
	}
	return gone || err != nil
}

// inRole runs a transaction of the goroutine that serves.
func inRole[T any](s *Stage, f func(kv.Tx) (T, error)) (T, error) {
	s.fulfiller.busy <- struct{}{}
	defer s.endFulfilling()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return outcome.Do(ctx, s.lanes, f)
}
