package foundationdb

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// The limits in docs/reference/limits.md are this engine's. Those of others are held where they are
// tested.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/limits.md")
	testkit.NoError(t, err)
	l := opened(t, newDB(newFake(), Options{})).Limits()
	for name, want := range map[string]int{
		"key": l.Key, "value": l.Value, "transaction": l.Transaction, "largest item": l.Transaction / 2,
	} {
		row := regexp.MustCompile(`(?m)^\| ` + name + ` \|.* ([\d,]+)(, less the prefix)? \|$`).FindSubmatch(page)
		if row == nil || strings.ReplaceAll(string(row[1]), ",", "") != fmt.Sprint(want) {
			t.Errorf("row %q: %q, want %d", name, row, want)
		}
	}
}
