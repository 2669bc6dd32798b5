package linear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// reporter is a test whose report is read by another test.
type reporter struct {
	testing.TB
	failed bool
	text   strings.Builder
}

func (r *reporter) Helper() {}

func (r *reporter) Logf(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }

func (r *reporter) Errorf(format string, args ...any) { r.failed = true; r.Logf(format, args...) }

// A wrong history fails the test. The report shows it up to what is wrong, and where the pictures are.
func TestCheckReports(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "with a space")
	testkit.NoError(t, os.Mkdir(tmp, 0o755))
	t.Setenv("TMPDIR", tmp)
	h := sequence(put("a"), take(1, "a"), put("b"), length(1), put("c"), take(1, "c"), take(1, "b"), put("d"), take(1, "d"))
	h.Name = "orders"
	r := &reporter{TB: t}
	Check(r, sequence(put("a"), take(1, "a")), h)
	text := r.text.String()
	for _, want := range []string{`"orders"`, "put [b]", "put [c]", "take min = [c]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not have %s:\n%s", want, text)
		}
	}
	if !r.failed || strings.Contains(text, "[d]") {
		t.Errorf("failed: %v, want true, and a report without later calls:\n%s", r.failed, text)
	}
	found := regexp.MustCompile(`pictures of .*?: (.*conq-linear-\d+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the report does not say where the pictures are:\n%s", text)
	}
	for _, name := range []string{"0.html", "0.txt", "1.html", "1.txt"} {
		if b, err := os.ReadFile(filepath.Join(found[1], name)); err != nil || !strings.Contains(string(b), "put [b]") {
			t.Errorf("%s: %v, %d bytes; want the history", name, err, len(b))
		}
	}
}

func TestCheckIsQuietOnSuccess(t *testing.T) {
	r := &reporter{TB: t}
	Check(r, sequence(put("a"), take(1, "a")), History{})
	if r.failed || r.text.Len() > 0 {
		t.Errorf("failed: %v, report %q", r.failed, r.text.String())
	}
}

// A history that can't be judged fails the test too.
func TestCheckFailsWithoutAVerdict(t *testing.T) {
	r := &reporter{TB: t}
	Check(r, sequence(put("a"), put("a")))
	if !r.failed {
		t.Error("a history with a value put twice passed")
	}
}

// failing answers each call with an error.
type failing struct{ err error }

func (f failing) Put(context.Context, []Item) error                    { return f.err }
func (f failing) Take(context.Context, queue.End, int) ([]Item, error) { return nil, f.err }
func (f failing) Peek(context.Context, queue.End) (Item, error)        { return Item{}, f.err }
func (f failing) Len(context.Context) (int, error)                     { return 0, f.err }

// What an error means is decided by the recorder: empty is a result, unknown is a
// fork of what changes a queue, anything else has not happened.
func TestRecorderTellsErrorsApart(t *testing.T) {
	other := errors.New("other")
	calls := []Op{put("a"), take(1, ""), peek(""), {Kind: Len}}
	for _, c := range []struct {
		err              error
		recorded, failed int
		unknown          bool
	}{
		{conq.ErrEmpty, 3, 1, false},
		{fmt.Errorf("wrapped: %w", kv.ErrCommitUnknown), 2, 2, true},
		{other, 0, 4, false},
		{context.Canceled, 0, 4, false},
	} {
		r := NewRecorder("q", false)
		for _, op := range calls {
			_, err := r.Call(t.Context(), failing{c.err}, op)
			if isResult := errors.Is(c.err, conq.ErrEmpty) && op.Kind != Put; (err == nil) != isResult {
				t.Errorf("%v of %v: error %v", op, c.err, err)
			}
		}
		if len(r.History().Ops) != c.recorded || len(r.Failed()) != c.failed {
			t.Errorf("%v: %d recorded, %d failed; want %d, %d", c.err, len(r.History().Ops), len(r.Failed()), c.recorded, c.failed)
		}
		for _, op := range r.History().Ops {
			if op.Unknown != c.unknown || op.Call >= op.Return {
				t.Errorf("%v: recorded %+v", c.err, op)
			}
		}
		for _, err := range r.Failed() {
			if !errors.Is(err, c.err) {
				t.Errorf("failed with %v, want %v", err, c.err)
			}
		}
	}
}

// One client's calls, and what they return, follow from the seed.
func TestRunFollowsTheSeed(t *testing.T) {
	run := func(seed uint64) History {
		db := memory.New(memory.Options{})
		queue := newPlain(db, nil, 0)
		open := func(int) Target { return queue }
		histories, failed, err := Run(t.Context(), Workload{Seed: seed, Clients: 1, Calls: 200, Ends: 2},
			Queue{Name: "q", Open: open, Drain: func() Target { return queue }})
		if err != nil || len(failed) > 0 || len(histories) != 1 {
			t.Fatal(histories, failed, err)
		}
		return histories[0]
	}
	first, again, other := run(1), run(1), run(2)
	if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
		t.Error("the same seed must give the same history, and another one another")
	}
	kinds := make(map[string]int)
	for _, op := range first.Ops {
		kinds[fmt.Sprint(op.Kind, op.End, op.N > 1 || len(op.Items) > 1)]++
	}
	if last := first.Ops[len(first.Ops)-1]; last.Kind != Take || len(last.Items) > 0 {
		t.Errorf("ends with %v, want a take that finds nothing", last)
	}
	if len(kinds) < 10 {
		t.Errorf("kinds of calls: %v, want more", kinds)
	}
	Check(t, first)
}

// A drain that fails is an error, as what it leaves would look lost.
func TestRunTellsOfAFailedDrain(t *testing.T) {
	db := memory.New(memory.Options{})
	failed := errors.New("failed")
	_, _, err := Run(t.Context(), Workload{Clients: 1, Calls: 1, Ends: 1}, Queue{
		Open:  func(int) Target { return newPlain(db, nil, 0) },
		Drain: func() Target { return failing{failed} },
	})
	if !errors.Is(err, failed) {
		t.Errorf("Run returned %v, want the error of the drain", err)
	}
}

func TestConserve(t *testing.T) {
	for _, c := range []struct {
		name string
		h    History
		ok   bool
	}{
		{"in any order", sequence(put("a b"), take(1, ""), take(1, "b"), take(1, "a")), true},
		{"invented", sequence(put("a"), take(1, "b"), take(1, "a")), false},
		{"twice", sequence(put("a"), take(1, "a"), take(1, "a")), false},
		{"lost", sequence(put("a b"), take(1, "b"), take(1, "")), false},
		{"lost to an unknown take", sequence(put("a b"), unknown(take(1, "")), take(1, "b")), true},
		{"more lost than an unknown take can have", sequence(put("a b"), unknown(take(1, "")), take(1, "")), false},
		{"unknown puts", sequence(unknown(put("a")), unknown(put("b")), take(1, "b")), true},
		{"unknown put twice", sequence(unknown(put("a")), take(1, "a"), take(1, "a")), false},
	} {
		if err := Conserve(c.h); (err == nil) != c.ok {
			t.Errorf("%s: Conserve = %v, want ok: %v", c.name, err, c.ok)
		}
	}
}
