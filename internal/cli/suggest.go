package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostEdits is how many letters a name may differ in from one that is suggested.
const mostEdits = 2

// didYouMean returns the question after the name that is most like a mistyped one, or nothing. It is cobra that compares.
func didYouMean(typed string, names []string) string {
	var of cobra.Command
	for _, name := range names {
		of.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	for of.SuggestionsMinimumDistance = 1; of.SuggestionsMinimumDistance <= min(mostEdits, len(typed)-1); of.SuggestionsMinimumDistance++ {
		for _, name := range of.SuggestionsFor(typed) {
			if len(name) > of.SuggestionsMinimumDistance { // else any other name would do
				return fmt.Sprintf(": did you mean %q?", name)
			}
		}
	}
	return ""
}

// closestFlag returns the question after the flag that an unknown one is most like, or nothing.
func closestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return didYouMean("--"+strings.TrimLeft(unknown.GetSpecifiedName(), "-"), names)
}
