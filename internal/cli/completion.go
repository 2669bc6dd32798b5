package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completionTime is how long a store may take to tell its queues to somebody who has pressed a key.
const completionTime = 2 * time.Second

// flagValues are what flags can be, where there are few.
var flagValues = map[string][]string{
	"codec": strings.Split(codecNames(), ", "), "durability": {"always", "interval", "memory"}, "log-format": {"text", "json"},
	"state": {"ready", "scheduled", "leased", "blocked", "dead", "done"}, "overlap": {"run", "skip", "replace"},
	"order": {"nearly-strict", "strict", "relaxed"}, "ties": {"first", "last"}, "timeout": {"none"},
	"scope": {"produce", "consume", "admin", "watch"},
}

// completeFlags offers the values of flags, where there are few, and files for no others than name files.
func completeFlags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values, known := flagValues[f.Name]
		switch {
		case f.Name == "all-matching":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completeFilter)
		case known:
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		case !strings.HasPrefix(f.Name, "tls-") && f.Name != "tokens" && f.Name != "store":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// completeFilter offers the condition after the last comma, and the states.
func completeFilter(_ *cobra.Command, _ []string, typed string) (offers []cobra.Completion, _ cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	for _, c := range conditions {
		if c.name == "state" {
			for _, state := range flagValues["state"] {
				offers = append(offers, before+"state="+state)
			}
			continue
		}
		offers = append(offers, before+c.name+"=")
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeQueue offers the queues of a kind, or of all, for the first so many arguments.
func (a *app) completeQueue(kind conq.Kind, arguments int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) >= arguments {
			if cmd.Name() == "work" { // a command
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		a.ctx, a.stderr = ctx, io.Discard // what is wrong with the store is told when the command runs
		_ = a.withBackend(ctx, a.openExisting, func(b backend) error {
			all, err := b.queues(ctx)
			for _, q := range all {
				if (kind == "" || q.Kind == kind) && !slices.Contains(args, q.Name) {
					names = append(names, cobra.CompletionWithDesc(q.Name, string(q.Kind)))
				}
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
