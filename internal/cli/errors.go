package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/spf13/cobra"
)

// exitError is an error with the exit code that it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef returns the error for a wrong use of the command.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// nothingf returns the error for something that is not there.
func nothingf(format string, args ...any) error {
	return &exitError{exitEmpty, fmt.Errorf(format, args...)}
}

// errNothing is the answer of an empty queue: exit 1 without a word, as of grep.
var errNothing = &exitError{exitEmpty, nil}

// errCheck says that the demo's report, which is on standard output, is bad.
var errCheck = errors.New("a check has failed, see the report: this is a bug in conq or a fault of the machine")

// outputError is an error of writing to standard output, not of the store.
type outputError struct{ err error }

func (e *outputError) Error() string { return "writing to standard output: " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

func isOutput(err error) bool {
	var output *outputError
	return errors.As(err, &output)
}

// after adds to an error of writing to standard output what was done before: to run the
// command again would do it twice.
func after(err error, done string) error {
	if !isOutput(err) {
		return err
	}
	return fmt.Errorf("%w; %s before that", err, done)
}

// isUnread tells whether the reader of standard output went away: it has had enough.
func isUnread(err error) bool { return isOutput(err) && isClosedPipe(err) }

// report writes an error as one line and returns the exit code for it.
func (a *app) report(cmd *cobra.Command, err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
	case isUnread(err):
		return exitDone
	default:
		exit = &exitError{exitFailure, err}
	}
	if exit.err == nil {
		return exit.code
	}
	code, hint := exit.code, a.hintFor(err)
	switch {
	case errors.Is(err, conq.ErrName):
		code = exitUsage
	case code == exitUsage:
		hint = "see " + cmd.CommandPath() + " --help"
	}
	fmt.Fprintln(a.stderr, oneLine(err.Error(), hint))
	return code
}

// aLayer is which package says something, which is of no interest. What is in quotes may
// be the user's, so it is matched to be kept.
var aLayer = regexp.MustCompile(`("(?:[^"\\]|\\.)*")|(^|: |\n)(?:(?:conq|embedded|kv): )+`)

// oneLine joins an error and a hint to a line that begins with "conq: ".
func oneLine(text, hint string) string {
	text = "conq: " + aLayer.ReplaceAllString(strings.TrimSpace(text), "$1$2")
	if hint != "" {
		text += "; " + hint
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// hints say what to do about an error, where the error itself does not.
var hints = []struct {
	err  error
	hint string
}{
	{embedded.ErrFailed, ""}, // says it itself
	{conq.ErrName, "a name is 1 to 1024 bytes of UTF-8 without NUL"},
	{conq.ErrKind, "enqueue and dequeue are for queues, push and pop for priority queues, put and work for work queues"},
	{conq.ErrDecode, "it stays in the queue; --codec bytes takes it as it is"},
	{conq.ErrFormat, "use a newer conq"},
	{kv.ErrReadOnly, ""}, // so does this
	{kv.ErrFull, ""},
	{syscall.ECONNREFUSED, "conq serve has to run there"},
	{syscall.EROFS, "the store needs a place that can be written to"},
	{fs.ErrPermission, "the user that runs conq must be able to write there"},
	{kv.ErrTooOld, "the store was too slow: run this again, with a smaller -n if there is one"},
}

func (a *app) hintFor(err error) string {
	switch {
	case errors.Is(err, context.Canceled), isOutput(err): // which says what was done before
		return ""
	case errors.Is(err, conq.ErrDecode) && a.codec == "bytes": // so it is not for the codec
		return "it stays in the queue; conq check tells what is wrong"
	}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	if vfs.IsNoSpaceError(err) {
		return "the disk has no space, or no inodes, left: make room, then run this again"
	}
	return ""
}
