package main

import (
	"context"
	"errors"
	"sync"
)

// workers are those of a peer that runs handlers itself: a take gets what a handler was given. They run from the
// beginning of a transfer. In a drain they start with the first take, so that none begins before the clock does.
type workers struct {
	// start has them run. What they do goes to values, which has room for all; closed, it says that they have stopped.
	start func(values chan<- []byte) (stop func(context.Context) error, err error)
	items int // that they may do

	mu     sync.Mutex
	stop   func(context.Context) error // nil if they do not run
	values chan []byte
}

// begin implements phaser.
func (w *workers) begin(ctx context.Context, phase string) error {
	if err := w.rest(ctx); err != nil || phase == "fill" || phase == "drain" {
		return err
	}
	_, err := w.work()
	return err
}

// work has workers run, and returns where they tell what they have done.
func (w *workers) work() (<-chan []byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		return w.values, nil
	}
	values := make(chan []byte, w.items+1)
	stop, err := w.start(values)
	if err != nil {
		return nil, err
	}
	w.stop, w.values = stop, values
	return values, nil
}

// rest stops the workers.
func (w *workers) rest(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	stop := w.stop
	if w.stop = nil; stop == nil {
		return nil
	}
	return stop(ctx)
}

// close stops the workers for good.
func (w *workers) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopping)
	defer cancel()
	return w.rest(ctx)
}

func (w *workers) take(ctx context.Context) ([]byte, error) {
	values, err := w.work()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case value, ok := <-values:
		if !ok {
			return nil, errors.New("its workers have stopped")
		}
		return value, nil
	}
}
