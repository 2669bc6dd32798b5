package beanstalk

import (
	"context"
	"time"

	"github.com/conq-go/conq/internal/tubeverbs"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// tubeVerbs are those of work queues that only this protocol needs.
type tubeVerbs interface {
	ReserveID(ctx context.Context, id work.ID, o work.ReserveOptions) (*work.Lease[[]byte], error)
	DeleteFree(ctx context.Context, id work.ID) error
	KickFirst(ctx context.Context, n int) (int, error)
	ReadyBelow(ctx context.Context, priority int64, limit int) (int, error)
	leaseVerbs
}

// leaseVerbs are those of any lease.
type leaseVerbs interface {
	ReleaseInPlace(ctx context.Context, l *work.Lease[[]byte], delay time.Duration, priority int64) error
	BuryAs(ctx context.Context, l *work.Lease[[]byte], reason string, priority int64) error
}

var ofLeases leaseVerbs = verbsOf(nil)

func verbsOf(q *queues.Work) tubeVerbs { return tubeverbs.Of(q).(tubeVerbs) }
