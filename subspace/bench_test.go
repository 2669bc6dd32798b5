package subspace_test

import (
	"testing"

	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

func BenchmarkPack(b *testing.B) {
	s, elems := subspace.Named("emails"), tuple.Tuple{int64(123456), []byte("01234567890123456789")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Pack(elems); err != nil {
			b.Fatal(err)
		}
	}
}
