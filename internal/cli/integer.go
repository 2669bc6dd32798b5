package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

// parseInteger reads a decimal integer.
func parseInteger(what, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %.40q is not an integer of 64 bits", what, text)
	}
	return n, nil
}

// integer is a flag that is a decimal integer, as on standard input. Those of pflag take
// 010 as octal, and 0x10 and 1_0.
type integer struct {
	what string
	n    *int64
}

func integerFlag(cmd *cobra.Command, n *int64, name, short string, value int64, usage, what string) {
	*n = value
	cmd.Flags().VarP(integer{what, n}, name, short, usage)
}

func (i integer) Set(text string) (err error) {
	n, err := parseInteger(i.what, text)
	if err == nil {
		*i.n = n
	}
	return err
}

func (i integer) String() string { return strconv.FormatInt(*i.n, 10) }
func (i integer) Type() string   { return "int" }
