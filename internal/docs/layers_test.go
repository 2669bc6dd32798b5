package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

const module = "github.com/conq-go/conq"

// layer says what the code of a package may import, tests apart.
type layer struct {
	dir     string   // of the package; with "/..." those below it too
	imports []string // packages of this module, in the same form
	others  bool     // may import other modules
	reason  string   // why it may not import more
}

// layers is the order of the packages: each imports only what is below it.
var layers = []layer{
	{"kv", nil, false, "it is the contract: who writes an engine, or a layer, must not get anything else with it"},
	{"kv/internal/...", []string{"kv", "kv/internal/..."}, true, "engines share it, so it can't know one of them, nor queues"},
	{"kv/kvtest", []string{"kv", "kv/internal/...", "internal/kvext"}, true, "it judges every engine by the contract alone"},
	{"kv/embedded/internal/cache", []string{"kv", "kv/internal/overlay", "internal/linked"}, true, "it keeps what reads and commits tell it, and knows neither Pebble nor the journal"},
	{"kv/embedded/internal/guardfs", nil, true, "it guards files of any kind: what they hold is the engine's"},
	{"kv/embedded/internal/wal", []string{"kv/embedded/internal/guardfs", "internal/batch"}, true, "its records are bytes: what they do to a store is the engine's"},
	{"kv/embedded", []string{"kv", "kv/internal/...", "kv/embedded/internal/...", "internal/linked", "internal/options", "internal/kvext"}, true, "an engine stores keys and values: it knows neither queues nor other engines"},
	{"kv/...", []string{"kv", "kv/internal/...", "internal/linked", "internal/options", "internal/kvext"}, true, "an engine stores keys and values: it knows neither queues nor other engines"},
	{"tuple", nil, false, "it is an encoding: bytes in, values out"},
	{"subspace", []string{"kv", "tuple"}, false, "it makes keys and ranges, and reads nothing"},
	{"queue", []string{"kv", "tuple"}, false, "a client must not bring a store"},
	{"internal/kvext", []string{"kv"}, false, "it is what our engines can do besides: which one it is, others say"},
	{"internal/options", []string{"kv"}, false, "its options are of anything"},
	{"recipe", []string{"kv", "tuple", "subspace", "internal/kvext"}, false, "it is the published algorithm on one transaction, on any engine"},
	{"internal/audit", []string{"queue"}, false, "it judges histories, so it must not share code with what made them"},
	{"internal/budget", []string{"kv"}, false, "it counts what transactions do: what that is for, others know"},
	{"internal/reads", []string{"kv"}, false, "it reads whatever it is asked for, with a store or without"},
	{"internal/layout", below("recipe", "internal/budget", "internal/reads"), false, "it is keys, bytes and which queues there are: what happens to those, others know"},
	{"internal/outcome", below(), false, "it lends lanes of transactions, on any engine"},
	{"internal/staging", below("recipe", "internal/outcome", "internal/budget"), false, "it works inside of transactions, on any engine"},
	{"internal/version", nil, false, "a client says its version too, so it must bring nothing"},
	{"internal/jsontext", nil, true, "it judges texts, whoever reads them"},
	{"internal/linked", nil, false, "its lists are of anything"},
	{"internal/batch", []string{"kv", "internal/linked"}, false, "its calls are of any kind; that a commit may be unknown is all it knows of stores"},
	{"internal/dump/stream", []string{"internal/reads"}, false, "it is a form of bytes: it knows neither stores nor how priorities are packed"},
	{"internal/handle", below("recipe", "internal/layout", "internal/reads", "internal/staging", "internal/outcome", "internal/batch", "internal/budget"), false, "it is what a handle does in bytes: values are the root's, and which engine it is others say"},
	{"internal/cron", nil, false, "it is about time alone"},
	{"internal/jobs", below("internal/cron", "internal/budget"), false, "it works inside of transactions, on any engine"},
	{"internal/check", below("internal/layout", "internal/jobs", "internal/reads", "internal/handle", "internal/staging", "internal/outcome"), false, "it reads any store, of any engine"},
	{"internal/dump", below("recipe", "internal/layout", "internal/reads", "internal/handle", "internal/jobs", "internal/outcome", "internal/dump/stream", "internal/budget"), false, "queues travel between stores of any engine"},
	{"internal/remove", below("internal/layout", "internal/jobs", "internal/reads", "internal/outcome", "internal/budget"), false, "it deletes queues of any kind, in any store"},
	{".", below("internal/layout", "internal/handle", "internal/dump", "internal/check", "internal/remove"), false, "queues work on any engine; which ones a program links, open.go and the program say"},
	{"internal/tubeverbs", []string{"kv"}, false, "it names verbs: who has them, and who calls them, stand above"},
	{"work", below("internal/tubeverbs", "internal/layout", "internal/jobs", "internal/outcome", "internal/budget", "internal/batch", "internal/reads"), true, "work queues work on any engine, beside queues and not on top of them"},
	{"work/tracing", []string{"work"}, true, "it stands on what users have: who does not trace must not link OpenTelemetry"},
	{"internal/wire", []string{"kv", "queue", "work"}, false, "it is what goes over a network: a client must not bring a store, nor a server"},
	{"client", []string{"kv", "queue", "work", "internal/options", "internal/batch", "internal/reads", "internal/version", "internal/wire"}, true, "a client talks to a server: it must not bring a store"},
	{"server/internal/queues", below("internal/handle", ".", "work"), true, "it opens queues of a store, and changes them in the background: what is asked of them, and over what, is its users'"},
	{"server/internal/access", []string{"internal/jsontext"}, true, "it says who may do what: what that does is others'"},
	{"server/internal/answers", below("internal/layout", "internal/batch", "internal/budget"), false, "it remembers answers: what they are of is its users'"},
	{"server/internal/watch", below("internal/layout", "internal/jobs", "internal/version", ".", "work"), true, "it reads the store and is told of calls: who makes them, and who looks at it, others know"},
	{"server/internal/api", below("internal/handle", "internal/layout", "internal/budget", "internal/batch", "internal/jsontext", "internal/version", "internal/wire", ".", "work", "server/internal/answers", "server/internal/queues", "server/internal/access", "server/internal/watch"), true, "it is HTTP: other protocols and pages stand beside it"},
	{"server/internal/beanstalk", below("internal/tubeverbs", "internal/batch", ".", "work", "server/internal/queues", "server/internal/access", "server/internal/watch"), true, "it is one protocol: HTTP stands beside it"},
	{"server/internal/dashboard", below("internal/handle", "internal/wire", "internal/version", ".", "work", "server/internal/queues", "server/internal/access", "server/internal/watch"), true, "it shows the queues: the API stands beside it"},
	{"server", below("recipe", "internal/staging", ".", "work", "server/internal/..."), true, "it serves whatever store it is given"},
	{"internal/load", below(".", "work"), true, "it measures queues as users have them, on whatever store it is given"},
	{"internal/demo", below("recipe", "internal/staging", ".", "work", "internal/audit", "internal/load"), true, "it tries out the queues of whatever store it is given"},
	{"internal/linear/...", []string{"..."}, true, ""},
	{"internal/testkit", below("recipe", "internal/layout", "kv/memory", "kv/faulty"), true, "tests of all packages may import it"},
	{"internal/testkit/engines", below("internal/testkit", "kv/embedded"), true, "tests of the engines import internal/testkit, so it stands apart"},
	{"bench/...", []string{"..."}, true, ""},
	{"internal/cli", []string{"..."}, true, ""},
	{"cmd/...", []string{"internal/cli"}, false, "main only calls the command line, where tests can reach it"},
}

