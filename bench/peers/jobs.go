package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// jobSystems are queues whose items come back when a worker dies, and conq's queue, whose items do not.
func jobSystems() []system {
	queues := slices.DeleteFunc(conqSystems(), func(s system) bool { return s.priority || s.class == none })
	return slices.Concat(queues, conqWorkSystems(), goqiteSystems(), beanstalkdSystems(), redisJobSystems(), riverSystems())
}

// compareJobs measures them: jobs are put, then reserved and acknowledged.
func compareJobs(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := &options{settings: settings{Priorities: 1, NoTransfer: true}}
	f := newFlags("jobs", stderr)
	f.StringVar(&o.producers, "workers", "1,16,64", "numbers of workers that put jobs, and then do them, separated by commas")
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: peers jobs [flags]: jobs that are put, then reserved and acknowledged, by conq and others")
		f.PrintDefaults()
	}
	if err := o.parse(f, args); err != nil {
		return err
	}
	return o.measure(ctx, jobSystems(), stdout, stderr, (*report).printJobs)
}

// printJobs writes the report as text.
func (r *report) printJobs(w io.Writer) {
	fmt.Fprintf(w, "%s\n%d-byte jobs, at most %d, or as many as are put in %v; medians of %d runs\n\n", r.Machine, r.Payload, r.Items, r.Time, r.Runs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "workers\tsystem\tsurvives\tput/s\tdone/s\tput µs\treserve and acknowledge µs\tCPU s/M\n")
	for _, l := range r.Lines {
		fmt.Fprintf(t, "%d\t%s\t%s\t", l.Shape.Producers, l.System, l.Class)
		if m := l.Median; m != nil {
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%.1f\n", short(m.Fill), short(m.Drain), m.FillPut, m.DrainTake, m.CPU)
		} else {
			fmt.Fprintln(t, l.why())
		}
	}
	_ = t.Flush() // as the writes before
	r.notes(w)
	fmt.Fprintln(w)
	printFindings(w, r.jobFindings())
	if r.Interrupted {
		fmt.Fprintln(w, "\nInterrupted: not all was measured.")
	}
}

// jobBars are how many times as fast as another system conq's work queue is to be, of the same class, with 16 workers and more.
var jobBars = []struct {
	system    string
	put, done float64
}{
	{"conq-queue/always", 0.7, 0.4},
	{"beanstalkd/f0", 4, 4},
	{"redis-stream-pipelined/always", 1, 1.3},
	{"river", 5, 5},
	{"asynq/always", 2, 4},
	{"goqite/full", 10, 10},
	{"beanstalkd/default", 1.2, 1.2},
	{"redis-stream-pipelined/everysec", 1, 0.8},
	{"asynq/everysec", 1, 1},
}

// barsWith is with how many workers the bars hold.
const barsWith = 16

// jobFindings compares conq's work queue with all others that were measured with as many workers.
func (r *report) jobFindings() (all []finding) {
	for _, own := range r.Lines {
		if !strings.HasPrefix(own.System, "conq-work/") || own.Median == nil {
			continue
		}
		for _, other := range r.Lines {
			if other.Class != own.Class || other.Shape != own.Shape || strings.HasPrefix(other.System, "conq-work") || other.Median == nil {
				continue
			}
			what := func(verb string) string {
				return fmt.Sprintf("%s, %d workers, %s beside %s", verb, own.Shape.Producers, own.System, other.System)
			}
			put := against(what("put"), "/s", other.Median.Fill, own.Median.Fill)
			done := against(what("done"), "/s", other.Median.Drain, own.Median.Drain)
			for _, bar := range jobBars {
				if bar.system == other.System && own.Shape.Producers >= barsWith {
					put, done = put.atLeast(bar.put), done.atLeast(bar.done)
				}
			}
			all = append(all, put, done)
		}
	}
	return all
}
