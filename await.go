package conq

import (
	"context"
	"errors"
	"time"

	"github.com/conq-go/conq/internal/waitroom"
	"github.com/conq-go/conq/kv"
)

// takeForWaiting is what the room calls: it takes items for those who wait, and
// tells when to look again if there are too few.
func (t *taker[V]) takeForWaiting(ctx context.Context, p *waitroom.Party[V]) (got [][]V, news <-chan error, err error) {
	if t.s.signals != nil {
		news = t.s.signals.Wait(t.s.name) // before looking
	}
	shares, err := t.shares(ctx, demand[V]{party: p})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range shares {
		if s.err != nil && !errors.Is(s.err, ErrEmpty) {
			return got, nil, s.err
		}
		if s.err != nil {
			break
		}
		got = append(got, s.values)
	}
	if len(got) == 0 {
		if news == nil {
			news, err = t.watch(ctx)
		} else {
			err = t.lookAgain(ctx)
		}
	}
	return got, news, err
}

// lookAgain has those who wait look again soon if there are staged items: they
// may come back to the queue without anybody enqueuing anything.
func (t *taker[V]) lookAgain(ctx context.Context) error {
	return t.s.db.ReadTransact(ctx, func(r kv.Reader) error {
		active, err := t.stage.Active(r)
		if active {
			time.AfterFunc(pollTime, t.s.notify)
		}
		return err
	})
}

func isUnknown(err error) bool { return errors.Is(err, kv.ErrCommitUnknown) }

// watch returns a channel that is closed when something is enqueued, or at once
// if there is something: it watches the signal in the transaction that finds the
// queue empty, so no news is missed.
func (t *taker[V]) watch(ctx context.Context) (news <-chan error, err error) {
	err = t.s.db.Transact(ctx, func(tx kv.Tx) error {
		for _, err := range t.items(tx, 1) {
			ready := make(chan error)
			close(ready)
			news = ready
			return err
		}
		news = tx.Watch(signalKey(t.s.name))
		return nil
	})
	if errors.Is(err, kv.ErrCommitUnknown) { // it has written nothing
		err = nil
	}
	return news, err
}
