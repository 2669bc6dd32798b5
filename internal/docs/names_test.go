//go:build unix

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The functions on the ways through the code that ARCHITECTURE.md draws are where it says.
func TestDocsNames(t *testing.T) {
	step := regexp.MustCompile("(?m)^\\| .* \\| `([\\w./]+)` \\| `([\\w.]+)` \\|$")
	steps := step.FindAllStringSubmatch(string(readFile(t, "ARCHITECTURE.md")), -1)
	if len(steps) < 10 {
		t.Errorf("ARCHITECTURE.md has %d steps, want 10 or more", len(steps))
	}
	for _, s := range steps {
		if !functionsOf(t, s[1])[s[2]] {
			t.Errorf("ARCHITECTURE.md: package %s has no function %s: name the one that does this now", s[1], s[2])
		}
	}
}

// functionsOf returns the functions of a package, and its methods as Type.name.
func functionsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check(err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		check(err)
		for _, declaration := range tree.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				found[receiverOf(f)+f.Name.Name] = true
			}
		}
	}
	return found
}

// receiverOf returns the type of a method, with a dot, or nothing for a function.
func receiverOf(f *ast.FuncDecl) (name string) {
	if f.Recv == nil {
		return ""
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name + "."
		}
		return true
	})
	return name
}
