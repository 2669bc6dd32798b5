package work

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/queue"
)

func TestUndecodableIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		raw, err := Open(ctx, db, "jobs", queue.Bytes(), Options{Settings: &Settings{MaxAttempts: 3}})
		noError(t, err)
		defer raw.Close()
		_, err = raw.Put(ctx, []byte{0xff})
		noError(t, err)
		var log strings.Builder
		q := open(t, db, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		wait, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		_, err = q.ReserveWait(wait)
		isError(t, err, context.DeadlineExceeded)
		page, _, err := raw.Page(ctx, Filter{State: Dead}, nil, 10)
		noError(t, err)
		if len(page) != 1 || page[0].Attempts != 1 || !strings.Contains(page[0].Failures[0].Error, "decode") {
			t.Fatalf("got %+v", page)
		}
		if n := strings.Count(log.String(), "does not decode"); n != 1 {
			t.Errorf("%d failures are logged, want 1: %s", n, &log)
		}
	})
}

// A job that does not decode, and that can't be made dead, keeps no other from its worker.
func TestUndecodableKeepsNoOther(t *testing.T) {
	ctx := t.Context()
	db := store(t)
	raw, err := Open(ctx, db, "jobs", queue.String(), Options{})
	noError(t, err)
	defer raw.Close()
	var bad ID
	q, err := Open(ctx, db, "jobs", deleting{queue.String(), func() { noError(t, raw.Delete(ctx, bad)) }}, Options{})
	noError(t, err)
	defer q.Close()
	union, err := NewUnion(q)
	noError(t, err)
	for name, reserve := range map[string]func(context.Context, int, ...ReserveOptions) ([]*Lease[string], error){
		"queue": q.ReserveN, "union": union.ReserveN,
	} {
		bad, err = raw.Put(ctx, "bad")
		noError(t, err)
		_, err = raw.Put(ctx, "good")
		noError(t, err)
		leases, err := reserve(ctx, 2)
		noError(t, err)
		if len(leases) != 1 || leases[0].Value != "good" {
			t.Fatalf("%s: got %d leases, want that of the good job", name, len(leases))
		}
		noError(t, leases[0].Ack(ctx))
	}
}

// deleting is a codec in whose way "bad" is deleted.
type deleting struct {
	queue.Codec[string]
	onBad func()
}

func (d deleting) Decode(b []byte) (string, error) {
	if string(b) == "bad" {
		d.onBad()
		return "", errors.New("it is bad")
	}
	return d.Codec.Decode(b)
}
