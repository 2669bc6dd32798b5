package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const lsLong = `Print all queues of the store by name, with their kinds, how many items or jobs they
have, and in which states jobs are. Items are counted up to 10,000; --exact counts all,
which reads them. A server tells how many items a long queue had a moment ago.

Queues that only another program has used, by FoundationDB's recipes, are not listed before
conq has put something in; dequeue, pop, peek, stat and purge find them by name.`

func (a *app) ls() *cobra.Command {
	var exact bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the queues of the store, with how many items or jobs they have",
		Long:    lsLong,
		Example: "  conq ls\n  conq ls --exact --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				all, err := b.looks(cmd.Context(), true)
				if err == nil && exact {
					err = recount(cmd.Context(), b, all)
				}
				if err != nil {
					return err
				}
				return a.printLooks(all)
			})
		},
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "count all items of long queues")
	return cmd
}

// recount counts all items of queues that were counted in part, or by a server a while ago.
func recount(ctx context.Context, b backend, all []look) error {
	for i, l := range all {
		if l.Deleting || l.jobs != nil || l.items < mostCounted {
			continue
		}
		facts, err := counted(ctx, b, l.Info)
		if err != nil {
			return err
		}
		all[i].items, all[i].more = int64(*facts.Items), false
	}
	return nil
}

// info is a queue with --json.
type info struct {
	Name   string     `json:"name"`
	Kind   conq.Kind  `json:"kind"`
	Format int        `json:"format,omitempty"` // absent if another program's
	Going  bool       `json:"deleting,omitempty"`
	Items  *int       `json:"items,omitempty"`
	More   bool       `json:"more,omitempty"` // items that were not counted
	Jobs   *jobCounts `json:"jobs,omitempty"` // of a work queue, by state

	Settings *wire.Settings `json:"settings,omitempty"` // of a work queue
	settings work.Settings
}

func (a *app) printLooks(all []look) error {
	header, none := "QUEUE\tKIND\tITEMS", ""
	if slices.ContainsFunc(all, func(l look) bool { return l.jobs != nil }) {
		header, none = header+"\tSTATES", "\t-"
	}
	if len(all) > 0 {
		header += "\n"
	} else {
		header = ""
	}
	list := a.list(header)
	for _, l := range all {
		i, number, states := l.info(), "-", none
		if i.Items != nil {
			number = l.shownItems()
		}
		if i.Jobs != nil {
			states = "\t" + i.Jobs.text()
		}
		kind := string(l.Kind)
		if l.Deleting {
			kind += ", being deleted"
		}
		if err := list.add(i, "%s\t%s\t%s%s\n", shown(l.Name), kind, number, states); err != nil {
			return err
		}
	}
	return list.w.Flush() // a store without queues is no failure
}

// info is the queue with --json.
func (l *look) info() info {
	i := info{Name: l.Name, Kind: l.Kind, Format: l.Format, Going: l.Deleting, More: l.more, Jobs: (*jobCounts)(l.jobs)}
	if n := int(l.items); !l.Deleting {
		i.Items = &n
	}
	return i
}

// shownItems is how many items there are, with a plus if there are more.
func (l *look) shownItems() string {
	if l.more {
		return count(int(l.items)) + "+"
	}
	return count(int(l.items))
}

// text is how many jobs are in the states that have any.
func (j *jobCounts) text() string {
	var parts []string
	for _, s := range j.rows() {
		if s.n > 0 {
			parts = append(parts, count(int(s.n))+" "+s.state.String())
		}
	}
	if j.Paused {
		parts = append(parts, "paused")
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
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
