//go:build foundationdb && cgo

package foundationdb_test
