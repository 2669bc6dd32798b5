// Package demo is a workload that shows a store at work and checks it: real
// producers and consumers on a FIFO queue, then on a priority queue, then on a work
// queue, whose workers are processes that are killed now and then. Each phase
// leaves some items, the store is closed and opened again, and what was left is
// taken out. Then package audit says from the records of all clients whether
// anything was lost, doubled, invented or out of order.
//
// An item's payload follows from the seed and the item's number, every byte of
// it, so that a damaged item is recognised as one that nobody put.
//
// Each client records its own calls, without sharing; records are joined when
// all have ended. The package knows stores only as kv.DB.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/internal/load"
	"github.com/conq-go/conq/kv"
)

// Config says how to run.
type Config struct {
	// Open opens the store. It is called twice: the second time after the store
	// was closed, and must find what was put before.
	Open func() (kv.DB, error)
	// Items is how many items go through each queue. Default: 0, as many as the
	// time allows.
	Items int
	// Duration is how long each queue is worked on at most. Default: 0, until the
	// items are through. One of Items and Duration must be given.
	Duration time.Duration
	// Producers and Consumers are the numbers of concurrent clients.
	Producers, Consumers int
	// Size is the length of an item in bytes, at least MinSize.
	Size int
	// Seed decides on payloads, priorities and ends.
	Seed uint64
	// Worker returns the command of a process that runs Work. Default: no work queue is worked on.
	Worker func() *exec.Cmd
	// Progress is told now and then how things are. Default: nobody is.
	Progress func(load.Progress)
}

// MinSize is the smallest Size.
const MinSize = 16

// MaxClients is the largest number of producers, or consumers.
const MaxClients = 10_000

// leave is how many items a phase leaves for the reopened store, at least.
const leave = 10

// Check returns the first thing that is wrong with c.
func (c *Config) Check() error {
	switch {
	case c.Items < 0 || c.Duration < 0:
		return fmt.Errorf("%d items, duration %v: neither may be negative", c.Items, c.Duration)
	case c.Items == 0 && c.Duration == 0:
		return errors.New("items or a duration must be given, or it would not end")
	case c.Producers < 1 || c.Producers > MaxClients || c.Consumers < 1 || c.Consumers > MaxClients:
		return fmt.Errorf("%d producers, %d consumers: 1 to %d of each are allowed", c.Producers, c.Consumers, MaxClients)
	case c.Size < MinSize:
		return fmt.Errorf("items of %d bytes: at least %d are needed to tell them apart", c.Size, MinSize)
	}
	return nil
}

// Run runs the workload. An error means that it could not be done; what the
// checks found is in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Progress == nil {
		c.Progress = func(load.Progress) {}
	}
	phases := []part{
		newFIFO(c), newPriority(c),
	}
	if c.Worker != nil {
		phases = append(phases, newJobsPhase(c))
	}
	if err := eachPhase(c.Open, phases, func(p part, db kv.DB) error { return p.work(ctx, db) }); err != nil {
		return nil, err
	}
	if err := eachPhase(c.Open, phases, func(p part, db kv.DB) error { return p.drain(ctx, db) }); err != nil {
		return nil, fmt.Errorf("after the store was reopened: %w", err)
	}
	report := &Report{Seed: c.Seed, Producers: c.Producers, Consumers: c.Consumers, Size: c.Size, OK: true}
	for _, p := range phases {
		result := p.result()
		report.Phases = append(report.Phases, result)
		report.OK = report.OK && result.ok()
	}
	return report, nil
}

// part is the work on one queue.
type part interface {
	title() string
	work(context.Context, kv.DB) error
	drain(context.Context, kv.DB) error // after the store was reopened
	result() Phase
}

// eachPhase does something in each phase, with the store open.
func eachPhase(open func() (kv.DB, error), phases []part, do func(part, kv.DB) error) (err error) {
	db, err := open()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }() // a store that has failed says so again when it is closed
	for _, p := range phases {
		if err := do(p, db); err != nil {
			return fmt.Errorf("%s: %w", p.title(), err)
		}
	}
	return nil
}

// Report is what came out.
type Report struct {
	OK        bool    `json:"ok"`
	Seed      uint64  `json:"seed"`
	Producers int     `json:"producers"`
	Consumers int     `json:"consumers"`
	Size      int     `json:"item_bytes"`
	Phases    []Phase `json:"phases"`
}

// Phase is what came out of the work on one queue.
type Phase struct {
	Name    string     `json:"name"`
	Seconds float64    `json:"seconds"`
	Put     load.Calls `json:"put"`
	Take    load.Calls `json:"take"`
	// Reopened is how many items were taken after the store was reopened.
	Reopened int `json:"reopened"`
	// Killed is how many worker processes were killed while they had a job.
	Killed int `json:"killed,omitempty"`
	// Empty is how many takes found nothing.
	Empty  int             `json:"empty"`
	Checks []audit.Finding `json:"checks"`
}

func (p *Phase) ok() bool {
	for _, check := range p.Checks {
		if check.Broken > 0 {
			return false
		}
	}
	return true
}
