package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

func readAll(t testkit.TB, l *lineReader) [][]byte {
	var items [][]byte
	for {
		item, err := l.next()
		if err == io.EOF {
			return items
		}
		testkit.NoError(t, err)
		items = append(items, item)
	}
}

func TestLinesKeepEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		separator := rapid.SampledFrom([]byte{'\n', 0}).Draw(t, "separator")
		in := rapid.SliceOf(rapid.SampledFrom([]byte{'\n', '\r', 0, 'a', 0xff})).Draw(t, "input")
		var r io.Reader = bytes.NewReader(in)
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		items := readAll(t, newLineReader(r, separator, 1000))
		out := bytes.Join(items, []byte{separator})
		if len(in) > 0 && in[len(in)-1] == separator {
			out = append(out, separator)
		}
		if !bytes.Equal(in, out) {
			t.Errorf("%q came out as %q", in, out)
		}
	})
}

func TestLineLimits(t *testing.T) {
	const buffer = 64 << 10
	long := strings.Repeat("x", 3*buffer)
	l := newLineReader(strings.NewReader("a\n"+long+"\nb\n"+long+"y\nc"), '\n', len(long)-slack)
	for _, want := range []string{"a", long, "b"} {
		if got, err := l.next(); err != nil || string(got) != want {
			t.Fatalf("%d bytes, error %v", len(got), err)
		}
	}
	_, err := l.next()
	var tooLarge *kv.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Size != len(long)+1 || tooLarge.Limit != len(long)-slack {
		t.Errorf("error %v", err)
	}
	if got, err := l.next(); err != nil || string(got) != "c" {
		t.Errorf("behind the long line: %q, %v", got, err)
	}
}

func TestReadingFails(t *testing.T) {
	broken := errors.New("disk on fire")
	l := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), '\n', 10)
	if got, err := l.next(); err != nil || string(got) != "a" {
		t.Fatal(string(got), err)
	}
	if _, err := l.next(); !errors.Is(err, broken) {
		t.Errorf("error %v: half a line must not count", err)
	}
}
