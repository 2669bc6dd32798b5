package layout_test

import (
	"testing"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// FuzzEntry reads anything as an entry of the catalogue: without a panic, and what is read is what would
// be written of it.
func FuzzEntry(f *testing.F) {
	prefix := len(layout.Entries().Bytes())
	f.Add(layout.EntryKey("q")[prefix:], tuple.AppendInt(tuple.AppendString(nil, "queue"), 1))
	f.Add(layout.EntryKey("a\x00b")[prefix:], tuple.AppendInt(tuple.AppendString(nil, "priority queue"), 1))
	f.Fuzz(func(t *testing.T, rest, value []byte) {
		info, err := layout.ParseEntry(kv.KeyValue{Key: append(layout.Entries().Bytes()[:prefix:prefix], rest...), Value: value})
		if err != nil {
			testkit.WantError(t, err, queue.ErrCorrupt)
			return
		}
		again, err := layout.ParseEntry(kv.KeyValue{Key: layout.EntryKey(info.Name), Value: value})
		testkit.NoError(t, err)
		testkit.Equal(t, "entry", again, info)
	})
}
