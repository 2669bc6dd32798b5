package conq

import (
	"testing"

	"github.com/conq-go/conq/tuple"
)

// FuzzPieceCount takes any key for that of an item.
func FuzzPieceCount(f *testing.F) {
	f.Add([]byte{0x15, 1, 1, 'r', 0, 0x15, 2}, 1)
	f.Add([]byte{0x14, 0x14, 1, 0, 0xff, 0}, 2)
	f.Fuzz(func(t *testing.T, fields []byte, integers int) {
		n, err := pieceCount(fields, integers&3)
		if (err == nil) != (n >= 1) {
			t.Fatalf("%d pieces, error %v", n, err)
		}
		elems, bad := tuple.Unpack(fields)
		if err == nil && bad == nil && len(elems) != integers&3+1+min(n-1, 1) {
			t.Fatalf("%d pieces by a key of %d elements", n, len(elems))
		}
	})
}
