package handle

import "context"

// wait takes up to n items, and waits until there is at least one.
func (t *taker) wait(ctx context.Context, n int) ([]Item, error) {
	if err := t.q.checkCount(n); err != nil {
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
	got, err = gotten(shares)
	return got, news, err
}
