package queues

import (
	"context"
	"slices"
	"sync"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"golang.org/x/sync/errgroup"
)

// Bounds of looking at many queues.
const (
	perRead  = 50 // queues in one transaction
	parallel = 8  // transactions at once
)

// HavePeriodic returns which work queues have periodic jobs. It reads one key of each, and opens none: few of many have any.
func (s *Set) HavePeriodic(ctx context.Context, names []string) (map[string]bool, error) {
	var mu sync.Mutex
	have := make(map[string]bool)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for some := range slices.Chunk(names, perRead) {
		group.Go(func() error {
			return s.db.ReadTransact(ctx, func(r kv.Reader) error {
				for _, name := range some {
					has, err := jobs.NewQueue(name, s.db.Limits(), jobs.Config{}).HasPeriodic(r)
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
