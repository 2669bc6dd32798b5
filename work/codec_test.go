package work

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/codec"
)

func TestUndecodableIsDeadInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		raw, err := Open(db, "jobs", codec.Bytes(), Options{MaxAttempts: 3})
		noError(t, err)
		defer raw.Close()
		_, err = raw.Put(ctx, []byte{0xff})
		noError(t, err)
		var log strings.Builder
		q := open(t, db, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		wait, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		_, err = q.Reserve(wait)
		isError(t, err, context.DeadlineExceeded)
		page, _, err := raw.Page(ctx, Filter{State: Dead}, nil, 10)
		noError(t, err)
		if len(page) != 1 || page[0].Attempts != 3 || !strings.Contains(page[0].Failures[2].Error, "decode") {
			t.Fatalf("got %+v", page)
		}
		if n := strings.Count(log.String(), "does not decode"); n != 3 {
			t.Errorf("%d failures are logged, want 3: %s", n, &log)
		}
	})
}
