package watch

import (
	"context"
	"slices"
	"sync"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"golang.org/x/sync/errgroup"
)

// HavePeriodic returns which of some work queues have periodic jobs. It reads one key of each, and opens none: few of many have any.
func HavePeriodic(ctx context.Context, db kv.DB, names []string) (map[string]bool, error) {
	var mu sync.Mutex
	have := make(map[string]bool)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for some := range slices.Chunk(names, perRead) {
		group.Go(func() error {
			return db.ReadTransact(ctx, func(r kv.Reader) error {
				for _, name := range some {
					has, err := jobs.NewQueue(name, db.Limits(), jobs.Config{}).HasPeriodic(r)
					if err != nil {
						return err
					}
					if has {
						mu.Lock()
						have[name] = true
						mu.Unlock()
					}
				}
				return nil
			})
		})
	}
	return have, group.Wait()
}
