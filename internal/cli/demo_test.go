package cli

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

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
		if f.n.Add(1)%50 == 0 {
			tx = keeps{tx}
		}
		return do(tx)
	})
}

func (forgetful) Close() error { return nil }

type keeps struct{ kv.Tx }

func (keeps) Clear([]byte) {}

func TestDemoOfBrokenStore(t *testing.T) {
	db := forgetful{memory.New(memory.Options{}), new(atomic.Int64)}
	kv.Register("forgetful", func(string) (kv.DB, error) { return db, nil })
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
}
