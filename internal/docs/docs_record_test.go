//go:build unix

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const recordDoc = "docs/internals/track-record.md"

// Each row of docs/internals/track-record.md has one command, and all commands and names of tests on the page
// are of tests that are there.
func TestTrackRecord(t *testing.T) {
	tests := testsOfRepository(t)
	everywhere := map[string]bool{}
	for _, names := range tests {
		for name := range names {
			everywhere[name] = true
		}
	}
	page := strings.ReplaceAll(string(readFile(t, recordDoc)), `\|`, "\x00") // no end of a cell
	spans := regexp.MustCompile("`([^`]*)`")
	rows := 0
	for line := range strings.Lines(page) {
		line = strings.ReplaceAll(strings.TrimSpace(line), " | |", " | - |")
		if cells := strings.Split(strings.Trim(line, "| "), " | "); isRow(line) {
			rows++
			last := cells[len(cells)-1]
			if len(cells) != 3 || !strings.HasPrefix(last, "`") || strings.Count(last, "`") != 2 || !strings.Contains(last, " -run ") {
				t.Errorf("row %q: want what went wrong, by what it was found, and a go test -run", line)
			}
		}
		for _, span := range spans.FindAllStringSubmatch(line, -1) {
			text := strings.ReplaceAll(span[1], "\x00", "|")
			switch {
			case strings.Contains(text, "go test "):
				checkCommand(t, tests, text)
			case testName.MatchString(text) && !everywhere[text]:
				t.Errorf("there is no test %s", text)
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows were found", rows)
	}
}

// isRow tells whether a line is a row of a table, and not its head.
func isRow(line string) bool {
	return strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|-") && !strings.HasSuffix(line, "| test |")
}

var testName = regexp.MustCompile(`^(Test|Fuzz)\w+$`)

// checkCommand checks that a go test has a package with each of the tests that -run names.
func checkCommand(t *testing.T, tests map[string]map[string]bool, command string) {
	t.Helper()
	root, dir, run := ".", "", ""
	_, arguments, _ := strings.Cut(command, "go test ")
	for words := strings.Fields(arguments); len(words) > 0; words = words[1:] {
		switch word := words[0]; {
		case len(words) > 1 && word == "-C":
			root, words = words[1], words[1:]
		case len(words) > 1 && word == "-run":
			run, words = strings.Trim(words[1], "'"), words[1:]
		case !strings.HasPrefix(word, "-") && dir == "":
			dir = word
		case !strings.HasPrefix(word, "-"):
			t.Errorf("%s: what is %q?", command, word)
		}
	}
	there := tests[filepath.Join(root, dir)]
	if dir == "" || there == nil {
		t.Errorf("%s: there are no tests in %q", command, dir)
	}
	for name := range strings.SplitSeq(run, "|") {
		if name, _, _ = strings.Cut(name, "/"); run != "" && !there[name] {
			t.Errorf("%s: there is no test %q", command, name)
		}
	}
}

// testsOfRepository returns the names of tests by their directories.
func testsOfRepository(t *testing.T) map[string]map[string]bool {
	t.Helper()
	tests := map[string]map[string]bool{}
	check(filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && testName.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
				if tests[dir] == nil {
					tests[dir] = map[string]bool{}
				}
				tests[dir][f.Name.Name] = true
			}
		}
		return nil
	}))
	return tests
}
