//go:build !foundationdb || !cgo

package foundationdb

// available tells whether the binding is in this build.
const available = false

func connect(string) (client, error) { return nil, ErrNotBuilt }
