// Package tubeverbs has the verbs of work queues that beanstalkd's protocol needs and no user of package work does. Package
// work fills them in, and server/internal/beanstalk calls them, so that they are not part of the public API. It imports kv.
package tubeverbs

import (
	"context"

	"github.com/conq-go/conq/kv"
)

var (
	// Of returns the verbs of a *work.Queue[[]byte]: a value with the methods of the interface that the server declares.
	Of func(queue any) any

	// Find returns the name of the queue that has a job, or work.ErrNotFound. It looks into all work queues, into those that
	// first names before the others: where there are 20,000, that takes some 0.2 s on an embedded store, and 200 round trips on
	// a cluster.
	Find func(ctx context.Context, db kv.DB, id int64, first ...string) (queue string, err error)
)
