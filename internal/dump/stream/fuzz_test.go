package stream

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// Whatever bytes it is given, a reader ends with an error or with what can be written
// and read again.
func FuzzReader(f *testing.F) {
	whole := sample.bytes(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) { checkRead(t, b) })
}

// The same behind checks that are right, so that the fuzzer gets to the body.
func FuzzBody(f *testing.F) {
	for _, part := range blocks(sample.bytes(f))[1:] {
		f.Add(part[4:len(part)-4], uint16(MaxBlock>>8))
		f.Add(part[4:len(part)-4], uint16(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint16) { checkRead(t, framed(body, max(1, int(size)))) })
}

func checkRead(t *testing.T, b []byte) {
	c, err := read(bytes.NewReader(b), 0)
	if err != nil {
		if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrVersion) {
			t.Fatalf("error %v", err)
		}
		return
	}
	again, err := read(bytes.NewReader(c.bytes(t)), 0)
	testkit.NoError(t, err)
	if !reflect.DeepEqual(again, c) {
		t.Fatalf("read %v, then %v", c, again)
	}
}
