package conq

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// allFindings are the kinds that there are.
var allFindings = []FindingKind{
	FindingFormat, FindingCatalogue, FindingNewer, FindingNoEntry, FindingSystemKey, FindingOutside, FindingForeign,
	FindingItemKey, FindingItemValue, FindingPieces, FindingOrphans, FindingPieceKey, FindingJob,
	FindingStagingKey, FindingServedRequest, FindingDue, FindingNotDue, FindingIncomplete, FindingStagedItem,
	FindingTwice, FindingStagedItemKey, FindingPlace, FindingNoPlace, FindingOutcome,
}

// Each kind of finding is in docs/operating.md, in this order, and is planted by a
// test.
func TestFindingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/operating.md")
	noError(t, err)
	_, table, ok := strings.Cut(string(text), "| kind | what is wrong | repair |\n|---|---|---|\n")
	equal(t, "there is a table", ok, true)
	var documented []FindingKind
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "`")
		if !strings.HasPrefix(line, "|") || len(cells) < 3 {
			break
		}
		documented = append(documented, FindingKind(cells[1]))
	}
	equalSlices(t, "documented", documented, allFindings)
	for _, kind := range allFindings {
		found := kind == FindingItemValue || kind == FindingJob // TestCheckDecode, and TestCheck of package work
		for _, c := range slices.Concat(plantedKeys, plantedPieces, plantedStaging) {
			for _, f := range strings.Split(c.want, ", ") {
				found = found || f == string(kind) || strings.HasPrefix(f, string(kind)+" ") || strings.Trim(f, "~+") == string(kind)
			}
		}
		equal(t, string(kind)+" is planted", found, true)
	}
}

// allFindings has all constants of the type.
func TestAllFindings(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "internal/check/check.go", nil, 0)
	noError(t, err)
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
	equal(t, "constants", n, len(allFindings))
}
