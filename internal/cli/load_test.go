package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// SIGINT ends a load that waits for its input, at once, and what was loaded is told.
func TestLoadInterrupted(t *testing.T) {
	store := t.TempDir() + "/store"
	run := func(ctx context.Context, stdin io.Reader, args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		a := &app{stdin: stdin, stdout: &stdout, stderr: &stderr}
		code := a.run(ctx, append(args, "--store", store, "--durability", "memory"))
		return code, stdout.String(), stderr.String()
	}
	ctx := t.Context()
	lines := strings.Repeat("0123456789\n", 100_000)
	if code, _, stderr := run(ctx, strings.NewReader(lines), "enqueue", "q"); code != exitDone {
		t.Fatal(code, stderr)
	}
	code, dump, stderr := run(ctx, nil, "dump")
	if code != exitDone || stderr != "" {
		t.Fatal(code, stderr)
	}
	store += " of another"
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, dump[:len(dump)/2])
		cancel() // it has all of that, or will not read it
	}()
	began := time.Now()
	code, _, stderr = run(ctx, r, "load")
	if code != exitFailure || !strings.Contains(stderr, "context canceled") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if code, stdout, stderr := run(t.Context(), strings.NewReader(dump), "load", "--replace"); code != exitDone {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
}
