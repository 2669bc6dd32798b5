package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

const (
	few       = 10 // items in a short queue
	inARound  = few / 2
	depthBar  = 1.3
	levelsBar = 1.5
)

// leastTime is how long a verb is measured: in a few milliseconds, which a thousand peeks take,
// one compaction or a neighbour of this machine meets nearly all of them.
const leastTime = 2 * time.Second

// forRounds returns the error for fewer items than a round takes out of a queue.
func (l *limits) forRounds() error {
	if l.items < inARound {
		return usageError{fmt.Errorf("-items %d: at least %d are needed, as many as a round takes", l.items, inARound)}
	}
	return nil
}

// rounds measures a verb on several stages that are open at the same time: each
// round does it some times on each, in an order that changes, so that whatever
// else goes on meets all alike. There are n rounds, or more for leastTime. It returns the
// median of each, in nanoseconds.
func rounds(ctx context.Context, n int, verbs ...verb) ([]float64, error) {
	return roundsUpTo(ctx, n, math.MaxInt, verbs...)
}

// roundsUpTo is rounds, but there are no more than most.
func roundsUpTo(ctx context.Context, n, most int, verbs ...verb) ([]float64, error) {
	all := make([][]time.Duration, len(verbs))
	order := make([]int, len(verbs))
	for i := range order {
		order[i] = i
	}
	for round, first := 0, time.Now(); round < most && (round < n || time.Since(first) < leastTime); round++ {
		for _, i := range rotated(order, round%7) {
			v := verbs[i]
			began := time.Now()
			for range inARound {
				if err := v.op(ctx); err != nil {
					return nil, fmt.Errorf("%s: %w", v.name, err)
				}
			}
			all[i] = append(all[i], time.Since(began)/inARound)
			if err := v.undo(ctx, inARound); err != nil {
				return nil, fmt.Errorf("undoing %s: %w", v.name, err)
			}
		}
	}
	medians := make([]float64, len(all))
	for i, times := range all {
		medians[i] = float64(middle(times))
	}
	return medians, nil
}

// depth compares short queues with long ones, and with those that were.
func depth(ctx context.Context, l *limits, progress io.Writer) (found []finding, err error) {
	if err := l.forRounds(); err != nil {
		return nil, err
	}
	const levels = 1000 // different priorities
	var stages []*stage
	defer func() {
		for _, s := range stages {
			err = errors.Join(err, s.db.Close())
		}
	}()
	for _, state := range []struct {
		name        string
		fill, empty int
	}{{"few", few, 0}, {"many", l.items, 0}, {"taken", l.items + few, l.items}} {
		began := time.Now()
		s, err := newStage(l, state.name, levels)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		if err := errors.Join(s.fill(ctx, state.fill), s.takeOut(ctx, state.empty), settle(ctx, s.dir)); err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%s: %d items in, %d out of each of 3 queues, in %v\n",
			state.name, state.fill, state.empty, time.Since(began).Round(time.Millisecond))
	}
	return eachVerb(ctx, l.rounds, stages, []string{
		fmt.Sprintf("%d items", l.items), fmt.Sprintf("after %d were taken", l.items),
	}, depthBar)
}

// eachVerb compares the first stage with each of the others.
func eachVerb(ctx context.Context, n int, stages []*stage, others []string, bar float64) (found []finding, err error) {
	for i, v := range stages[0].verbs() {
		same := []verb{v}
		for _, s := range stages[1:] {
			same = append(same, s.verbs()[i])
		}
		medians, err := rounds(ctx, n, same...)
		if err != nil {
			return nil, err
		}
		for j, name := range others {
			found = append(found, against(v.name+", "+name, "ns", medians[0], medians[j+1]).atMost(bar))
		}
	}
	return found, nil
}

// priorities compares priority queues with one priority and with as many as items.
func priorities(ctx context.Context, l *limits, progress io.Writer) (found []finding, err error) {
	if err := l.forRounds(); err != nil {
		return nil, err
	}
	var stages []*stage
	defer func() {
		for _, s := range stages {
			err = errors.Join(err, s.db.Close())
		}
	}()
	for _, levels := range []int{1, l.items} {
		began := time.Now()
		s, err := newStage(l, fmt.Sprint("levels", levels, "-", len(stages)), levels)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		next := 0
		distinct := func(ctx context.Context, n int) error {
			a := s.prioritized(n)
			for i := range a {
				// Each once, and out of order: the factor is a prime.
				a[i].Priority = int64(uint64(next) * 2_147_483_647 % uint64(levels))
				next++
			}
			return errors.Join(s.min.PushAll(ctx, a), s.max.PushAll(ctx, a))
		}
		if err := errors.Join(inBulk(ctx, l.items, distinct), settle(ctx, s.dir)); err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%d priorities: filled in %v\n", levels, time.Since(began).Round(time.Millisecond))
	}
	for i, v := range stages[0].verbs() {
		if !slices.Contains([]string{"push", "pop min", "pop max", "peek min", "peek max"}, v.name) {
			continue
		}
		medians, err := rounds(ctx, l.rounds, v, stages[1].verbs()[i])
		if err != nil {
			return nil, err
		}
		found = append(found, against(fmt.Sprintf("%s, %d priorities", v.name, l.items), "ns", medians[0], medians[1]).atMost(levelsBar))
	}
	return found, nil
}
