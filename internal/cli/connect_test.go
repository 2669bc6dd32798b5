package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// mute is a store that does not answer until it is told to.
type mute struct {
	kv.DB
	speak <-chan struct{}
}

func (m mute) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	select {
	case <-m.speak:
		return m.DB.ReadTransact(ctx, f)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A command says when a cluster does not answer, and ends when it is told to, also while it opens one.
func TestNoAnswer(t *testing.T) {
	var open func() (kv.DB, error)
	kv.Register("mute", func(context.Context, string) (kv.DB, error) { return open() })
	run := func(ctx context.Context, command string) (code int, stderr string) {
		var errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: &errs}
		code = a.run(ctx, []string{command, "--store", "mute://user:secret@host"})
		return code, errs.String()
	}
	const notice = "conq: no answer from mute://user:***@host so far: is it up, and is this its address?\n"
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			command string
			opens   bool
		}{{"ls", true}, {"ls", false}, {"demo", true}, {"demo", false}, {"bench", true}, {"bench", false}} {
			speak := make(chan struct{})
			open = func() (kv.DB, error) {
				if !c.opens {
					<-speak
				}
				return mute{memory.New(memory.Options{}), speak}, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			began := time.Now()
			if code, stderr := run(ctx, c.command); code != exitFailure || !strings.HasPrefix(stderr, notice) || strings.Count(stderr, notice) > 1 {
				t.Errorf("%s: exit code %d, %q", c.command, code, stderr)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("%s ended after %v, and was told to after a minute", c.command, took)
			}
			close(speak)
			synctest.Wait()
			if code, stderr := run(t.Context(), "ls"); code == exitFailure || strings.Contains(stderr, notice) {
				t.Errorf("with an answer: exit code %d, %q", code, stderr)
			}
		}
	})
}
