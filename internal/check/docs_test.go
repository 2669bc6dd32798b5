package check_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/testkit"
)

// allFindings are the kinds that there are.
var allFindings = []check.FindingKind{
	check.FindingFormat, check.FindingCatalogue, check.FindingNewer, check.FindingDeleting, check.FindingNoEntry, check.FindingSystemKey, check.FindingOutside, check.FindingForeign,
	check.FindingItemKey, check.FindingItemValue, check.FindingPieces, check.FindingOrphans, check.FindingPieceKey, check.FindingJob,
	check.FindingStagingKey, check.FindingServedRequest, check.FindingIncomplete,
	check.FindingTwice, check.FindingStagedItemKey, check.FindingPlace, check.FindingNoPlace, check.FindingOutcome,
}

// Each kind of finding is in ../../docs/reference/check.md, in this order, and is planted by a
// test.
func TestFindingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/check.md")
	testkit.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| kind | what is wrong | repair |\n|---|---|---|\n")
	testkit.Equal(t, "there is a table", ok, true)
	var documented []check.FindingKind
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "`")
		if !strings.HasPrefix(line, "|") || len(cells) < 3 {
			break
		}
		documented = append(documented, check.FindingKind(cells[1]))
	}
	testkit.EqualSlices(t, "documented", documented, allFindings)
	for _, kind := range allFindings {
		found := kind == check.FindingItemValue || kind == check.FindingJob // TestCheckDecode, and TestCheck of package work
		for _, c := range slices.Concat(plantedKeys, plantedPieces, plantedStaging) {
			for _, f := range strings.Split(c.want, ", ") {
				found = found || f == string(kind) || strings.HasPrefix(f, string(kind)+" ") || strings.Trim(f, "~+") == string(kind)
			}
		}
		testkit.Equal(t, string(kind)+" is planted", found, true)
	}
}

// allFindings has all constants of the type.
func TestAllFindings(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "check.go", nil, 0)
	testkit.NoError(t, err)
	n := 0
	ast.Inspect(tree, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "FindingKind" {
			n += len(spec.Names)
		}
		return true
	})
	testkit.Equal(t, "constants", n, len(allFindings))
}
