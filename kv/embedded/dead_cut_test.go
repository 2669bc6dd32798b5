package embedded

import (
	"testing"

	"github.com/conq-go/conq/kv/internal/overlay"
)

// TestCutAgain checks that of a gap which was cut where keys were set, the rest is known.
func TestCutAgain(t *testing.T) {
	d := newDeadSpace()
	d.learn([]byte("a"), []byte("z"), 1)
	for version, key := range []string{"c", "d", "e"} {
		d.commit(&effects{changes: []*overlay.Change{{Kind: overlay.Set, Key: append([]byte(key), 0)[:1]}}}, uint64(version+2), 1)
		if got := d.forward([]byte(key), 1); string(got) != key {
			t.Errorf("%q is set, and passed over as far as %q", key, got)
		}
		if got := d.forward([]byte("x"), 1); string(got) != "z" {
			t.Errorf("after %q was set, what is dead from x on ends at %q, want z", key, got)
		}
	}
}
