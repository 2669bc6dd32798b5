//go:build unix

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// files returns all files below directories, as "." or "docs", whose names end as asked; not those of test data, and hidden
// ones.
func files(t *testing.T, end string, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch name := entry.Name(); {
			case err != nil:
				return err
			case entry.IsDir() && (name == "testdata" || name == "vendor" || name != "." && strings.HasPrefix(name, ".")):
				return fs.SkipDir
			case !entry.IsDir() && strings.HasSuffix(name, end):
				found = append(found, path)
			}
			return nil
		}))
	}
	if len(found) == 0 {
		t.Fatalf("there are no files *%s in %q", end, dirs)
	}
	return found
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)|(?:src|href|srcset)="([^"]+)"`)
	ownPages = "https://github.com/conq-go/conq/blob/main/"
)

// A target is a file that a document points to, with the heading in it, if the link has one.
type target struct{ file, heading string }

// linksOf returns what a document links to in this repository.
func linksOf(t *testing.T, document string) (targets []target) {
	t.Helper()
	for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(readFile(t, document)), ""), -1) {
		address, dir := match[1]+match[2], filepath.Dir(document)
		if own, ok := strings.CutPrefix(address, ownPages); ok {
			address, dir = own, "."
		}
		if strings.Contains(address, ":") {
			continue // elsewhere
		}
		file, heading, _ := strings.Cut(address, "#")
		if file == "" {
			file, dir = filepath.Base(document), filepath.Dir(document)
		}
		targets = append(targets, target{filepath.Join(dir, file), heading})
	}
	return targets
}

// anchors returns the names by which GitHub knows the headings of a document.
func anchors(t *testing.T, document string) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	text := fence.ReplaceAllString(string(readFile(t, document)), "")
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		known[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading)] = true
	}
	return known
}

// Files that documents point to are there, and so are their headings.
func TestDocumentLinks(t *testing.T) {
	for _, document := range files(t, ".md", ".") {
		for _, to := range linksOf(t, document) {
			if _, err := os.Stat(to.file); err != nil {
				t.Errorf("%s points to %s, which is not there", document, to.file)
				continue
			}
			if to.heading != "" && strings.HasSuffix(to.file, ".md") && !anchors(t, to.file)[to.heading] {
				t.Errorf("%s points to the heading %q of %s, which is not there", document, to.heading, to.file)
			}
		}
	}
}

// Who begins with README.md finds docs/README.md, from which one link leads to each page; and pages lead to all else
// that is below docs and deploy.
func TestNothingIsAnOrphan(t *testing.T) {
	const index = "docs/README.md"
	inIndex := map[string]bool{index: true}
	for _, to := range linksOf(t, index) {
		inIndex[to.file] = true
	}
	for _, page := range files(t, ".md", "docs") {
		if !inIndex[page] {
			t.Errorf("%s does not link to %s", index, page)
		}
	}
	reached := map[string]bool{"README.md": true}
	for queue := []string{"README.md"}; len(queue) > 0; queue = queue[1:] {
		if !strings.HasSuffix(queue[0], ".md") {
			continue
		}
		for _, to := range linksOf(t, queue[0]) {
			if isThere(to.file) && !reached[to.file] {
				reached[to.file] = true
				queue = append(queue, to.file)
			}
		}
	}
	for _, file := range files(t, "", "docs", "deploy") {
		if dir := filepath.Dir(file); !reached[file] && !(isModule(dir) && reached[dir]) {
			t.Errorf("no link leads from README.md to %s", file)
		}
	}
}

// Documents that code, units and messages name are there.
func TestDocumentsNamed(t *testing.T) {
	named := regexp.MustCompile(`\b(?:docs|deploy)/[\w./@-]*\w\.(?:md|yaml|json|service)\b`)
	n := 0
	for _, end := range []string{".go", ".md", ".service", "Makefile", "Dockerfile"} {
		for _, file := range files(t, end, ".") {
			for _, name := range named.FindAllString(string(readFile(t, file)), -1) {
				if n++; !isThere(name) {
					t.Errorf("%s names %s, which is not there", file, name)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d documents are named", n)
	}
}

// Packages and files that documents name are there.
func TestDocsPaths(t *testing.T) {
	path := regexp.MustCompile("`((?:internal|kv|cmd|bench|test|recipe|tuple)/[\\w./-]+|\\w+_test\\.go)`")
	for _, document := range append(files(t, ".md", "docs"), "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md") {
		for _, match := range path.FindAllStringSubmatch(string(readFile(t, document)), -1) {
			if !isThere(match[1]) {
				t.Errorf("%s names %s, which is not there", document, match[1])
			}
		}
	}
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
