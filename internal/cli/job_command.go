package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// starter starts commands in one thread, which lives until it is stopped: on Linux a command that dies with this process
// dies when the thread ends that has started it.
type starter struct{ calls chan func() }

func newStarter() *starter {
	s := &starter{make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.calls {
			f()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) (err error) {
	done := make(chan struct{})
	s.calls <- func() {
		defer close(done)
		err = cmd.Start()
	}
	<-done
	return err
}

func (s *starter) stop() { close(s.calls) }

// give gives a command its input, all of it before it begins if there are files in memory: what has part of it would take that
// for the whole if this process was killed. The caller calls end when the command has ended.
func give(cmd *exec.Cmd, input []byte) (end func()) {
	if f := memoryFile(); f != nil {
		_, err := f.Write(input)
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err == nil {
			cmd.Stdin = f
			return func() { f.Close() }
		}
		f.Close() // there is no memory for it
	}
	cmd.Stdin = bytes.NewReader(input)
	return func() {}
}

// errorBytes is how much of a command's standard error is kept.
const errorBytes = 2000

// lastWords is how long to wait for what a command has written that has ended: its pipes stay open if it has left something
// running.
const lastWords = 250 * time.Millisecond

// listen reads what a command writes to its standard error. When the command has ended, or could not be started, words returns the
// end of that. What it has left running is listened to further, as it would die of a closed pipe.
func listen(cmd *exec.Cmd) (words func() string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	kept, done := &tail{max: errorBytes}, make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close()
		_, _ = io.Copy(kept, r) // until nobody can write any more
	}()
	return func() string {
		w.Close()
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		return strings.TrimSpace(kept.String())
	}, nil
}

// tail keeps the last bytes that are written to it.
type tail struct {
	max int

	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if n := len(t.b) - t.max; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
