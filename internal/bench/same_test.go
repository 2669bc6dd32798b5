package bench

import (
	"bytes"
	"os"
	"testing"

	"github.com/conq-go/conq/kv/embedded"
)

// What the floor writes is a queue: the same keys and payloads, and it opens the
// store with the same options.
func TestFloorWritesTheSame(t *testing.T) {
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval, embedded.Memory} {
		t.Run(d.String(), func(t *testing.T) {
			const before, added, taken = 5, 20, 7
			dir := newStore(t, before)
			options := bytes.Replace(readFile(t, optionsFile(t, dir)), []byte("disable_wal=true"), []byte("disable_wal=false"), 1)
			f := openFloor(t, dir, d)
			for range added {
				check(t, f.enqueue())
			}
			for range before {
				check(t, f.dequeue())
			}
			if err := f.dequeue(); err == nil {
				t.Error("the floor deletes an item that it has not found at first")
			}
			check(t, f.close())
			if got := readFile(t, optionsFile(t, dir)); !bytes.Equal(got, options) {
				t.Errorf("the floor's options are\n%s\nconq's are\n%s", got, options)
			}
			q := openQueue(t, dir, d)
			for i := range taken {
				got, err := q.queue.Dequeue(q.ctx)
				check(t, err)
				if want := payload(int64(before + 1 + i)); !bytes.Equal(got, want) {
					t.Errorf("item %d is %x, want %x", i, got, want)
				}
			}
			n, err := q.queue.Len(q.ctx)
			check(t, err)
			if n != added-taken {
				t.Errorf("%d items are left, want %d", n, added-taken)
			}
			check(t, q.close())
		})
	}
}

func readFile(t *testing.T, name string) []byte {
	text, err := os.ReadFile(name)
	check(t, err)
	return text
}
