//go:build unix

package docs

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/server"
)

const address = "127.0.0.1:7711" // of the server on all pages

// freeAddress returns one that no server has, for a page's commands to use in place of address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// The shell blocks of a page, one after the other, print what the page says. A server that they start listens where nobody
// else does.
func TestShell(t *testing.T) {
	testkit.Long(t)
	for _, page := range []string{"README.md", "docs/start-command.md", "docs/start-server.md", "docs/jobs.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			script := strings.Join(blocks(t, page, "sh"), "")
			if strings.Contains(script, "curl ") {
				needs(t, "curl")
			}
			var want strings.Builder
			for line := range strings.Lines(script) {
				if text, ok := strings.CutPrefix(line, "#> "); ok {
					want.WriteString(text)
				}
			}
			at := freeAddress(t)
			script = strings.ReplaceAll(strings.ReplaceAll(script, "conq serve", "conq serve --listen "+at), address, at)
			equal(t, output(t, t.TempDir(), "sh", "-c", script), want.String())
		})
	}
}

// output returns what a command prints. It has no store but those that it names.
func output(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	cmd.Env = append(os.Environ(), "CONQ_STORE=")
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(got)
}

func needs(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("it needs %s", tool)
	}
}

// run compiles a program, and returns what it prints.
func run(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644))
	// From the root of the repository, for its go.mod.
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-w", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s\n%s", err, out, program)
	}
	return output(t, dir, filepath.Join(dir, "program"))
}

// The program of docs/start-library.md compiles, and prints what the page says.
func TestLibraryProgram(t *testing.T) {
	testkit.Long(t)
	const page = "docs/start-library.md"
	equal(t, run(t, blocks(t, page, "go")[0]), blocks(t, page, "text")[0])
}

// The lines of Go in README.md do what they say, in a program around them.
func TestReadmeGo(t *testing.T) {
	testkit.Long(t)
	equal(t, run(t, `package main

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

type Email struct{ To string }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	send := func(_ context.Context, job *work.Lease[string]) error {
		fmt.Println("sent", job.Value)
		stop()
		return nil
	}
`+blocks(t, "README.md", "go")[0]+`
	if err != nil {
		panic(err)
	}
}
`), "sent to ada\n")
}

// serve returns the address of a server of an empty store.
func serve(t *testing.T) string {
	t.Helper()
	db, err := conq.Open(t.Context(), "memory:")
	testkit.NoError(t, err)
	s, err := server.New(db, server.Options{})
	testkit.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	serving, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(serving, l) }()
	t.Cleanup(func() {
		stop()
		testkit.NoError(t, <-stopped)
		testkit.NoError(t, s.Close())
		testkit.NoError(t, db.Close())
	})
	return l.Addr().String()
}

// The Go program of docs/start-server.md uses a server as the page says.
func TestClientProgram(t *testing.T) {
	testkit.Long(t)
	const page = "docs/start-server.md"
	program := strings.ReplaceAll(blocks(t, page, "go")[0], address, serve(t))
	equal(t, run(t, program), blocks(t, page, "text")[0])
}

// README.md is read in a minute.
func TestReadmeIsShort(t *testing.T) {
	if lines := strings.Count(string(readFile(t, "README.md")), "\n"); lines > 120 {
		t.Errorf("README.md has %d lines, 120 are wanted: what is more belongs to a page of docs", lines)
	}
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

// The test on docs/testing.md passes.
func TestTestingPage(t *testing.T) {
	testkit.Long(t)
	file := filepath.Join(t.TempDir(), "mail_test.go")
	testkit.NoError(t, os.WriteFile(file, []byte(blocks(t, "docs/testing.md", "go")[0]), 0o644))
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-ldflags=-w", file).CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}

// The workers on docs/clients.md do the jobs that they put.
func TestClientsPage(t *testing.T) {
	for _, c := range []struct{ language, tool, want string }{{"python", "python3", "sent to ada\n"}, {"js", "node", "sent to ben\n"}} {
		t.Run(c.language, func(t *testing.T) {
			needs(t, c.tool)
			program := strings.ReplaceAll(blocks(t, "docs/clients.md", c.language)[0], address, serve(t))
			file := filepath.Join(t.TempDir(), "worker."+c.language)
			testkit.NoError(t, os.WriteFile(file, []byte(program), 0o644))
			equal(t, output(t, "", c.tool, file), c.want)
		})
	}
}

// docs/reference/command.md has all commands.
func TestCommandPage(t *testing.T) {
	page := string(readFile(t, "docs/reference/command.md"))
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(output(t, "", "conq", "--help"), -1)
	if len(commands) < 25 {
		t.Fatalf("conq --help has %d commands", len(commands))
	}
	for _, c := range commands {
		if c[1] != "help" && !regexp.MustCompile("`"+c[1]+"[ `]").MatchString(page) {
			t.Errorf("the page does not have %s", c[1])
		}
	}
}

// What pages show of Go compiles, but for variables that are not used. Pages leave out what they get from before.
func TestFragments(t *testing.T) {
	program := "package fragments\n\nimport (\n"
	for _, name := range []string{"context", "net/http", "time", module, module + "/kv", module + "/server", module + "/work"} {
		program += strconv.Quote(name) + "\n"
	}
	program += `)

type Email struct{ To string }

func send(context.Context, Email) error { return nil }
func userOf(*http.Request) (user struct { Name string; IsOperator bool }) { return user }

type counter struct{}

func (counter) WithLabelValues(...string) counter { return counter{} }
func (counter) Add(float64) {}

var (
	ctx    = context.Background()
	db     kv.DB
	emails *conq.Queue[Email]
	tasks  *conq.PriorityQueue[string]
	job    *work.Lease[Email]
	mux    *http.ServeMux
	codec  = conq.JSON[Email]()
	jobs   counter
	kinds  map[work.EventKind]string
	err    error

	_ = server.New
	_ = time.Hour
)
`
	n := 0
	for _, page := range []string{"docs/jobs.md", "docs/transactions.md", "docs/monitoring.md", "docs/reference/http.md"} {
		for _, fragment := range blocks(t, page, "go") {
			n++
			program += "\nfunc _() {\n" + fragment + "}\n"
		}
	}
	file := filepath.Join(t.TempDir(), "fragments.go")
	testkit.NoError(t, os.WriteFile(file, []byte(program), 0o644))
	out, _ := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "declared and not used") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if n < 5 {
		t.Errorf("there are only %d fragments", n)
	}
}
