package handle

import (
	"context"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
)

// wait takes up to n items, and waits until there is at least one.
func (t *taker) wait(ctx context.Context, n int) ([]Item, error) {
	if err := t.check(ctx, n); err != nil {
		return nil, err
	}
	return t.list.Wait(ctx, n)
}

// takeForWaiting is what the list calls: it takes items for callers that wait, and
// tells when to look again if there are too few.
func (t *taker) takeForWaiting(ctx context.Context, p *waiters) (got [][]Item, news <-chan error, err error) {
	if t.line != nil {
		return t.takeInLine(ctx, p)
	}
	news = t.q.signals.WaitAs(t.q.name, t) // before looking
	shares, err := t.serve(ctx, demand{waiters: p})
	if err != nil {
		return nil, nil, err
	}
	if got, err = gotten(shares); err == nil && len(got) == 0 {
		err = t.lookAgain(ctx)
	}
	return got, news, err
}

// lookAgain has waiters look again soon if there are staged items: they may come
// back to the queue without an enqueue.
func (t *taker) lookAgain(ctx context.Context) error {
	if !t.q.mayBeStaged() {
		return nil
	}
	return reads.View(ctx, t.q.db, func(r kv.Reader) error {
		active, err := t.stage.Active(r)
		if active {
			t.q.signals.NotifyAfter(t.q.name, pollTime)
		}
		return err
	})
}
