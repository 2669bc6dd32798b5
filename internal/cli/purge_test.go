package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

// SIGINT ends a question at once, without an answer.
func TestQuestionInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stdin, typed := io.Pipe()
	defer typed.Close()
	stderr := &interrupter{interrupt: cancel}
	a := &app{stdin: stdin, stdout: new(bytes.Buffer), stderr: stderr}
	err := a.confirm(ctx, "Remove all?")
	if !errors.Is(err, context.Canceled) || err.Error() != "context canceled; nothing was removed" {
		t.Errorf("error %v", err)
	}
	if got := stderr.String(); got != "Remove all? [y/N] \n" {
		t.Errorf("asked %q", got)
	}
}
