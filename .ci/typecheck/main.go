// Typecheck tells whether all packages below the working directory, and their tests, would compile on the
// system that GOOS and GOARCH name. It reads their source and that of all they import, and compiles
// nothing: go vet, which compiles all of it, takes minutes more where nothing has been compiled yet.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	all, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Tests: true}, "./...")
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "typecheck:", err)
	case len(all) == 0:
		fmt.Fprintln(os.Stderr, "typecheck: there are no packages")
	case packages.PrintErrors(all) == 0:
		return
	}
	os.Exit(1)
}
