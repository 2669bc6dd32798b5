package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
type integer[T int | int64 | uint64] struct {
	name string
	n    *T
}

func integerFlag[T int | int64 | uint64](flags *pflag.FlagSet, n *T, name, short string, value T, usage string) {
	*n = value
	flags.VarP(integer[T]{name, n}, name, short, usage)
}

func (i integer[T]) Set(text string) error {
	if n, ok := any(i.n).(*uint64); ok {
		value, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%s %.40q is not an integer from 0 to %d", i.name, text, uint64(math.MaxUint64))
		}
		*n = value
		return nil
	}
	value, err := parseInteger(i.name, text)
	if err == nil && int64(T(value)) != value {
		err = fmt.Errorf("%s %s is too large", i.name, text) // where an int has 32 bits
	}
	if err == nil {
		*i.n = T(value)
	}
	return err
}

// noZero refuses flags that are given as 0, as if that was less than their default.
func noZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String() == "0s") {
			return usagef("--%s %s: it is more than 0; without it there is a default", name, f.Value)
		}
	}
	return nil
}

func (i integer[T]) String() string { return fmt.Sprint(*i.n) }
func (i integer[T]) Type() string   { return "int" }
