package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/conq-go/conq/kv/embedded"
	"golang.org/x/sync/errgroup"
)

const allocsBar = 6

// allocs counts heap allocations by conq, with those in the background.
func allocs(ctx context.Context, l *limits, progress io.Writer) (found []finding, err error) {
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval, embedded.Memory} {
		for _, clients := range []int{1, 16, 64} {
			items := l.items
			if d == embedded.Always && clients == 1 {
				items = min(items, 5000) // each takes a sync
			}
			dir := filepath.Join(l.temp, fmt.Sprint(d, clients))
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, err
			}
			more, err := allocsOf(ctx, dir, d, clients, items)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
			fmt.Fprintf(progress, "%v, %d clients\n", d, clients)
		}
	}
	return found, nil
}

func allocsOf(ctx context.Context, dir string, d embedded.Durability, clients, items int) (found []finding, err error) {
	s, err := openStage(dir, d, 100)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	put := func(verb string, ctx context.Context) error {
		if verb == "push" {
			return s.min.Push(ctx, s.value(), s.random())
		}
		return s.queue.Enqueue(ctx, s.value())
	}
	take := func(verb string, ctx context.Context) error {
		var err error
		if verb == "push" {
			_, err = s.min.PopMin(ctx)
		} else {
			_, err = s.queue.Dequeue(ctx)
		}
		return err
	}
	for _, verb := range []string{"enqueue", "push"} {
		var before, between, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := together(ctx, clients, items, func(ctx context.Context) error { return put(verb, ctx) })
		runtime.ReadMemStats(&between)
		if err == nil {
			err = together(ctx, clients, items, func(ctx context.Context) error { return take(verb, ctx) })
		}
		runtime.ReadMemStats(&after)
		if err != nil {
			return nil, err
		}
		an := func(a, b *runtime.MemStats) float64 { return float64(b.Mallocs-a.Mallocs) / float64(items) }
		found = append(found, plain(fmt.Sprintf("%v, %d clients, %s and take (%.1f and %.1f)", d, clients, verb,
			an(&before, &between), an(&between, &after)), "allocations", an(&before, &after)).atMost(allocsBar))
	}
	return found, nil
}

// together has clients call f so many times in all.
func together(ctx context.Context, clients, times int, f func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for c := range clients {
		all.Go(func() error {
			for i := c; i < times; i += clients {
				if err := f(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}
