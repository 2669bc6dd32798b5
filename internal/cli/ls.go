package cli

import (
	"fmt"
	"unicode"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const lsLong = `Print the names and kinds of all queues in the store, by name. Queues that only
another program has used, by FoundationDB's recipes, are not listed before conq
has put something in; dequeue, pop, peek, stat and purge find them by name.`

func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the queues of the store",
		Long:    lsLong,
		Example: "  conq ls\n  conq ls --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				infos, err := b.queues(cmd.Context())
				if err != nil {
					return err
				}
				return a.printInfos(infos)
			})
		},
	}
}

// info is a queue with --json.
type info struct {
	Name   string     `json:"name"`
	Kind   conq.Kind  `json:"kind"`
	Format int        `json:"format,omitempty"` // absent if another program's
	Going  bool       `json:"deleting,omitempty"`
	Items  *int       `json:"items,omitempty"`
	Jobs   *jobCounts `json:"jobs,omitempty"` // of a work queue, by state

	Settings *wire.Settings `json:"settings,omitempty"` // of a work queue
	settings work.Settings
}

func (a *app) printInfos(infos []conq.Info) error {
	l := a.list("")
	for _, i := range infos {
		kind := string(i.Kind)
		if i.Deleting {
			kind += ", being deleted"
		}
		if err := l.add(info{Name: i.Name, Kind: i.Kind, Format: i.Format, Going: i.Deleting}, "%s\t%s\n", shown(i.Name), kind); err != nil {
			return err
		}
	}
	return l.w.Flush() // a store without queues is no failure
}

// shown is a name as it is printed in a table: quoted if it would break it, or be read in another
// order than it has.
func shown(name string) string {
	for _, r := range name {
		if r == ' ' || unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}
