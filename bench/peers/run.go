package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// settings say what is measured. They are part of the report.
type settings struct {
	Shapes     []shape       `json:"clients"`
	Payload    int           `json:"payload_bytes"`
	Items      int           `json:"items"`
	Time       time.Duration `json:"time_ns"`
	Priorities int           `json:"priorities"`
	Runs       int           `json:"runs"`
	NoTransfer bool          `json:"no_transfer,omitempty"`
}

// shape is how many clients there are.
type shape struct {
	Producers int `json:"producers"`
	Consumers int `json:"consumers"`
}

func (s shape) String() string { return fmt.Sprintf("%dx%d", s.Producers, s.Consumers) }

// measured is what one run of a system came to.
type measured struct {
	Fill     result `json:"fill"`
	Drain    result `json:"drain"`
	Transfer result `json:"transfer"`
	// Empty, Full and Left are bytes of disk: before the first item, after fill, and
	// in the end.
	Empty int64 `json:"disk_empty"`
	Full  int64 `json:"disk_full"`
	Left  int64 `json:"disk_left"`
}

// line is a line of the table.
type line struct {
	Shape   shape      `json:"clients"`
	System  string     `json:"system"`
	Class   class      `json:"class"`
	Crash   string     `json:"process_crash_loses"`
	Outage  string     `json:"power_failure_loses"`
	Missing string     `json:"missing,omitempty"`
	Errors  []string   `json:"errors,omitempty"`
	AtMost  string     `json:"at_most,omitempty"`
	Hands   bool       `json:"hands_over,omitempty"` // see system.hands
	Median  *summary   `json:"median,omitempty"`
	Runs    []measured `json:"runs"`
}

// report is all that was measured.
type report struct {
	Machine machine `json:"machine"`
	settings
	Interrupted bool    `json:"interrupted"`
	Lines       []*line `json:"systems"`
}

// phaser is a peer that wants to know which phase comes next.
type phaser interface {
	begin(ctx context.Context, phase string) error
}

// runAll measures the systems in as many runs as are wanted. When ctx ends early,
// the report has what was measured until then.
func runAll(ctx context.Context, dir string, s settings, all []system, progress io.Writer) *report {
	r := &report{Machine: thisMachine(dir), settings: s}
	type turn struct {
		line   *line
		system system
	}
	var turns []turn
	for _, shape := range s.Shapes {
		for _, sys := range all {
			l := newLine(shape, sys, s.Items)
			r.Lines = append(r.Lines, l)
			if l.Missing == "" {
				turns = append(turns, turn{l, sys})
			}
		}
	}
	for run := range s.Runs {
		for i, t := range rotated(turns, run) {
			fmt.Fprintf(progress, "run %d of %d, %d of %d: %s %s\n", run+1, s.Runs, i+1, len(turns), t.line.Shape, t.system.name)
			m, err := measureIn(ctx, dir, s, t.line.Shape, t.system)
			switch {
			case ctx.Err() != nil:
				r.Interrupted = true
			case err != nil:
				t.line.Errors = append(t.line.Errors, err.Error())
				fmt.Fprintf(progress, "%s: %v\n", t.system.name, err)
			default:
				t.line.Runs = append(t.line.Runs, m)
			}
			if r.Interrupted {
				r.summarize()
				return r
			}
		}
	}
	r.summarize()
	return r
}

func newLine(shape shape, sys system, items int) *line {
	l := &line{
		Shape: shape, System: sys.name, Class: sys.class, Crash: sys.crash, Outage: sys.outage, Hands: sys.hands, Runs: []measured{},
	}
	if sys.atMost > 0 && sys.atMost < items {
		l.AtMost = fmt.Sprintf("%d items: %s", sys.atMost, sys.whyAtMost)
	}
	if sys.missing != nil {
		l.Missing = sys.missing()
	}
	return l
}

func (r *report) summarize() {
	for _, l := range r.Lines {
		if len(l.Runs) > 0 {
			l.Median = summarize(l.Runs)
		}
	}
}

