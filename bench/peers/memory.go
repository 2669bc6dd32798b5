package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv/embedded"
	"golang.org/x/sync/errgroup"
)

const (
	residentBar = 300 // MB
	diskBar     = 0.05
)

// memory has processes fill a queue, drain it, tell what is in it, and let the
// store settle, and measures their memory and the disk.
func memory(ctx context.Context, l *limits, progress io.Writer) ([]finding, error) {
	store := filepath.Join(l.temp, "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		return nil, err
	}
	var peak int64
	step := func(name string, args ...string) (resident float64, disk int64, err error) {
		began := time.Now()
		resident, most, err := runChild(ctx, store, args...)
		peak, disk = max(peak, most), diskUse(store)
		fmt.Fprintf(progress, "%s: %v, resident %.0f MB, disk %.1f MB\n",
			name, time.Since(began).Round(time.Millisecond), resident, float64(disk)/1e6)
		return resident, disk, err
	}
	part := func(name string) []string {
		return []string{childArgument, name, store, strconv.Itoa(l.items), strconv.Itoa(l.clients), l.durability}
	}
	filled, _, err := step("fill", part("fill")...)
	if err != nil {
		return nil, err
	}
	drained, atEnd, err := step("drain", part("drain")...)
	if err != nil {
		return nil, err
	}
	_, afterStat, err := step("conq stat", childArgument, "conq", "stat", "--store", store)
	if err != nil {
		return nil, err
	}
	_, settled, err := step("settle", part("settle")...)
	if err != nil {
		return nil, err
	}
	mb := func(n int64) float64 { return float64(n) / 1e6 }
	return []finding{
		plain("resident, filling", "MB", filled),
		plain("resident, draining", "MB", drained).atMost(residentBar),
		plain("disk, peak", "MB", mb(peak)),
		against("disk, drained and closed", "MB", mb(peak), mb(atEnd)),
		against("disk, after conq stat", "MB", mb(peak), mb(afterStat)),
		against("disk, settled", "MB", mb(peak), mb(settled)).atMost(diskBar),
	}, nil
}

// runChild runs this program again and returns its greatest resident memory in MB
// and how much disk the store took at most meanwhile.
func runChild(ctx context.Context, store string, args ...string) (resident float64, disk int64, err error) {
	cmd := selfCommand(args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer context.AfterFunc(ctx, func() { killAll(cmd) })()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		disk = max(disk, diskUse(store))
		select {
		case err := <-exited:
			if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
				resident = float64(u.Maxrss) * maxrssUnit / 1e6
			}
			return resident, disk, because(ctx, err)
		case <-look.C:
		}
	}
}

// memoryChild is a step of the measurement in a process of its own. Arguments are
// the step, the directory of the store, the number of items and of clients, and
// the durability.
func memoryChild(ctx context.Context, args []string, _ io.Writer) (err error) {
	if len(args) != 5 {
		return usageError{fmt.Errorf("child %q: it is not meant to be called by hand", args)}
	}
	items, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	clients, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	d, err := embedded.ParseDurability(args[4])
	if err != nil {
		return err
	}
	db, err := embedded.Open(ctx, args[1], embedded.Options{Durability: d})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	q, err := conq.OpenQueue(ctx, db, "queue", conq.Bytes())
	if err != nil {
		return err
	}
	switch args[0] {
	case "fill":
		s := &stage{queue: q, noise: newNoise(128)}
		return inBulk(ctx, items, s.enqueue)
	case "drain":
		return drain(ctx, q, items, clients)
	case "settle":
		return settle(ctx, args[1])
	}
	return usageError{fmt.Errorf("child: unknown step %q", args[0])}
}

// drain has clients take one item a call until there are none, which must be so
// many.
func drain(ctx context.Context, q *conq.Queue[[]byte], items, clients int) error {
	var taken atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range clients {
		all.Go(func() error {
			for {
				switch _, err := q.Dequeue(ctx); {
				case errors.Is(err, conq.ErrEmpty):
					return nil
				case err != nil:
					return err
				}
				taken.Add(1)
			}
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return exactly(items, int(taken.Load()), nil)
}
