package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/anyqueue"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/catalogue"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// local is the store that the command has open.
type local struct {
	app *app
	db  kv.DB
}

func (l local) limits() kv.Limits { return l.db.Limits() }

func (l local) lookup(ctx context.Context, name string) (conq.Info, bool, error) {
	return conq.Lookup(ctx, l.db, name)
}

func (l local) find(ctx context.Context, name string) (info conq.Info, err error) {
	err = reads.View(ctx, l.db, func(r kv.Reader) error {
		info, err = catalogue.Find(r, name)
		return err
	})
	if errors.Is(err, conq.ErrNoQueue) {
		err = &exitError{exitEmpty, err}
	}
	return info, err
}

func (l local) queues(ctx context.Context) ([]conq.Info, error) { return conq.Queues(ctx, l.db) }

func (l local) remove(ctx context.Context, name string) error {
	return conq.DeleteQueue(ctx, l.db, name)
}

func (l local) about() storeFacts {
	facts := storeFacts{Store: l.app.shownStore(), Limits: limits{maxItem(l.limits()), l.limits().Transaction}}
	engine, _, _ := strings.Cut(l.app.store, ":")
	facts.Engine = strings.ToLower(engine) // in a URL it may be in capitals
	if _, ok := l.app.storeDir(); ok {
		facts.Engine = "embedded"
	}
	if files, ok := l.db.(interface{ DiskBytes() int64 }); ok {
		bytes := files.DiskBytes()
		facts.DiskBytes = &bytes
	}
	return facts
}

func (l local) open(_ context.Context, name string, kind conq.Kind) (anyqueue.Queue, error) {
	return openQueue(l.db, kind, name, l.app.itemCodec(), ends{})
}

func (l local) jobs(_ context.Context, name string, codec conq.Codec[[]byte], lease time.Duration) (jobQueue, error) {
	q, err := work.Open(l.db, name, codec)
	return localJobs{q, work.ReserveOptions{Lease: lease}}, err
}

// localJobs is a work queue whose jobs are leased in a way of its own.
type localJobs struct {
	*work.Queue[[]byte]
	reserve work.ReserveOptions
}

func (q localJobs) ReserveN(ctx context.Context, n int) ([]*work.Lease[[]byte], error) {
	return q.ReserveWith(ctx, n, q.reserve)
}

func (q localJobs) TryReserve(ctx context.Context, n int) ([]*work.Lease[[]byte], error) {
	return q.TryReserveWith(ctx, n, q.reserve)
}

// move moves the bytes of items as they are, whatever their codec.
func (l local) move(ctx context.Context, from conq.Info, to string, n int) (moved int, err error) {
	source, err := openQueue(l.db, from.Kind, from.Name, conq.Bytes(), ends{})
	if err != nil {
		return 0, err
	}
	defer letGo(ctx, source)
	target, err := openQueue(l.db, from.Kind, to, conq.Bytes(), ends{})
	if err != nil {
		return 0, err
	}
	defer letGo(ctx, target)
	size := budget.BatchFor(l.limits(), itemOperations).Items
	return inBatches(ctx, source, n, func(n int) (int, error) {
		return source.Transact(ctx, func(tx kv.Tx) (int, error) {
			batch, err := source.take(tx, min(size, n))
			if err != nil {
				return 0, err
			}
			return len(batch), target.AddAllIn(tx, batch)
		})
	})
}