// failed tells whether a system could not be measured that was there.
func (r *report) failed() bool {
	for _, l := range r.Lines {
		if len(l.Errors) > 0 {
			return true
		}
	}
	return r.Interrupted
}

// measureIn measures a system in a directory that is gone afterwards.
func measureIn(ctx context.Context, base string, s settings, shape shape, sys system) (m measured, err error) {
	dir, err := os.MkdirTemp(base, strings.ReplaceAll(sys.name, "/", "-")+"-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	// A server may run as another user.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(data, 0o755)); err != nil {
		return m, err
	}
	w := &measurement{settings: s, system: sys, dir: data}
	if sys.atMost > 0 {
		w.Items = min(s.Items, sys.atMost)
	}
	e := env{
		dir: data, producers: shape.Producers, consumers: shape.Consumers,
		payload: s.Payload, priorities: s.Priorities, items: w.Items + warmUp*shape.Producers,
	}
	if w.peer, err = sys.open(ctx, e); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	ctx, why := whileAlive(ctx, w.peer)
	if err = w.connect(ctx, shape); err == nil {
		m, err = w.measure(ctx)
	}
	return m, why(err)
}

// measurement is that of one system.
type measurement struct {
	settings
	system    system
	dir       string
	peer      peer
	producers []client
	consumers []client
}

func (w *measurement) connect(ctx context.Context, shape shape) error {
	for i := range shape.Producers + shape.Consumers {
		c, err := w.peer.client(ctx)
		if err != nil {
			return err
		}
		if i < shape.Producers {
			w.producers = append(w.producers, c)
		} else {
			w.consumers = append(w.consumers, c)
		}
	}
	return nil
}

func (w *measurement) close() error {
	var all []error
	for _, c := range w.producers {
		all = append(all, c.close())
	}
	for _, c := range w.consumers {
		all = append(all, c.close())
	}
	return errors.Join(errors.Join(all...), w.peer.close())
}

// warmUp is how many items each producer puts before anything is measured, so
// that connections are there, and statements prepared.
const warmUp = 10

func (w *measurement) measure(ctx context.Context) (m measured, err error) {
	noise := newNoise(w.Payload)
	fresh := func(limit int) *items { return newItems(noise, w.Payload, limit) }
	warm := warmUp * len(w.producers)
	if _, err = w.phase(ctx, "warm-up", fresh(warm), warm, 0); err != nil {
		return m, err
	}
	m.Empty = diskUse(w.dir)
	filled := fresh(w.Items)
	if m.Fill, err = w.phase(ctx, "fill", filled, w.Items, 0); err != nil {
		return m, err
	}
	m.Full = diskUse(w.dir)
	if m.Drain, err = w.phase(ctx, "drain", filled, 0, m.Fill.Items); err != nil {
		return m, err
	}
	if !w.NoTransfer {
		if m.Transfer, err = w.phase(ctx, "transfer", fresh(w.Items), w.Items, 0); err != nil {
			return m, err
		}
	}
	m.Left = diskUse(w.dir)
	return m, nil
}

// patience is how much longer than the time of a fill a phase may take.
const patience = 40

// phase runs one phase: which clients work follows from its name.
func (w *measurement) phase(ctx context.Context, name string, items *items, limit, present int) (result, error) {
	if p, ok := w.peer.(phaser); ok {
		if err := p.begin(ctx, name); err != nil {
			return result{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	producers, consumers := w.producers, w.consumers
	switch name {
	case "fill":
		consumers = nil
	case "drain":
		producers = nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience*w.Time+starting)
	defer cancel()
	runtime.GC() // not of what came before
	p := &phase{
		name: name, items: items, limit: limit, present: present, until: time.Now().Add(w.Time),
		system: w.system, priorities: w.Priorities,
		cpu: func() time.Duration { return cpuTime() + processTime(w.peer.pid()) },
	}
	return p.run(ctx, producers, consumers)
}
