package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/conq-go/conq/internal/cli"
	"github.com/conq-go/conq/kv/embedded"
)

// special is a measurement of conq alone.
type special struct {
	about string
	flags func(*flag.FlagSet, *limits) // sets defaults
	run   func(context.Context, *limits, io.Writer) ([]finding, error)
}

// limits are what flags say of a special measurement. Each uses some of them.
type limits struct {
	items, rounds, clients, payload int
	durability, dir                 string
	json                            bool

	of   embedded.Durability
	temp string // a directory
}

// finding is a figure, and what it was to be.
type finding struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Base  float64 `json:"base"` // 0 if there is nothing to compare with
	Value float64 `json:"value"`
	Ratio float64 `json:"ratio"` // of value to base, or the value
	Most  float64 `json:"at_most,omitempty"`
	Least float64 `json:"at_least,omitempty"`
}

// against makes a finding of a ratio.
func against(what, unit string, base, value float64) finding {
	return finding{What: what, Unit: unit, Base: base, Value: value, Ratio: ratio(value, base)}
}

// plain makes a finding of a value.
func plain(what, unit string, value float64) finding {
	return finding{What: what, Unit: unit, Value: value, Ratio: value}
}

func (f finding) atMost(v float64) finding  { f.Most = v; return f }
func (f finding) atLeast(v float64) finding { f.Least = v; return f }

// verdict says what the bar was and whether it was reached.
func (f finding) verdict() string {
	switch {
	case f.Most > 0 && f.Ratio <= f.Most:
		return fmt.Sprintf("at most %v: yes", f.Most)
	case f.Most > 0:
		return fmt.Sprintf("at most %v: NO", f.Most)
	case f.Least > 0 && f.Ratio >= f.Least:
		return fmt.Sprintf("at least %v: yes", f.Least)
	case f.Least > 0:
		return fmt.Sprintf("at least %v: NO", f.Least)
	}
	return ""
}

func printFindings(w io.Writer, all []finding) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "what\tbase\tvalue\tunit\tratio\tbar\n")
	for _, f := range all {
		base, by := "", ""
		if f.Base != 0 {
			base, by = short(f.Base), fmt.Sprintf("%.2f", f.Ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", f.What, base, short(f.Value), f.Unit, by, f.verdict())
	}
	_ = t.Flush() // as the writes before
}

func allSpecials() map[string]special {
	return map[string]special{
		"depth": {"each verb at 10 and at N items, and after N were taken", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "items", 10_000_000, "N")
			f.IntVar(&l.rounds, "rounds", 1000, "rounds, which meet all states, and of which the medians are taken")
			durabilityFlag(f, l, "memory")
		}, depth},
		"priorities": {"each verb of a priority queue with 1 and with N distinct priorities", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "items", 1_000_000, "N, which is also the number of items in either queue")
			f.IntVar(&l.rounds, "rounds", 1000, "rounds, which meet both queues, and of which the medians are taken")
			durabilityFlag(f, l, "memory")
		}, priorities},
		"queues": {"opening a store of N queues of 10 items, and operations there", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "queues", 100_000, "N")
			f.IntVar(&l.rounds, "rounds", 15, "times that either store is opened")
			durabilityFlag(f, l, "memory")
		}, manyQueues},
		"payload": {"large items against raw Pebble, bytes a second", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "items", 300, "items that go through a phase")
			f.IntVar(&l.payload, "payload", 1<<20, "bytes of an item")
			f.IntVar(&l.clients, "clients", 16, "concurrent clients of a kind")
			f.IntVar(&l.rounds, "rounds", 5, "rounds, of which the medians are taken")
			durabilityFlag(f, l, "always")
		}, payload},
		"memory": {"resident memory of a process that drains N items, and the disk it leaves", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "items", 10_000_000, "N")
			f.IntVar(&l.clients, "clients", 16, "concurrent consumers")
			durabilityFlag(f, l, "interval")
		}, memory},
		"allocs": {"heap allocations an item in a fill and a drain together", func(f *flag.FlagSet, l *limits) {
			f.IntVar(&l.items, "items", 50_000, "items of each case")
		}, allocs},
	}
}

func durabilityFlag(f *flag.FlagSet, l *limits, value string) {
	f.StringVar(&l.durability, "durability", value, "of the store: always, interval, memory")
}

func specialNames() string {
	all := specials()
	delete(all, childArgument)
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// specials are the functions that are called by the first argument.
func specials() map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	all := map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
		childArgument: child,
		"jobs":        compareJobs,
	}
	for name, s := range allSpecials() {
		all[name] = func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
			return s.measure(ctx, name, args, stdout, stderr)
		}
	}
	return all
}

func (s special) measure(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	l := &limits{rounds: 1, clients: 1, payload: 128, durability: "memory"}
	f := newFlags(name, stderr)
	f.StringVar(&l.dir, "dir", "", "where temporary directories are made (default: the system's)")
	f.BoolVar(&l.json, "json", false, "print JSON instead of the table")
	s.flags(f, l)
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: peers %s [flags]: %s\n", name, s.about)
		f.PrintDefaults()
	}
	if err := parse(f, args); err != nil {
		return err
	}
	var err error
	if l.of, err = embedded.ParseDurability(l.durability); err != nil {
		return usageError{err}
	}
	if l.items < 1 || l.rounds < 1 || l.clients < 1 || l.payload < 1 || l.payload > 4<<20 {
		return usageError{errors.New("numbers must be positive, and -payload at most 4194304")}
	}
	return inTemp(l.dir, func(dir string) error {
		l.temp = dir
		where := thisMachine(dir)
		found, err := s.run(ctx, l, stderr)
		if err != nil {
			return err
		}
		if l.json {
			return printJSON(stdout, map[string]any{"machine": where, "measured": name, "findings": found})
		}
		about := s.about
		if f.Lookup("durability") != nil { // else it measures several, or none
			about += ", durability " + l.durability
		}
		return printText(stdout, func(w io.Writer) {
			fmt.Fprintf(w, "%s\n%s\n\n", where, about)
			printFindings(w, found)
		})
	})
}

// childArgument has this program be the process that a measurement needs.
const childArgument = "child"

func child(ctx context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) > 0 && args[0] == "conq" {
		os.Args = args // where it looks for them
		if code := cli.Main(); code != 0 {
			return fmt.Errorf("conq: exit code %d", code)
		}
		return nil
	}
	return memoryChild(ctx, args, stdout)
}
