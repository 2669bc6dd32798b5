package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// server is a Keeper and a Source whose jobs are numbers.
type server struct {
	jobs chan int

	mu    sync.Mutex
	calls []string
	wait  func() // at each call
}

func (s *server) Name() string { return "numbers" }

func (s *server) ReserveWaitN(ctx context.Context, _ int, _ ...ReserveOptions) ([]*Lease[int], error) {
	select {
	case n := <-s.jobs:
		l := NewLease[int](s, ID(n), fmt.Sprint("token", n), time.Minute, time.Now().Add(time.Minute))
		l.Value = n
		return []*Lease[int]{l}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) ReserveN(ctx context.Context, n int, _ ...ReserveOptions) ([]*Lease[int], error) {
	if len(s.jobs) == 0 {
		return nil, queue.ErrEmpty
	}
	return s.ReserveWaitN(ctx, n)
}

func (s *server) Drained(context.Context) (bool, error) { return len(s.jobs) == 0, nil }

func (s *server) call(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	s.wait()
	return nil
}

func (s *server) Ack(_ context.Context, id ID, token string, result []byte) error {
	return s.call("ack %d %s %s", id, token, result)
}

func (s *server) Extend(_ context.Context, id ID, token string, d time.Duration) (time.Time, error) {
	return time.UnixMicro(77), errors.Join(s.call("extend %d %s %v", id, token, d), ErrCancelled)
}

func (s *server) Release(_ context.Context, id ID, token string, delay time.Duration, priority *int64) error {
	if priority != nil {
		return s.call("release %d %s %v as %d", id, token, delay, *priority)
	}
	return s.call("release %d %s %v", id, token, delay)
}

func (s *server) Fail(_ context.Context, id ID, token string, delay *time.Duration, reason string) error {
	if delay != nil {
		return s.call("fail %d %s %v %s", id, token, *delay, reason)
	}
	return s.call("fail %d %s %s", id, token, reason)
}

func (s *server) Bury(_ context.Context, id ID, token string, reason string) error {
	return s.call("bury %d %s %s", id, token, reason)
}

// Run has leases of a server end there.
func TestRunRemote(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := &server{jobs: make(chan int, 5)}
	s.wait = func() {
		if len(s.calls) == 5 {
			stop()
		}
	}
	for n := range 5 {
		s.jobs <- n
	}
	err := Run(ctx, s, func(_ context.Context, l *Lease[int]) error {
		switch l.Value {
		case 1:
			return errors.New("no")
		case 2:
			return Cancel(errors.New("never"))
		case 3:
			return Snooze(time.Hour)
		case 4:
			panic("oh")
		}
		return nil
	}, RunOptions{OnError: func(ID, error) {}})
	noError(t, err)
	slices.Sort(s.calls)
	for i, want := range []string{"ack 0 token0 ", "bury 2 token2 never", "fail 1 token1 no", "fail 4 token4 panic: oh", "release 3 token3 1h0m0s"} {
		if got := s.calls[i]; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("call %d is %q, want %q", i, got, want)
		}
	}
}

func TestRemoteLease(t *testing.T) {
	ctx, s := t.Context(), &server{wait: func() {}}
	l := NewLease[int](s, 7, "t", time.Minute, time.UnixMicro(5))
	if l.Token() != "t" || !l.Deadline().Equal(time.UnixMicro(5)) {
		t.Fatalf("token %q, deadline %v", l.Token(), l.Deadline())
	}
	isError(t, l.Extend(ctx, 0), ErrCancelled)
	if !l.Deadline().Equal(time.UnixMicro(77)) {
		t.Fatalf("deadline %v", l.Deadline())
	}
	isError(t, l.Extend(ctx, -1), kv.ErrInvalid)
	isError(t, l.Release(ctx, -1), kv.ErrInvalid)
	isError(t, l.In(nil).Ack(), kv.ErrInvalid)
	noError(t, l.ReleaseAs(ctx, time.Second, -3))
	noError(t, l.FailAfter(ctx, time.Second, nil))
	noError(t, l.AckResult(ctx, []byte("r")))
	want := []string{"extend 7 t 1m0s", "release 7 t 1s as -3", "fail 7 t 1s failed", "ack 7 t r"}
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
}