func below(dirs ...string) []string {
	return append([]string{"kv", "tuple", "subspace", "queue", "internal/options", "internal/kvext"}, dirs...)
}

// open.go is where the root package links the engines that Open always knows.
var exceptions = map[string][]string{"open.go": {"kv/embedded", "kv/memory"}}

func layerOf(dir string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return matches(l.dir, dir) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

// matches tells whether pattern, which may end in "...", is for dir.
func matches(pattern, dir string) bool {
	if prefix, all := strings.CutSuffix(pattern, "..."); all {
		return strings.HasPrefix(dir+"/", prefix)
	}
	return pattern == dir
}

// allows tells whether a file of the layer may import a package.
func (l layer) allows(file, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	dir, own := strings.CutPrefix(imported, module)
	if !own {
		return l.others || !strings.Contains(first, ".") // the standard library has no dots
	}
	dir = path.Join(".", strings.TrimPrefix(dir, "/"))
	allowed := append(slices.Clone(l.imports), exceptions[file]...)
	return slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, dir) })
}

// sources calls f with each file of Go of the module that is no test.
func sources(t *testing.T, f func(file string, set *token.FileSet, tree *ast.File)) {
	t.Helper()
	n := 0
	testkit.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || strings.HasPrefix(name, ".") || isModule(file)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		n++
		f(filepath.ToSlash(file), set, tree)
		return nil
	}))
	if n < 20 {
		t.Fatalf("only %d files found", n)
	}
}

