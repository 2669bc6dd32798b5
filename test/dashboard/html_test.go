package dashboard

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var validator = flag.String("validator", "", "html-validate.mjs of the npm package html-validate; without it HTML is not validated")

// rules are those of the HTML standard. What is from other servers, of which there is nothing, would need hashes.
const rules = `{"root": true, "extends": ["html-validate:standard", "html-validate:document"], "rules": {"require-sri": ["error", {"target": "crossorigin"}]}}`

// served is the HTML of pages, as servers have sent it.
type served struct {
	dir   string
	pages int
}

func newServed(t *testing.T) *served { return &served{dir: t.TempDir()} }

var unsafeInNames = regexp.MustCompile(`[^a-z0-9=]+`)

// add keeps the page that a tab shows.
func (s *served) add(tb *tab) {
	tb.t.Helper()
	path := evaluate[string](tb, `location.pathname + location.search`)
	html := evaluate[string](tb, `fetch(location.href).then(r => r.text())`)
	name := unsafeInNames.ReplaceAllString(path, "_")
	s.pages++
	must(tb.t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("%d%s.html", s.pages, name[:min(len(name), 100)])), []byte(html), 0o644))
}

// validate has a validator read all of it.
func (s *served) validate(t *testing.T) {
	t.Helper()
	if *validator == "" {
		return
	}
	config := filepath.Join(s.dir, "rules.json")
	must(t, os.WriteFile(config, []byte(rules), 0o644))
	pages, err := filepath.Glob(filepath.Join(s.dir, "*.html"))
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), *validator, append([]string{"--config", config, "--formatter", "text"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("html-validate: %v\n%s", err, strings.ReplaceAll(string(out), s.dir, ""))
	}
}
