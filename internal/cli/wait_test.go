package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
)

// until3 is an output that calls a function when it has three lines.
type until3 struct {
	bytes.Buffer
	then func()
}

func (u *until3) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Count(u.String(), "\n") == 3 {
		u.then()
	}
	return n, err
}

// A command that follows a queue goes on with what comes later, until it is interrupted: it finishes the batch under way.
func TestFollow(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.Bytes())
	testkit.NoError(t, err)
	testkit.NoError(t, q.Enqueue(t.Context(), []byte("a")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &until3{then: cancel}
	a := &app{stdout: out, store: "memory:", codec: "bytes"}
	follow := &taker{
		app: a, flags: takeFlags{follow: true}, name: "q", kind: conq.KindQueue, most: 1 << 30,
	}
	ended := make(chan error, 1)
	go func() { ended <- follow.drain(ctx, ctx, db) }()
	for _, item := range []string{"b", "c"} {
		testkit.Check(t, q.Enqueue(t.Context(), []byte(item)))
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := out.String(); got != "a\nb\nc\n" {
		t.Errorf("it printed %q", got)
	}
	if n, err := q.Len(t.Context()); err != nil || n != 0 {
		t.Errorf("%d items that it printed are still in, %v", n, err)
	}
}

// A name that is mistyped by a letter or two is recognised, and no other.
func TestDidYouMean(t *testing.T) {
	names := []string{"enqueue", "dequeue", "push", "pop", "ls"}
	for typed, want := range map[string]string{
		"enqeue": "enqueue", "dequeu": "dequeue", "pusj": "push", "pp": "pop", "frobnicate": "", "x": "", "": "", "queue": "enqueue",
	} {
		got := didYouMean(typed, names)
		if want != "" {
			want = `: did you mean "` + want + `"?`
		}
		if got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
