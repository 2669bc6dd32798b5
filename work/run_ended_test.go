package work

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// TestHandlerEndsItsLease: what a handler has done to its lease stands, and is no failure, also if it goes on for longer
// than the lease would have been.
func TestHandlerEndsItsLease(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		end  func(db kv.DB, l *Lease[string]) error
		want Stats
		told error
	}{
		{"in a transaction", func(db kv.DB, l *Lease[string]) error {
			return db.Transact(context.Background(), func(tx kv.Tx) error { return l.In(tx).Ack() })
		}, Stats{Done: 1}, nil},
		{"with a result", func(_ kv.DB, l *Lease[string]) error {
			return l.AckResult(context.Background(), []byte("result"))
		}, Stats{Done: 1}, nil},
		{"buried", func(_ kv.DB, l *Lease[string]) error { return l.Bury(context.Background(), "bad") }, Stats{Dead: 1}, nil},
		{"released", func(_ kv.DB, l *Lease[string]) error { return l.Release(context.Background(), time.Hour) }, Stats{Scheduled: 1}, nil},
		{"an error behind", func(_ kv.DB, l *Lease[string]) error {
			return errors.Join(l.Ack(context.Background()), boom)
		}, Stats{Done: 1}, boom},
		{"not committed", func(db kv.DB, l *Lease[string]) error {
			return db.Transact(context.Background(), func(tx kv.Tx) error { return errors.Join(l.In(tx).Ack(), boom) })
		}, Stats{Scheduled: 1}, boom},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				db := store(t)
				q := open(t, db, Options{Settings: &Settings{Keep: time.Hour}})
				_, err := q.Put(ctx, "a")
				noError(t, err)
				var told error
				noError(t, Run(ctx, q, func(ctx context.Context, l *Lease[string]) error {
					defer cancel()
					err := c.end(db, l)
					if l.ended.Load() {
						select {
						case <-ctx.Done():
							t.Errorf("its context has ended: %v", context.Cause(ctx))
						case <-time.After(2 * l.length):
						}
					}
					return err
				}, RunOptions{OnError: func(_ ID, err error) { told = errors.Join(told, err) }}))
				if (told == nil) != (c.told == nil) || !errors.Is(told, c.told) {
					t.Errorf("OnError was told %v, want %v", told, c.told)
				}
				s, err := q.Stats(context.Background())
				noError(t, err)
				if s != c.want {
					t.Errorf("jobs: %+v, want %+v", s, c.want)
				}
				sound(t, q)
			})
		})
	}
}

type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// TestHandlerEndsBadly: however a handler ends, its attempt has ended with it, and the runner goes on.
func TestHandlerEndsBadly(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func() error
		want Stats
		told string
	}{
		{"panic", func() error { panic("boom") }, Stats{Scheduled: 1, Ready: 1}, "panic: boom"},
		{"Goexit", func() error { runtime.Goexit(); return nil }, Stats{Scheduled: 1, Ready: 1}, "the handler ended its goroutine"},
		{"nil pointer", func() error { return (*pointerError)(nil) }, Stats{Scheduled: 1, Ready: 1}, "panic: runtime error"},
		{"cancelled for nil", func() error { return Cancel(nil) }, Stats{Dead: 1, Ready: 1}, "job was cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				q := open(t, store(t), Options{})
				for _, v := range []string{"bad", "good", "later"} {
					_, err := q.Put(ctx, v)
					noError(t, err)
				}
				var told []string
				noError(t, Run(ctx, q, func(ctx context.Context, l *Lease[string]) error {
					if l.Value == "bad" {
						return c.end()
					}
					cancel()
					return nil
				}, RunOptions{OnError: func(_ ID, err error) { told = append(told, err.Error()) }}))
				if len(told) != 1 || !strings.HasPrefix(told[0], c.told) {
					t.Errorf("OnError was told %q, want %q", told, c.told)
				}
				s, err := q.Stats(context.Background())
				noError(t, err)
				if s != c.want {
					t.Errorf("jobs: %+v, want %+v", s, c.want)
				}
				sound(t, q)
			})
		})
	}
}

// A job that is given back as the runner stops is no failure: its attempt does not count, and OnError is not told.
func TestHandlerOutOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := open(t, store(t), Options{})
		_, err := q.Put(ctx, "a")
		noError(t, err)
		noError(t, Run(ctx, q, func(ctx context.Context, _ *Lease[string]) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, RunOptions{Grace: time.Second, OnError: func(id ID, err error) { t.Errorf("OnError was told of job %d: %v", id, err) }}))
		s, err := q.Stats(context.Background())
		noError(t, err)
		if want := (Stats{Ready: 1}); s != want {
			t.Errorf("jobs: %+v, want %+v", s, want)
		}
	})
}
