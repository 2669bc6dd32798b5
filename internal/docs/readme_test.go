//go:build unix

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// The shell tour of the README prints what it says.
func TestReadmeShell(t *testing.T) {
	testkit.Long(t)
	script := strings.Join(blocks(t, "README.md", "sh"), "")
	var want strings.Builder
	for line := range strings.Lines(script) {
		if text, ok := strings.CutPrefix(line, "#> "); ok {
			want.WriteString(text)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CONQ_STORE=")
	cmd.Stderr = t.Output()
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(got), want.String())
}

// The program of the README compiles, and prints what it says.
func TestReadmeProgram(t *testing.T) {
	testkit.Long(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(blocks(t, "README.md", "go")[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-w", "-o", program, source).CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = dir
	cmd.Stderr = t.Output()
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(got), blocks(t, "README.md", "text")[0])
}

// The rates that the README has are those of docs/performance.md.
func TestReadmeRates(t *testing.T) {
	rates := regexp.MustCompile(`\d[\d.]*k / \d[\d.]*k`).FindAllString(string(readFile(t, "README.md")), -1)
	if len(rates) == 0 {
		t.Error("the README has no rates")
	}
	all := string(readFile(t, "docs/performance.md"))
	for _, pair := range rates {
		if !strings.Contains(all, "| "+pair+" / ") && !strings.Contains(all, "| "+pair+" |") {
			t.Errorf("docs/performance.md has no %s", pair)
		}
	}
}
