package cli

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// transactions counts them.
type transactions struct {
	kv.DB
	n int
}

func (t *transactions) Transact(ctx context.Context, f func(kv.Tx) error) error {
	t.n++
	return t.DB.Transact(ctx, f)
}

// peek --max prints what pop --max would, in transactions that are not larger if the queue is.
func TestPeekMaxInPages(t *testing.T) {
	for _, ties := range []string{"last", "first"} {
		var out bytes.Buffer
		a, db := &app{stdout: &out, codec: "bytes"}, &transactions{DB: memory.New(memory.Options{})}
		p, err := a.openPriority(db, "p", ends{true, ties})
		testkit.NoError(t, err)
		const all = 2400
		batch := []item{{bytes.Repeat([]byte("split "), 50_000), 3}}
		for i := len(batch); i < all; i++ {
			batch = append(batch, item{fmt.Append(nil, i), int64(i % 7)})
		}
		testkit.NoError(t, p.put(t.Context(), batch))
		peek := func(n int) (string, int) {
			out.Reset()
			db.n = 0
			sink := a.sink(printFlags{priority: true})
			done, err := p.peekMax(t.Context(), db, n, sink)
			testkit.NoError(t, err)
			testkit.NoError(t, sink.flush())
			return out.String(), done
		}
		most, n := peek(all - 1)
		if n != all-1 || db.n != 3 {
			t.Errorf("ties %s: peek prints %d items in %d transactions", ties, n, db.n)
		}
		peeked, n := peek(all + 1)
		if n != all {
			t.Errorf("ties %s: peek prints %d items", ties, n)
		}
		out.Reset()
		d := delivery{db: db, source: p, sink: a.sink(printFlags{priority: true})}
		if n, err := d.run(t.Context(), all+1); err != nil || n != all {
			t.Fatal(n, err)
		}
		if popped := out.String(); peeked != popped || most == popped || !bytes.HasPrefix(out.Bytes(), []byte(most)) {
			t.Errorf("ties %s: peek and pop print different things", ties)
		}
	}
}
