// Package docs has the tests of the repository as a whole: which package may import what, the laws
// of the code, and that the documents say what is so.
package docs

import (
	"context"
	"os"
	"testing"
)

// All paths are from the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var ctx = context.Background()

// check is for what can't go wrong.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
