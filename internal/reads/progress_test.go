package reads

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// pausing returns nothing so often before each byte.
type pausing struct{ empty, left int }

func (p *pausing) Read(b []byte) (int, error) {
	if p.left > 0 {
		p.left--
		return 0, nil
	}
	p.left = p.empty
	return copy(b, "x"), nil
}

func TestProgress(t *testing.T) {
	three := make([]byte, 3)
	if _, err := io.ReadFull(Progress(&pausing{empty: 99, left: 99}), three); err != nil || string(three) != "xxx" {
		t.Errorf("read %q, %v, want xxx: what pauses is not given up", three, err)
	}
	if _, err := io.ReadFull(Progress(&pausing{left: 1 << 30}), three); err != io.ErrNoProgress {
		t.Errorf("what returns nothing for ever: error %v, want io.ErrNoProgress", err)
	}
	if n, err := Progress(&pausing{}).Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
	broken := errors.New("broken")
	if _, err := Progress(iotest.ErrReader(broken)).Read(three); err != broken {
		t.Errorf("error %v, want that of the reader", err)
	}
}
