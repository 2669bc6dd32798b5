package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/load"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// forgetful is a store that now and then does not keep what is removed from it
// removed.
type forgetful struct {
	kv.DB
	n *atomic.Int64
}

func (f forgetful) Transact(ctx context.Context, do func(kv.Tx) error) error {
	return f.DB.Transact(ctx, func(tx kv.Tx) error {
		return do(keeps{tx, f.n})
	})
}

func (forgetful) Close() error { return nil }

type keeps struct {
	kv.Tx
	n *atomic.Int64
}

func (k keeps) Clear(key []byte) {
	if k.n.Add(1)%50 != 0 {
		k.Tx.Clear(key)
	}
}

// unread is standard output that is closed after the title.
type unread struct{ bytes.Buffer }

func (u *unread) Write(b []byte) (int, error) {
	if u.Len() > 0 {
		return 0, syscall.EPIPE
	}
	return u.Buffer.Write(b)
}

func TestDemoOfBrokenStore(t *testing.T) {
	db := forgetful{memory.New(memory.Options{}), new(atomic.Int64)}
	kv.Register("forgetful", func(context.Context, string) (kv.DB, error) { return db, nil })
	again := forgetful{memory.New(memory.Options{}), new(atomic.Int64)}
	kv.Register("unread", func(context.Context, string) (kv.DB, error) { return again, nil })
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	code := a.run(t.Context(), []string{"demo", "--items", "500", "--seed", "5", "--store", "forgetful:"})
	if code != exitFailure || !strings.Contains(stderr.String(), "conq: a check has failed, see the report") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	for _, want := range []string{"FAIL  nothing twice: ", "Something was broken. To run it again: --seed 5"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("report without %q:\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "Everything held") {
		t.Error("report says that everything held")
	}
	a = &app{stdin: strings.NewReader(""), stdout: new(unread), stderr: &stderr}
	code = a.run(t.Context(), []string{"demo", "--items", "500", "--store", "unread:"})
	if code != exitFailure {
		t.Errorf("nobody reads the report: exit code %d, %s", code, &stderr)
	}
}

// broken is a store that has failed.
type broken struct{ kv.DB }

var errBroken = errors.New("the store has failed")

func (broken) Transact(context.Context, func(kv.Tx) error) error { return errBroken }

func (broken) Close() error { return errBroken }

// A store that has failed says so again when it is closed, and the command once.
func TestFailureOnce(t *testing.T) {
	kv.Register("broken", func(context.Context, string) (kv.DB, error) { return broken{memory.New(memory.Options{})}, nil })
	for _, command := range []string{"bench", "demo"} {
		var stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: &stderr}
		code := a.run(t.Context(), []string{command, "--store", "broken:"})
		if code != exitFailure || strings.Count(stderr.String(), errBroken.Error()) != 1 {
			t.Errorf("%s: exit code %d, %s", command, code, &stderr)
		}
	}
}

// What is redrawn keeps within a row of the terminal: the next one would not be erased.
func TestLiveFits(t *testing.T) {
	for columns, want := range map[int]string{
		20: "\r\x1b[Kqueue            0.\r\x1b[K",
		0:  "\r\x1b[Kqueue            0.1 s  in         7  out         2         70/s\r\x1b[K",
	} {
		var stderr bytes.Buffer
		l := &live{app: &app{stderr: &stderr}, terminal: true, columns: func() int { return columns }}
		l.show(load.Progress{Phase: "queue", Elapsed: 100 * time.Millisecond, Put: 7, Took: 2})
		l.end()
		if got := stderr.String(); got != want {
			t.Errorf("in %d columns: %q", columns, got)
		}
	}
}
