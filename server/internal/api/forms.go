package api

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/jsontext"
	"github.com/conq-go/conq/internal/wire"
	"github.com/danielgtaylor/huma/v2"
)

// Content types of bodies.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson" // a JSON document a line
	typeBytes  = "application/octet-stream"
)

// form says in which form a client wants payloads.
type form string

const formBase64 form = "base64"

// payload returns bytes in the first form that can hold them, unless it is base64 that is wanted. JSON with spaces between tokens is
// a text: as JSON it would be written without them, and be another item. So is JSON that a client would read as another text.
func (f form) payload(b []byte) wire.Payload {
	switch {
	case f == formBase64:
		return wire.Base64(b)
	case json.Valid(b) && jsontext.Check(b) == nil && bytes.Equal(wire.Payload{JSON: b}.Bytes(), b):
		return wire.Payload{JSON: b}
	case utf8.Valid(b):
		text := string(b)
		return wire.Payload{Text: &text}
	}
	return wire.Base64(b)
}

// timeout describes a wire.Timeout.
type timeout struct{}

func (timeout) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "A duration: 1.5s, 2m, 1h30m; or none.", Examples: []any{"30s"}}
}

// duration describes a wire.Duration.
type duration struct{}

func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "A duration: 1.5s, 2m, 1h30m.", Examples: []any{"30s"}}
}

// strict returns a decoder that refuses members that it does not know.
func strict(r io.Reader) *json.Decoder {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return d
}

var errTooLong = errors.New("a JSON document is too long")

// lines calls f with each document of NDJSON, of up to limit bytes. An error says which it is.
func lines[T any](r io.Reader, limit int64, f func(T) error) error {
	most := &io.LimitedReader{R: jsontext.NewReader(r)}
	d := strict(most)
	for n := 1; ; n++ {
		var v T
		most.N = limit + 1
		err := d.Decode(&v)
		switch {
		case err == nil:
			err = f(v)
		case most.N == 0: // before the end, perhaps only of spaces
			err = fmt.Errorf("%w: up to %d bytes are allowed", errTooLong, limit)
		case err == io.EOF:
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, readable(err))
		}
	}
}

// listed calls f with each element of the only member of a JSON object, which is a list, or with the object itself if it has
// another member.
func listed[T any](r io.Reader, name string, f func(T) error) error {
	b := bufio.NewReader(jsontext.NewReader(r))
	d := strict(b)
	switch head, err := b.Peek(b.Size()); {
	case err != nil && err != io.EOF && !jsontext.IsWrong(err): // which comes again, where it is
		return readable(err)
	case isOne(head, name):
		return one(d, name, f)
	}
	for _, want := range []json.Token{json.Delim('{'), name, json.Delim('[')} {
		if err := expect(d, want, name); err != nil {
			return err
		}
	}
	for n := 0; d.More(); n++ {
		var v T
		err := d.Decode(&v)
		if err == nil {
			err = f(v)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", name, n, readable(err))
		}
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}'), nil} {
		if err := expect(d, want, name); err != nil {
			return err
		}
	}
	return nil
}

// isOne tells whether JSON begins as an object whose first member has not that name.
func isOne(head []byte, name string) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	begin, _ := d.Token()
	member, err := d.Token()
	return begin == json.Delim('{') && err == nil && member != name
}

// one calls f with all of a body.
func one[T any](d *json.Decoder, list string, f func(T) error) error {
	var v T
	err := d.Decode(&v)
	if err == nil {
		err = f(v)
	}
	if err != nil {
		return readable(err)
	}
	return expect(d, nil, list)
}

// expect reads a token, or the end of the body if that is wanted.
func expect(d *json.Decoder, want json.Token, name string) error {
	got, err := d.Token()
	switch {
	case err != nil && err != io.EOF && !isSyntax(err):
		return readable(err)
	case err == io.EOF && want == nil || err == nil && reflect.DeepEqual(got, want):
		return nil
	}
	return fmt.Errorf(`the body has to be {%q: [...]}, or one of them alone: it goes wrong at byte %d`, name, d.InputOffset())
}

func isSyntax(err error) bool {
	_, ok := errors.AsType[*json.SyntaxError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF)
}

// readable returns an error of encoding/json in words of a client's.
func readable(err error) error {
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return fmt.Errorf("base64 is not that: %w", err)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := strings.TrimPrefix(wrong.Field, "Payload.")
		if field == "" {
			return fmt.Errorf("%s is not what can stand here: it has to be an object", wrong.Value)
		}
		return fmt.Errorf("%s is a %s, which it can't be", field, wrong.Value)
	}
	if err == io.ErrUnexpectedEOF {
		return errors.New("JSON ends in the middle")
	}
	return err
}

// formats are those of bodies that huma reads: JSON that is refused where it would be read as another text.
func formats() map[string]huma.Format {
	f := huma.DefaultJSONFormat
	f.Unmarshal = func(b []byte, v any) error {
		if err := jsontext.Check(b); err != nil {
			return err
		}
		return huma.DefaultJSONFormat.Unmarshal(b, v)
	}
	return map[string]huma.Format{"application/json": f, "json": f}
}
