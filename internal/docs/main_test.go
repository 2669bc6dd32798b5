// Package docs has the tests of the repository as a whole: which package may import what, the laws
// of the code, and that the documents say what is so.
package docs

import (
	"context"
	"os"
	"testing"

	"github.com/conq-go/conq/internal/cli"
	"github.com/rogpeppe/go-internal/testscript"
)

// The tests can run conq, which is the test binary by another name.
func TestMain(m *testing.M) {
	testscript.Main(fromRoot{m}, map[string]func(){"conq": func() { os.Exit(cli.Main()) }})
}

// fromRoot are tests in which all paths are from the root of the repository.
type fromRoot struct{ *testing.M }

func (m fromRoot) Run() int {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	return m.M.Run()
}

var ctx = context.Background()

// check is for what can't go wrong.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
