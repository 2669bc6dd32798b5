package work

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// A lease goes on where its token is known, on another handle too.
func TestToken(t *testing.T) {
	ctx, db := context.Background(), store(t)
	q, other := open(t, db, Options{}), open(t, db, Options{})
	id, err := q.Put(ctx, "a", Job{Lease: time.Minute, Key: "k"})
	noError(t, err)
	second, err := q.Put(ctx, "b", Job{Key: "k"})
	noError(t, err)
	l, err := q.ReserveWait(ctx)
	noError(t, err)
	held, err := other.Held(l.ID, l.Token())
	noError(t, err)
	if held.Attempt != 1 || held.length != time.Minute || held.Token() != l.Token() {
		t.Fatalf("it is attempt %d of %v with token %s", held.Attempt, held.length, held.Token())
	}
	noError(t, held.Extend(ctx, 0))
	waits := make(chan *Lease[string], 1)
	go func() {
		l, err := q.ReserveWait(ctx)
		if err != nil {
			t.Error(err)
		}
		waits <- l
	}()
	noError(t, held.Ack(ctx)) // frees the slot of k, and tells the one that waits
	if got := <-waits; got.ID != second {
		t.Fatalf("job %d came, want %d", got.ID, second)
	}
	isError(t, l.Ack(ctx), ErrLeaseLost)
	_, err = q.Get(ctx, id)
	isError(t, err, ErrNotFound)
	sound(t, q)
}

func FuzzHeld(f *testing.F) {
	for _, text := range []string{"", "1-1-1-1", "zz-1-gmd3-0", "1-1-1", "----", "-1-1-gmd3-0", "1-1-gmd3-0-0", "1y2p0ij32e8e7-1-gmd3-1", "9999999999999999999-1-1-1"} {
		f.Add(text)
	}
	q := &Queue[string]{}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := q.Held(1, text)
		if err != nil {
			if !errors.Is(err, kv.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if l.Attempt < 0 || l.Attempt > math.MaxInt32 || l.length < MinLease {
			t.Fatalf("%q is %d %d %v", text, l.token, l.Attempt, l.length)
		}
		again, err := q.Held(1, l.Token())
		if err != nil || again.Token() != l.Token() {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
