package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"conq": func() { os.Exit(Main()) }})
}

// TestScripts runs the scripts in testdata/script. Besides the usual commands
// they have:
//
//	run CODE ARG...          run conq, which must exit with CODE; if that is 2 or
//	                         3, with one line on standard error
//	bytes FILE QUOTED        write a file from a quoted Go string
//	fill FILE LINE SIZE      append a line of SIZE bytes, after one that is LINE
//	hold STORE, release      open a store in another process, and close it
//	serve STORE [TOKENS]     serve a store at $SERVER, until the script ends
//	foreign STORE QUEUE KIND ITEM...
//	                         put items in by FoundationDB's recipe alone
//	newer STORE              pretend that a newer version wrote the store
//	plant STORE KEY [VALUE]  set a key, or clear it; both in hexadecimal, with spaces
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run": cmdRun, "bytes": cmdBytes, "fill": cmdFill, "hold": cmdHold,
			"foreign": cmdForeign, "newer": cmdNewer, "plant": cmdPlant, "serve": cmdServe,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("CONQ_STORE", "")
			env.Setenv("TMPDIR", env.WorkDir+"/.tmp")
			return nil
		},
	})
}

func cmdRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: run CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("conq", args[1:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	stderr := ts.ReadFile("stderr")
	if code != want {
		ts.Fatalf("exit code %d, want %d: %s", code, want, stderr)
	}
	oneLine := strings.HasPrefix(stderr, "conq: ") && strings.Count(stderr, "\n") == 1
	if code >= exitUsage && !oneLine {
		ts.Fatalf("want one line on standard error: %q", stderr)
	}
}

func cmdBytes(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := strings.Repeat("x", size) + "\n"
	if first := args[1]; first != "" {
		text = first + "\n" + text
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// cmdHold opens a store in this process, for those that the script runs.
func cmdHold(ts *testscript.TestScript, _ bool, args []string) {
	db, err := conq.Open(context.Background(), ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Setenv("HOLDER", strconv.Itoa(os.Getpid()))
	ts.Defer(func() { db.Close() })
	ts.SetCmd("release", func(*testscript.TestScript, bool, []string) { ts.Check(db.Close()) })
}

func cmdServe(ts *testscript.TestScript, _ bool, args []string) {
	db, err := conq.Open(context.Background(), ts.MkAbs(args[0]))
	ts.Check(err)
	var o server.Options
	if len(args) > 1 {
		o.Tokens, err = server.LoadTokens(ts.MkAbs(args[1]))
		ts.Check(err)
	}
	s, err := server.New(db, o)
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	ts.Setenv("SERVER", "http://"+l.Addr().String())
	ts.Defer(func() {
		stop()
		if err := errors.Join(<-done, s.Close(), db.Close()); err != nil {
			ts.Logf("server: %v", err)
		}
	})
}

func cmdForeign(ts *testscript.TestScript, _ bool, args []string) {
	items := subspace.Named(args[1])
	write(ts, args[0], func(tx kv.Tx) error {
		for i, v := range args[3:] {
			var err error
			switch args[2] {
			case "queue":
				err = recipe.NewQueue(items, nil).Enqueue(tx, []byte(v))
			case "priority":
				err = recipe.NewPriorityQueue(items, nil, recipe.LastPushed).Push(tx, []byte(v), int64(i))
			default:
				tx.Set(append(items.Range().Begin, v...), nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func cmdNewer(ts *testscript.TestScript, _ bool, args []string) {
	write(ts, args[0], func(tx kv.Tx) error {
		key := tuple.AppendString(tuple.AppendBytes(nil, []byte("conq")), "format")
		tx.Set(key, tuple.AppendInt(nil, 99))
		return nil
	})
}

func write(ts *testscript.TestScript, store string, f func(kv.Tx) error) {
	db, err := conq.Open(context.Background(), ts.MkAbs(store))
	ts.Check(err)
	err = db.Transact(context.Background(), f)
	ts.Check(errors.Join(err, db.Close()))
}

// Names that a terminal does not show as they are come in quotes.
func TestShown(t *testing.T) {
	for name, want := range map[string]string{
		"☃/é":           "☃/é",
		"a b":           `"a b"`,
		"a\tb\x7f":      `"a\tb\x7f"`,
		"\u009b31m":     `"\u009b31m"`,
		"a\u0080":       `"a\u0080"`,
		"a\u2028b":      `"a\u2028b"`,
		"a\u2029b":      `"a\u2029b"`,
		"\u202agnp":     `"\u202agnp"`,
		"\u202egnp":     `"\u202egnp"`,
		"\u2066a":       `"\u2066a"`,
		"a\u2069":       `"a\u2069"`,
		"a\u00a0\u200d": "a\u00a0\u200d",
	} {
		if got := shown(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

func TestNumbersAndSizes(t *testing.T) {
	got := fmt.Sprintln(count(0), count(999), count(1000), count(-1234567), items(1), items(2000),
		size(999), size(1000), size(999_960), size(1<<40))
	if want := "0 999 1,000 -1,234,567 1 item 2,000 items 999 B 1.0 kB 1.0 MB 1.1 TB\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
