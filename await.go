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
	if t.line != nil {
		return t.takeInLine(ctx, p)
	}
	news = t.s.signals.Wait(t.s.name) // before looking
	shares, err := t.shares(ctx, demand[V]{party: p})
	if err != nil {
		return nil, nil, err
	}
	if got, err = gotten(shares); err == nil && len(got) == 0 {
		err = t.lookAgain(ctx)
	}
	return got, news, err
}

// gotten returns what the first callers got, and the error of the next one unless
// it is that there is nothing.
func gotten[V any](shares []share[V]) (got [][]V, err error) {
	for _, s := range shares {
		if s.err != nil && !errors.Is(s.err, ErrEmpty) {
			return got, s.err
		}
		if s.err != nil {
			break
		}
		got = append(got, s.values)
	}
	return got, nil
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
