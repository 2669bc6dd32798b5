package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// unsure is a store that is shared, where commits may be unknown. It outlives its Close.
type unsure struct{ kv.DB }

func (u unsure) Limits() kv.Limits {
	l := u.DB.Limits()
	l.Shared, l.UnknownCommits = true, true
	return l
}

func (unsure) Close() error { return nil }

// A command leaves no keys behind that only its own handles need.
func TestOutcomesForgotten(t *testing.T) {
	db := unsure{memory.New(memory.Options{})}
	kv.Register("unsure", func(context.Context, string) (kv.DB, error) { return db, nil })
	for _, command := range []string{
		"enqueue q a", "push p --priority 1 a", "dequeue q", "pop p", "enqueue q b", "purge q --yes", "purge p --yes",
		"demo --items 50", "bench --items 50 --handles 2",
	} {
		var stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: &stderr}
		if code := a.run(t.Context(), append(strings.Fields(command), "--store", "unsure:")); code != 0 {
			t.Fatalf("%s: exit code %d, %s", command, code, &stderr)
		}
		report, err := conq.Check(t.Context(), db)
		testkit.NoError(t, err)
		if report.Outcomes+report.Waiting > 0 || report.Faults > 0 {
			t.Errorf("after %s there are %d outcome keys, %d entries in line, %d faults",
				command, report.Outcomes, report.Waiting, report.Faults)
		}
	}
}
