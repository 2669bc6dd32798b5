package server

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// The tour in docs/reference/http.md does what it says.
func TestTour(t *testing.T) {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("it needs %s", tool)
		}
	}
	text, err := os.ReadFile("../docs/reference/http.md")
	testkit.NoError(t, err)
	tour := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(text)
	if tour == nil {
		t.Fatal("docs/reference/http.md has no tour")
	}
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{})
	var script strings.Builder
	var want []string // what is printed in front of each line of the script
	printed := ""
	for line := range strings.Lines(strings.ReplaceAll(string(tour[1]), "127.0.0.1:7711", l.addr)) {
		if expected, ok := strings.CutPrefix(line, "#> "); ok {
			printed += expected
			continue
		}
		want, printed = append(want, printed), ""
		fmt.Fprintf(&script, "printf 'line %%s\\n' %d\n%s", len(want), line)
	}
	want = append(want, printed)[1:]
	cmd := exec.CommandContext(t.Context(), "sh", "-e")
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(script.String())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got := regexp.MustCompile(`(?m)^line \d+\n`).Split(string(output), -1)[1:]
	testkit.Equal(t, "lines", len(got), len(want))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d prints %q, want %q", i+1, got[i], want[i])
		}
	}
}
