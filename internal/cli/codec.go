package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conq-go/conq"
)

// codecs are the values of --codec. Each takes an item as the bytes of a line.
var codecs = map[string]conq.Codec[[]byte]{
	"bytes":  conq.Bytes(),
	"string": textCodec{},
	"json":   jsonCodec{},
	"tuple":  tupleCodec{conq.Tuple[any]()},
}

func codecNames() string {
	names := make([]string, 0, len(codecs))
	for name := range codecs {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// itemCodec returns the codec of --codec, which was checked.
func (a *app) itemCodec() conq.Codec[[]byte] { return codecs[a.codec] }

// textCodec takes UTF-8 only, as conq.String does.
type textCodec struct{}

var errNotUTF8 = errors.New("item is not UTF-8")

func (textCodec) Encode(v []byte) ([]byte, error) {
	if !utf8.Valid(v) {
		return nil, errNotUTF8
	}
	return v, nil
}

func (c textCodec) Decode(b []byte) ([]byte, error) { return c.Encode(b) }

// jsonCodec takes JSON documents and keeps them as they were written, but for
// line ends: what comes out must fit on a line.
type jsonCodec struct{}

func (jsonCodec) Encode(v []byte) ([]byte, error) {
	if err := checkJSON(v); err != nil {
		return nil, fmt.Errorf("item is not JSON: %w", err)
	}
	return v, nil
}

func (jsonCodec) Decode(b []byte) ([]byte, error) {
	if err := checkJSON(b); err != nil {
		return nil, err
	}
	if !bytes.ContainsAny(b, "\r\n") {
		return b, nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, b)
	return line.Bytes(), err
}

func checkJSON(b []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(b, &v)
	if err == nil && !utf8.Valid(b) { // it does not look into strings
		err = errors.New("a string in it is not UTF-8")
	}
	return err
}

// tupleCodec writes a tuple of one byte string and reads one of a byte string or
// a string.
type tupleCodec struct{ any conq.Codec[any] }

func (c tupleCodec) Encode(v []byte) ([]byte, error) { return c.any.Encode(v) }

func (c tupleCodec) Decode(b []byte) ([]byte, error) {
	elem, err := c.any.Decode(b)
	if err != nil {
		return nil, err
	}
	switch v := elem.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("tuple element is of type %T, not bytes or a string", elem)
}
