package jsontext

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": "b"}`:                 "",
		`"\ud83d\ude00"`:             "",
		`"\\ud800"`:                  "",
		`"a\\\"\\ud800" [1]`:         "",
		`"\ufffd"`:                   "",
		`"\ud800"`:                   `\ud800 at byte 7`,
		`{"a": "\uDC00"}`:            `\udc00 at byte 12`,
		`"\ud800\u0041"`:             `\ud800 at byte 12`,
		`"\ud800\ud800\udc00"`:       `\ud800 at byte 12`,
		`"\ud800\n"`:                 `\ud800 at byte 8`,
		`"\ud800x"`:                  `\ud800 at byte 7`,
		`{"\ude00\ud83d": 1}`:        `\ude00 at byte 7`,
		`["\ud83d\ude00", "\ud83d"]`: `\ud83d at byte 24`,
		"\"\xff\"":                   ErrUTF8.Error(),
		"\"\xed\xa0\x80\"":           ErrUTF8.Error(), // a surrogate as bytes
	} {
		err := Check([]byte(text))
		_, read := io.ReadAll(NewReader(iotest.OneByteReader(strings.NewReader(text))))
		for _, err := range []error{err, read} {
			if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}

// What comes before is read before the error.
func TestReaderBefore(t *testing.T) {
	d := json.NewDecoder(NewReader(strings.NewReader(`{"a": 1} {"a": "\ud800"}`)))
	var v any
	if err := d.Decode(&v); err != nil {
		t.Error(err)
	}
	if err := d.Decode(&v); !errors.As(err, new(*HalfError)) {
		t.Error(err)
	}
}

// What passes is read as it is: nothing becomes U+FFFD that was not.
func FuzzCheck(f *testing.F) {
	f.Add("\"\\ud800\"")
	f.Add("{\"\\ud83d\\ude00\": \"\\ufffd\"}")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := io.ReadAll(NewReader(strings.NewReader(text)))
		if (err == nil) != (Check([]byte(text)) == nil) || err == nil && string(b) != text {
			t.Errorf("%q: Check says %v, and the reader %v of %q", text, Check([]byte(text)), err, b)
		}
		var v string
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		replaced := strings.ContainsRune(v, utf8.RuneError)
		said := strings.Contains(text, "\uFFFD") || strings.Contains(strings.ToLower(text), `\ufffd`)
		if err == nil && replaced && !said {
			t.Errorf("%q passes, and becomes %q", text, v)
		}
		if err != nil && !replaced {
			t.Errorf("%q is refused (%v), and is read as %q", text, err, v)
		}
	})
}
