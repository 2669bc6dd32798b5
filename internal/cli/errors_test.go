package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/spf13/cobra"
)

// An error gives its advice once, whether it comes with it or not.
func TestAdviceOnce(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "LOCK", Err: syscall.ENOSPC}
	denied := &fs.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}
	for _, test := range []struct {
		err  error
		want string
	}{
		{full, "write LOCK: no space left on device; the disk has no space, or no inodes, left: make room, then run this again"},
		{fmt.Errorf("%w: %w", full, kv.ErrFull),
			"write LOCK: no space left on device: free some space, or inodes if those are used up, and try again"},
		{denied, "open LOCK: permission denied; the user that runs conq must be able to write there"},
		{fmt.Errorf("%w: %w: this process must be able to write to the directory", kv.ErrReadOnly, denied),
			"store is read-only: open LOCK: permission denied: this process must be able to write to the directory"},
		{fmt.Errorf("%w: %w", embedded.ErrFailed, full),
			"store has failed and must be opened again: write LOCK: no space left on device"},
		{&outputError{full}, "writing to standard output: write LOCK: no space left on device"},
	} {
		var stderr bytes.Buffer
		code := (&app{stderr: &stderr}).report(&cobra.Command{}, test.err)
		if want := "conq: " + test.want + "\n"; code != exitFailure || stderr.String() != want {
			t.Errorf("exit code %d, %swant %s", code, &stderr, want)
		}
	}
}

// A reader that went away is known by the error of writing to it, on any system.
func TestUnread(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.NoError(t, err)
	defer w.Close()
	testkit.NoError(t, r.Close())
	if _, err := w.Write([]byte("x")); !isUnread(&outputError{err}) || isUnread(err) {
		t.Errorf("error %v: as output %v, else %v", err, isUnread(&outputError{err}), isUnread(err))
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"kv: closed":                              "closed",
		"conq: kv: embedded: x\n":                 "x",
		"line 1: kv: item of 5 bytes":             "line 1: item of 5 bytes",
		"a: embedded: kv: b: conq: c":             "a: b: c",
		"first\nkv: second":                       "first second",
		`queue "a: kv: \": conq: b": kv: closed`:  `queue "a: kv: \": conq: b": closed`,
		`"kv: x" and "y": kv: closed`:             `"kv: x" and "y": closed`,
		"etcd: no answer; xkv: y: mykv: z, kv: 1": "etcd: no answer; xkv: y: mykv: z, kv: 1",
	} {
		if got := oneLine(text, ""); got != "conq: "+want {
			t.Errorf("%q gives %q", text, got)
		}
	}
}
