package cli

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const statLong = `Print facts about a queue, or about the store and all its queues. Counting the
items of a queue reads all of them.`

func (a *app) stat() *cobra.Command {
	return &cobra.Command{
		Use:     "stat [QUEUE]",
		Short:   "Print how many items there are, and facts about the store",
		Long:    statLong,
		Example: "  conq stat\n  conq stat emails --json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := onlyQueueArgument(cmd, args); err != nil {
					return err
				}
			}
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				if len(args) == 1 {
					return a.statQueue(cmd.Context(), b, args[0])
				}
				return a.statStore(cmd.Context(), b)
			})
		},
	}
}

func (a *app) statQueue(ctx context.Context, b backend, name string) error {
	found, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	facts, err := counted(ctx, b, found)
	if err != nil {
		return err
	}
	return a.printQueueFacts(facts)
}

// statStore has each queue counted, as the numbers in the list of a server may be of a while ago.
func (a *app) statStore(ctx context.Context, b backend) error {
	facts := b.about()
	facts.Queues = []info{}
	all, err := b.queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		queue, err := counted(ctx, b, q)
		if err != nil {
			return err
		}
		facts.Queues = append(facts.Queues, queue)
	}
	return a.printStore(facts)
}

// counted returns a queue with how many items it has.
func counted(ctx context.Context, b backend, q conq.Info) (info, error) {
	facts := info{Name: q.Name, Kind: q.Kind, Format: q.Format}
	handle, err := openAny(ctx, b, q)
	if err != nil {
		return facts, err
	}
	defer letGo(ctx, handle)
	if jobs, ok := handle.(jobQueue); ok {
		stats, err := jobs.Stats(ctx)
		facts.Jobs = (*jobCounts)(&stats)
		n := facts.Jobs.sum()
		facts.Items = &n
		if err != nil {
			return facts, err
		}
		s, version, err := jobs.Settings(ctx)
		of := wire.SettingsOf(s, version)
		facts.Settings, facts.settings = &of, s
		return facts, err
	}
	n, err := handle.Len(ctx)
	facts.Items = &n
	return facts, err
}

func (a *app) printQueueFacts(facts info) error {
	if a.json {
		return a.printJSON(facts)
	}
	w := a.table()
	fmt.Fprintf(w, "queue\t%s\nkind\t%s\n", shown(facts.Name), facts.Kind)
	if facts.Format > 0 {
		fmt.Fprintf(w, "format\t%d\n", facts.Format)
	} else if !a.isServer() {
		fmt.Fprint(w, "format\tanother program's\n")
	}
	fmt.Fprintf(w, "items\t%s\n", count(*facts.Items))
	if facts.Jobs != nil {
		for _, s := range facts.Jobs.rows() {
			fmt.Fprintf(w, "%s\t%s\n", s.state, count(int(s.n)))
		}
		if facts.Jobs.Paused {
			fmt.Fprint(w, "paused\tyes\n")
		}
		for _, row := range settingRows(facts.settings) {
			fmt.Fprintf(w, "%s\t%s\n", row.name, row.value)
		}
	}
	return w.Flush()
}

// jobCounts is how many jobs of a work queue are in each state.
type jobCounts work.Stats

type stateCount struct {
	state work.State
	n     int64
}

func (j *jobCounts) rows() []stateCount {
	return []stateCount{
		{work.Ready, j.Ready}, {work.Scheduled, j.Scheduled}, {work.Leased, j.Leased},
		{work.Blocked, j.Blocked}, {work.Dead, j.Dead}, {work.Done, j.Done},
	}
}

func (j *jobCounts) sum() (n int) {
	for _, s := range j.rows() {
		n += int(s.n)
	}
	return n
}

// storeFacts is a store with --json.
type storeFacts struct {
	Store     string  `json:"store"`
	Engine    string  `json:"engine"`
	DiskBytes *int64  `json:"disk_bytes,omitempty"`
	Limits    *limits `json:"limits,omitempty"` // not known over a server
	Queues    []info  `json:"queues"`
}

type limits struct {
	Item        int `json:"item_bytes"`
	Transaction int `json:"transaction_bytes"`
}

func (a *app) printStore(facts storeFacts) error {
	if a.json {
		return a.printJSON(facts)
	}
	w := a.table()
	fmt.Fprintf(w, "store\t%s\nengine\t%s\n", facts.Store, facts.Engine)
	if facts.DiskBytes != nil {
		fmt.Fprintf(w, "on disk\t%s\n", size(*facts.DiskBytes))
	}
	if facts.Limits != nil {
		fmt.Fprintf(w, "largest item\t%s\n", size(int64(facts.Limits.Item)))
	}
	fmt.Fprintf(w, "queues\t%s\n", count(len(facts.Queues)))
	if err := w.Flush(); err != nil || len(facts.Queues) == 0 {
		return err
	}
	w = a.table()
	fmt.Fprint(w, "\nQUEUE\tKIND\tITEMS\n")
	for _, q := range facts.Queues {
		fmt.Fprintf(w, "%s\t%s\t%s\n", shown(q.Name), q.Kind, count(*q.Items))
	}
	return w.Flush()
}
