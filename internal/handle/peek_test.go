package handle_test

import (
	"context"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// fickle is an engine that has all lazy reads fail with a conflict.
type fickle struct {
	kv.DB
	attempts, lazy int
}

func (f *fickle) ReadTransact(ctx context.Context, do func(kv.Reader) error) error {
	lazily := false
	f.attempts++
	err := f.DB.ReadTransact(ctx, func(r kv.Reader) error { return do(lazyReader{r, &lazily}) })
	if lazily {
		f.lazy++
		return kv.ErrConflict
	}
	return err
}

type lazyReader struct {
	kv.Reader
	lazily *bool
}

func (r lazyReader) Lazily() { *r.lazily = true }

// A peek is lazy, and comes again if what it has read has changed meanwhile.
func TestPeekAgain(t *testing.T) {
	db := &fickle{DB: memory.New(memory.Options{})}
	defer db.Close()
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
	testkit.NoError(t, err)
	for _, want := range []struct {
		item string
		err  error
	}{{"", conq.ErrEmpty}, {"a", nil}} {
		if want.err == nil {
			testkit.NoError(t, q.Enqueue(t.Context(), want.item))
		}
		db.attempts, db.lazy = 0, 0
		item, err := q.Peek(t.Context())
		testkit.WantError(t, err, want.err)
		if item != want.item || db.attempts != 2 || db.lazy != 1 {
			t.Errorf("%q after %d attempts, %d of them lazy, want %q after 2 and 1", item, db.attempts, db.lazy, want.item)
		}
	}
}
