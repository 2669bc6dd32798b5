package layout_test

import (
	"testing"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// The key of a staged item that is damaged has no place, and nothing panics.
func TestPlaceOfDamagedKey(t *testing.T) {
	q := layout.New("q", queue.KindQueue, kv.Limits{})
	key := append(q.Prefix(), testkit.Pack(t, 7, make([]byte, 20))...)
	if _, place := q.Place(key); place == nil {
		t.Fatal("the key of an item has no place")
	}
	for n := range len(q.Prefix()) + 1 {
		if _, place := q.Place(key[:n]); place != nil {
			t.Errorf("%q has the place %q", key[:n], place)
		}
	}
}
