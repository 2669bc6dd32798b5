package cli

import (
	"encoding/json"
	"fmt"

	"github.com/conq-go/conq/server"
	"github.com/spf13/cobra"
)

const tokenLong = `Make a token for "conq serve --tokens". It is printed once and kept nowhere: the
file has its SHA-256, which is enough for 256 random bits. Without --tokens the entry
for the file is printed below it, and with --json in any case.

A --scope is produce, consume, admin or watch, and a pattern of queue names, in which
a * is any text; without one it is for all queues. produce adds items and jobs, consume
takes and looks at them, admin does all else too, and watch sees figures only.`

func (a *app) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for conq serve",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return usagef("token needs a subcommand: conq token new NAME --scope SCOPE")
		},
	}
	cmd.AddCommand(a.newToken())
	return cmd
}

func (a *app) newToken() *cobra.Command {
	var path string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "new NAME --scope SCOPE...",
		Short: "Make a token, and print it once",
		Long:  tokenLong,
		Example: `  conq token new shop --scope 'produce:orders.*' --scope consume:invoices --tokens tokens.json
  conq token new prometheus --scope watch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("token new needs one name")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			secret, entry, err := server.NewToken(path, args[0], scopes)
			if err != nil {
				return usagef("%w", err)
			}
			document := struct {
				Token string          `json:"token"`
				Entry json.RawMessage `json:"entry"`
			}{secret, entry}
			if path != "" {
				return after(a.answer(document, "%s\n", secret), fmt.Sprintf("a token %q, which nobody has, added to %q", args[0], path))
			}
			return a.answer(document, "%s\n%s\n", secret, entry)
		},
	}
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what its holder may do; several times for more")
	cmd.Flags().StringVar(&path, "tokens", "", "file to which the token is added")
	return cmd
}
