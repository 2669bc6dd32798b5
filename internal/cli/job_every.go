package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const everyLong = `Have a job put again and again. CRON is five fields: minute, hour, day of month,
month, day of week (0 and 7 are Sunday; names as mon do, too). Or it is as "@every 90s",
"@hourly" or "@daily"; "CRON_TZ=Europe/Berlin " in front names a time zone. Each tick
makes one job, while at least one worker of the queue runs, busy or not, or a server.
--overlap says what a tick does while the job of the last one is neither done nor dead:
run makes one more, skip none, and replace deletes it, or cancels it if a worker has
it, and makes one. With --unique a tick whose job is a duplicate makes none.
A periodic job of the same name is changed; with the same CRON it is due when it was.
With the queue alone it lists its periodic jobs.`

const everyExample = `  conq every reports nightly "0 3 * * *" "all of them"
  conq every reports sync "@every 1m" all --overlap skip --timeout 10m
  conq every reports
  conq every reports nightly --run
  conq every reports nightly --remove`

func (a *app) every() *cobra.Command {
	var o work.EveryOptions
	var remove, run bool
	cmd := &cobra.Command{
		Use:     "every QUEUE [NAME [CRON ITEM]]",
		Short:   "Put a job periodically, or list periodic jobs",
		Long:    everyLong,
		Example: everyExample,
		Args:    queueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := noZero(cmd, append(jobNumbers, "max-late")...); err != nil {
				return err
			}
			switch {
			case len(args) == 1 && !remove && !run:
				return a.withJobs(ctx, args[0], func(q jobQueue) error { return a.listPeriodic(ctx, q) })
			case len(args) == 2 && remove != run:
				return a.withJobs(ctx, args[0], func(q jobQueue) error { return a.changePeriodic(ctx, q, args[1], remove) })
			case len(args) != 4 || remove || run:
				return usagef("every needs a queue, a name, a cron expression and an item; or a queue to list; or a name with --remove or --run")
			}
			return a.withNewJobs(ctx, args[0], 0, func(q jobQueue) error {
				return usage(q.Every(ctx, args[1], args[2], []byte(args[3]), o))
			})
		},
	}
	flags := cmd.Flags()
	registerJob(flags, &o.Job)
	flags.Var(parsed[work.Overlap]{&o.Overlap, work.ParseOverlap}, "overlap", "while the job of the last tick is neither done nor dead: run one more, skip, or replace it (default run)")
	flags.DurationVar(&o.MaxLate, "max-late", 0, "how late a tick is made up that passed while no worker ran (default any time)")
	flags.BoolVar(&remove, "remove", false, "remove the periodic job of that name")
	flags.BoolVar(&run, "run", false, "put a job of that name now, once more")
	return cmd
}

// nextText is when a tick is due. One that is over waits for a worker or a server to make it.
func nextText(next, now time.Time) string {
	if next.Before(now) {
		return when(next) + ", waits for a worker"
	}
	return when(next)
}

// overlapText says what a tick does while the job of the last one, or another one of the same text, is there.
func overlapText(p work.Periodic) string {
	if p.Unique != "" {
		return fmt.Sprintf("%v, unique %s", p.Overlap, short(p.Unique, 40))
	}
	return p.Overlap.String()
}

func (a *app) changePeriodic(ctx context.Context, q jobQueue, name string, remove bool) error {
	var err error
	if remove {
		err = q.RemovePeriodic(ctx, name)
	} else {
		_, err = q.RunPeriodic(ctx, name)
	}
	if errors.Is(err, work.ErrNotFound) {
		return nothingf("there is no periodic job %.200q in %.200q", name, q.Name())
	}
	return err
}

func (a *app) listPeriodic(ctx context.Context, q jobQueue) error {
	all, err := q.Periodics(ctx)
	if err != nil {
		return err
	}
	var troubles []string
	l := a.list("NAME\tCRON\tNEXT\tOVERLAP\tITEM\n")
	for _, p := range all {
		document := struct {
			Name    string    `json:"name"`
			Cron    string    `json:"cron"`
			Next    time.Time `json:"next"`
			Overlap string    `json:"overlap"`
			Unique  string    `json:"unique,omitempty"`
			itemDocument
			Trouble string `json:"trouble,omitempty"`
		}{p.Name, p.Spec, p.Next.UTC(), p.Overlap.String(), p.Unique, documentOf(p.Payload), p.Trouble}
		if err := l.add(document, "%s\t%s\t%s\t%s\t%s\n", shown(p.Name), p.Spec, nextText(p.Next, time.Now()), overlapText(p), short(string(p.Payload), 60)); err != nil {
			return err
		}
		if p.Trouble != "" {
			troubles = append(troubles, fmt.Sprintf("%s: %s", shown(p.Name), p.Trouble))
		}
	}
	if err := l.end(); err != nil {
		return err
	}
	for _, trouble := range troubles {
		fmt.Fprintln(a.stderr, trouble)
	}
	return nil
}
