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

// didYouMean returns the question after the name that is most like a mistyped one, or nothing.
func didYouMean(typed string, names []string) string {
	best, edits := "", mostEdits+1
	for _, name := range names {
		if n := distance(typed, name); n < edits && n < len(name) && n < len(typed) {
			best, edits = name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
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

// distance is Levenshtein's: how many letters are to be inserted, removed or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
