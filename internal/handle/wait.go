package handle

import "context"

// wait takes up to n items, and waits until there is at least one.
func (t *taker) wait(ctx context.Context, n int) ([]Item, error) {
	if err := t.q.checkCount(n); err != nil {
		return nil, err
	}
	return t.waiters.Wait(ctx, n)
}

// takeForWaiters takes items for callers that wait, and tells when to try again if there are too few.
func (t *taker) takeForWaiters(ctx context.Context, w *waiting) (got [][]Item, watch <-chan error, err error) {
	if t.line != nil {
		return t.takeInLine(ctx, w)
	}
	watch = t.q.signals.WaitAs(t.q.name, t) // before it looks
	results, err := t.serve(ctx, request{waiting: w})
	if err != nil {
		return nil, nil, err
	}
	got, err = gotten(results)
	return got, watch, err
}