// isModule tells whether a directory is that of another module.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// Each package imports only the layers below it.
func TestLayers(t *testing.T) {
	sources(t, func(file string, _ *token.FileSet, tree *ast.File) {
		l, known := layerOf(path.Dir(file))
		if !known {
			t.Errorf("%s: its package is in no layer: say in layers what it may import, and why", file)
			return
		}
		for _, spec := range tree.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			testkit.NoError(t, err)
			if !l.allows(file, imported) {
				t.Errorf("%s imports %s: %s", file, imported, l.reason)
			}
		}
	})
}

// The rules refuse what they are there to refuse.
func TestLayersRefuse(t *testing.T) {
	for _, c := range []struct {
		file, imported string
		want           bool
	}{
		{"kv/kv.go", "context", true},
		{"kv/kv.go", "golang.org/x/sync/errgroup", false},
		{"kv/kv.go", module + "/tuple", false},
		{"kv/memory/memory.go", module + "/kv/embedded", false},
		{"kv/memory/memory.go", module + "/kv/internal/retry", true},
		{"kv/embedded/db.go", "github.com/cockroachdb/pebble/v2", true},
		{"tuple/pack.go", module + "/kv", false},
		{"recipe/queue.go", module, false},
		{"queue.go", module + "/kv/memory", false},
		{"queue.go", module + "/work", false},
		{"open.go", module + "/kv/memory", true},
		{"open.go", module + "/kv/etcd", false},
		{"work/queue.go", module, false},
		{"work/queue.go", module + "/internal/jobs", true},
		{"server/http.go", module + "/kv/embedded", false},
		{"internal/cli/store.go", module + "/kv/embedded", true},
		{"cmd/conq/main.go", module, false},
		{"cmd/conq/main.go", module + "/internal/cli", true},
	} {
		l, known := layerOf(path.Dir(c.file))
		testkit.Equal(t, c.file+" is known", known, true)
		testkit.Equal(t, c.file+" imports "+c.imported, l.allows(c.file, c.imported), c.want)
	}
	_, known := layerOf("elsewhere")
	testkit.Equal(t, "elsewhere is known", known, false)
}

// linked says what only some packages may bring with them, however far down: who
// imports another one must not have to link it.
var linked = []struct {
	prefix string   // of the packages
	by     []string // directories that may depend on them
	reason string
}{
	{"go.etcd.io/", []string{"kv/etcd", "internal/cli", "cmd/conq"}, "etcd's client is only for programs that import kv/etcd"},
	{"github.com/apple/foundationdb/", nil, "FoundationDB's binding is only in builds with the tag foundationdb"},
}

// inC are packages that are partly written in C, where the toolchain allows it
// (CGO_ENABLED): all of them do without, and .ci/run builds that.
var inC = []string{
	"runtime/cgo", "net", "os/user", // of the standard library
	"github.com/DataDog/zstd", "github.com/cockroachdb/pebble/v2/internal/manual", // for Pebble
}

