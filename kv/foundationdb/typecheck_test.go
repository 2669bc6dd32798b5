package foundationdb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

const (
	binding = "github.com/apple/foundationdb/bindings/go"
	tag     = "foundationdb"
)

// The package and its tests fit the binding, also where FoundationDB is not
// installed: with the build tag on, they are type-checked against the binding's
// source, of which only what it takes from C is left open.
func TestTypeCheckWithTheBinding(t *testing.T) {
	c := newChecker(t)
	ctx := taggedContext()
	here, err := ctx.ImportDir(".", 0)
	testkit.NoError(t, err)
	for _, file := range []string{"binding.go", "cluster_test.go"} {
		if all := strings.Join(append(append(here.GoFiles, here.TestGoFiles...), here.XTestGoFiles...), " ") + " "; !strings.Contains(all, file+" ") {
			t.Errorf("%s is not in the build with the tag: %s", file, all)
		}
	}
	c.prepare(append(append(here.Imports, here.TestImports...), here.XTestImports...))
	const name = "github.com/conq-go/conq/kv/foundationdb"
	package_ := c.check(name, ".", append(here.GoFiles, here.TestGoFiles...))
	c.known[name] = package_
	c.check(name+"_test", ".", here.XTestGoFiles)
	if fdb := c.known[binding+"/src/fdb"]; fdb == nil || fdb.Scope().Lookup("Transaction") == nil {
		t.Error("the binding was not looked at")
	}
}

// The check finds what does not fit.
func TestTypeCheckFindsMistakes(t *testing.T) {
	c := newChecker(t)
	c.prepare(nil)
	for source, want := range map[string]string{
		`func f(tr fdb.Transaction) { tr.Get(fdb.Key("a")).Wait() }`: "Wait",
		`func f(tr fdb.Transaction) { tr.Set("a", nil) }`:            "KeyConvertible",
		`func f(tr fdb.Transaction) int64 { return tr.Commit() }`:    "FutureNil",
	} {
		dir := t.TempDir()
		text := "package p\n\nimport \"" + binding + "/src/fdb\"\n\n" + source + "\n"
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600))
		if _, err := c.try("p", dir, []string{"p.go"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", source, err, want)
		}
	}
}

func taggedContext() build.Context {
	ctx := build.Default
	ctx.BuildTags = append(ctx.BuildTags, tag)
	ctx.CgoEnabled = true
	return ctx
}

// checker type-checks packages from source. What they import comes from the
// compiler, but for the binding, which it can't compile without FoundationDB.
type checker struct {
	t       *testing.T
	set     *token.FileSet
	known   map[string]*types.Package // checked from source
	exports map[string]string         // files, by package
	dir     string                    // of the binding's module
	others  types.Importer
}

func newChecker(t *testing.T) *checker {
	c := &checker{t: t, set: token.NewFileSet(), known: map[string]*types.Package{}, exports: map[string]string{}}
	var module struct{ Dir string }
	c.goCommand(&module, "mod", "download", "-json", binding)
	c.dir = module.Dir
	c.others = importer.ForCompiler(c.set, "gc", func(name string) (io.ReadCloser, error) {
		file := c.exports[name]
		if file == "" {
			return nil, fmt.Errorf("no export data of %s", name)
		}
		return os.Open(file)
	})
	return c
}

// goCommand runs the go command and decodes the JSON values that it prints.
func (c *checker) goCommand(result any, args ...string) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), "go", args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		c.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &problems)
	}
	if err := json.Unmarshal(out, result); err != nil {
		c.t.Fatal(err)
	}
}

// prepare has the compiler make export data of packages, and of what the binding
// imports.
func (c *checker) prepare(imports []string) {
	c.t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--", "fmt", "errors", "log", "bytes", "runtime", "sync", "unsafe"}
	for _, name := range imports {
		if name != "C" && !strings.HasPrefix(name, binding+"/") && name != "github.com/conq-go/conq/kv/foundationdb" {
			args = append(args, name)
		}
	}
	command := exec.CommandContext(c.t.Context(), "go", args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		c.t.Fatalf("go list: %v\n%s", err, &problems)
	}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.exports[name] = file
	}
}

// Import implements types.Importer.
func (c *checker) Import(name string) (*types.Package, error) {
	switch known := c.known[name]; {
	case known != nil:
		return known, nil
	case name == "unsafe":
		return types.Unsafe, nil
	case !strings.HasPrefix(name, binding+"/"):
		return c.others.Import(name)
	}
	dir := filepath.Join(c.dir, filepath.FromSlash(strings.TrimPrefix(name, binding)))
	ctx := taggedContext()
	source, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	package_, err := c.try(name, dir, append(source.GoFiles, source.CgoFiles...))
	c.known[name] = package_
	return package_, err
}

// try checks the files of a package, and returns all that is wrong.
func (c *checker) try(name, dir string, files []string) (*types.Package, error) {
	var trees []*ast.File
	for _, file := range files {
		tree, err := parser.ParseFile(c.set, filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	var problems []error
	config := types.Config{Importer: c, FakeImportC: true, Error: func(err error) { problems = append(problems, err) }}
	package_, _ := config.Check(name, c.set, trees, nil)
	return package_, errors.Join(problems...)
}

func (c *checker) check(name, dir string, files []string) *types.Package {
	c.t.Helper()
	package_, err := c.try(name, dir, files)
	if err != nil {
		c.t.Errorf("%s: %v", path.Base(name), err)
	}
	return package_
}
