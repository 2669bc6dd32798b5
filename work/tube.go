package work

import (
	"context"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/tubeverbs"
)

// tubeVerbs are those that only beanstalkd's protocol needs; see package tubeverbs.
type tubeVerbs struct{ q *Queue[[]byte] }

func init() {
	tubeverbs.Of = func(queue any) any { return tubeVerbs{queue.(*Queue[[]byte])} }
	tubeverbs.Find = find
}

func (t tubeVerbs) ReserveID(ctx context.Context, id ID, o ReserveOptions) (*Lease[[]byte], error) {
	return t.q.reserveID(ctx, id, o)
}

func (t tubeVerbs) DeleteFree(ctx context.Context, id ID) error { return t.q.deleteFree(ctx, id) }

func (t tubeVerbs) KickFirst(ctx context.Context, n int) (int, error) { return t.q.kickFirst(ctx, n) }

func (t tubeVerbs) ReadyBelow(ctx context.Context, priority int64, limit int) (int, error) {
	return t.q.readyBelow(ctx, priority, limit)
}

// ReleaseInPlace releases a lease with a new priority. Among the jobs of that priority the job comes in the order in which they were put.
func (t tubeVerbs) ReleaseInPlace(ctx context.Context, l *Lease[[]byte], delay time.Duration, priority int64) error {
	return l.release(ctx, delay, &jobs.NewPriority{Priority: priority, OldPlace: true})
}

// BuryAs buries a job with a new priority, which it has if it is kicked. It keeps its place.
func (t tubeVerbs) BuryAs(ctx context.Context, l *Lease[[]byte], reason string, priority int64) error {
	return l.bury(ctx, reason, &priority)
}