// A build without tags links neither FoundationDB nor, but for those who import it,
// etcd's client; and no C but what it can do without.
func TestLinked(t *testing.T) {
	list := func(args ...string) []string {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-tags="}, args...)...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		testkit.NoError(t, err)
		return strings.Fields(string(out))
	}
	brings := make(map[string]int) // how many packages depend on it
	for _, pkg := range list("-f", `{{.ImportPath}},{{join .Deps ","}}`, "./...") {
		name, deps, _ := strings.Cut(pkg, ",")
		dir := path.Join(".", strings.TrimPrefix(strings.TrimPrefix(name, module), "/"))
		for _, l := range linked {
			if !strings.Contains(","+deps, ","+l.prefix) {
				continue
			}
			if brings[l.prefix]++; !slices.Contains(l.by, dir) {
				t.Errorf("%s depends on %s: %s", dir, l.prefix, l.reason)
			}
		}
	}
	for _, l := range linked {
		testkit.Equal(t, "packages that depend on "+l.prefix, brings[l.prefix], len(l.by))
	}
	for _, pkg := range list("-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "./...") {
		if !slices.Contains(inC, pkg) {
			t.Errorf("%s needs C: is there a build without?", pkg)
		}
	}
}

// Nothing sleeps: what waits, waits for something.
func TestNothingSleeps(t *testing.T) {
	sources(t, func(_ string, set *token.FileSet, tree *ast.File) {
		ast.Inspect(tree, func(node ast.Node) bool {
			n, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && n.Sel.Name == "Sleep" {
				t.Errorf("%v: time.Sleep: wait for a timer and the context, or for what happens", set.Position(n.Pos()))
			}
			return true
		})
	})
}

// A program that knows queues by a server links no store, and nothing of the server.
func TestClientBringsNoStore(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./client")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	testkit.NoError(t, err)
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/work") {
		t.Fatalf("go list says %q", deps)
	}
	for _, dep := range deps {
		own := strings.HasPrefix(dep, module)
		for _, store := range []string{"pebble", "go.etcd.io/", "foundationdb", module + "/kv/", module + "/server", "huma", "prometheus"} {
			if strings.Contains(dep, store) {
				t.Errorf("client depends on %s", dep)
			}
		}
		if first, _, _ := strings.Cut(dep, "/"); !own && strings.Contains(first, ".") {
			t.Errorf("client depends on %s, of another module", dep)
		}
	}
}

// bare are the files that may run transactions on a store by themselves, with the reason: all others use handles, conq.Transact or
// internal/outcome, which find out what became of a commit whose outcome is unknown.
var bare = map[string]string{
	"internal/layout/catalogue.go":       "it looks before it writes, and goes on after an unknown outcome",
	"internal/check/check.go":            "it looks again before it repairs, and goes on after an unknown outcome",
	"internal/jobs/ids.go":               "ids that may have been taken are left, and others taken",
	"internal/load/count.go":             "it passes on what others do, and counts it",
	"internal/staging/expire.go":         "it looks before it puts back, and the next one goes on",
	"server/internal/answers/answers.go": "the answer that a transaction stores is what tells whether it was committed",
}

// No command, server or handle runs a transaction whose outcome stays unknown.
func TestKnownOutcomes(t *testing.T) {
	found := make(map[string]bool)
	sources(t, func(file string, set *token.FileSet, tree *ast.File) {
		if strings.HasPrefix(file, "kv/") || strings.HasPrefix(file, "bench/") || strings.HasPrefix(file, "internal/testkit/") {
			return // engines, and what stands in for one
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || of.Sel.Name != "Transact" || !isStore(of.X) {
				return true
			}
			if found[file] = true; bare[file] == "" {
				t.Errorf("%v: a transaction whose outcome may stay unknown: use a handle, conq.Transact or internal/outcome", set.Position(n.Pos()))
			}
			return true
		})
	})
	for file, reason := range bare {
		if !found[file] {
			t.Errorf("%s has no transaction of its own any more, which it may have as %s", file, reason)
		}
	}
}

// isStore tells whether an expression is a store: it is called db, or DB, or is what a call of DB returns.
func isStore(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "db") || x.Name == "store"
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "db") || x.Sel.Name == "store"
	case *ast.CallExpr:
		return isStore(x.Fun)
	}
	return false
}
