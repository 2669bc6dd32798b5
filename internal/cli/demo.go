package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/demo"
	"github.com/spf13/cobra"
)

const demoLong = `Run concurrent producers and consumers on a FIFO queue, then on a priority queue,
then on a work queue, whose jobs are done by processes that are killed now and
then with a job in hand; all in a durable store. Close the store, open it again
and take out what was left. Then check from the records of all clients that
nothing was lost, nothing came twice, nothing was invented, the order was kept,
and each job was done, with one holder at a time; and print what was found, how
fast it was and how long calls took.

The store is a temporary directory, which is removed at the end, unless --store
names one. The exit code is 3 if a check has failed.`

const demoExample = `  conq demo
  conq demo --items 100000 --producers 64 --consumers 64
  conq demo --duration 30s --size 4096 --store ./demo-data --json`

func (a *app) demo() *cobra.Command {
	config := demo.Config{}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show concurrent clients at work, and check what they did",
		Long:    demoLong,
		Example: demoExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			completeLoad(cmd, &config.Seed, &config.Duration)
			return a.runDemo(cmd, config)
		},
	}
	flags := cmd.Flags()
	integerFlag(flags, &config.Items, "items", "", 0, "items that go through each queue (default as many as the time allows)")
	flags.DurationVar(&config.Duration, "duration", 1800*time.Millisecond,
		"how long each queue is worked on at most; with --items no limit unless given")
	integerFlag(flags, &config.Producers, "producers", "", 16, "concurrent producers")
	integerFlag(flags, &config.Consumers, "consumers", "", 16, "concurrent consumers")
	integerFlag(flags, &config.Size, "size", "", 100, fmt.Sprintf("bytes an item, at least %d", demo.MinSize))
	integerFlag(flags, &config.Seed, "seed", "", 0, "seed of payloads and priorities (default random)")
	return cmd
}

func (a *app) runDemo(cmd *cobra.Command, config demo.Config) error {
	if err := config.Check(); err != nil {
		return usagef("%w", err)
	}
	if strings.EqualFold(aScheme.FindString(a.store), "memory:") && cmd.Flags().Changed("store") {
		return usagef("demo opens its store twice, and one in memory is gone when it is closed: use a directory")
	}
	where, _, remove, err := a.workplace(!cmd.Flags().Changed("store"))
	defer remove()
	if err != nil {
		return err
	}
	config.Worker = a.worker
	config.Open = a.opening(a.open, config.Size, demoTitle(config, where))
	live := newLive(a)
	config.Progress = live.show
	report, err := demo.Run(cmd.Context(), config)
	live.end()
	if err != nil {
		return err
	}
	err = a.printDemo(report)
	if (err == nil || isUnread(err)) && !report.OK {
		return errCheck
	}
	return err
}

// demoWorker is what worker processes of the demo run.
func (a *app) demoWorker() *cobra.Command {
	return &cobra.Command{
		Use: demoWorkerName, Hidden: true, Args: noArguments, Short: "Do jobs of conq demo",
		RunE: func(*cobra.Command, []string) error { return demo.Work(a.stdin, a.stdout) },
	}
}

const demoWorkerName = "demo-worker"

// workerOf returns what makes worker processes of the program that runs, or nil if it can't be told which that is.
func workerOf(program string) func() *exec.Cmd {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	return func() *exec.Cmd { return exec.Command(path, demoWorkerName) }
}

func demoTitle(c demo.Config, where string) string {
	return fmt.Sprintf("%s and %s on %s, items of %s, seed %d\n\n",
		plural(c.Producers, "producer"), plural(c.Consumers, "consumer"), where, size(int64(c.Size)), c.Seed)
}

func (a *app) printDemo(report *demo.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	paint := painter(commands(a.stdout) && os.Getenv("NO_COLOR") == "")
	left := 0
	for i := range report.Phases {
		left += report.Phases[i].Reopened
		if err := a.printf("%s\n", phaseText(&report.Phases[i], paint)); err != nil {
			return err
		}
	}
	if !report.OK {
		return a.printf("%s To run it again: --seed %d\n", paint(red, "Something was broken."), report.Seed)
	}
	return a.printf("%s The store was closed with %s in it and gave them back when it was reopened.\n",
		paint(green, "Everything held."), items(left))
}
