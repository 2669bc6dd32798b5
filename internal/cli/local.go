package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
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
		found, err := layout.Find(r, name)
		info = conq.Info(found)
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
	facts := storeFacts{Store: l.app.shownStore(), Limits: &limits{maxItem(l.limits()), l.limits().Transaction}}
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

func (l local) open(_ context.Context, name string, kind conq.Kind) (itemQueue, error) {
	return openQueue(l.db, kind, name, l.app.itemCodec(), ends{})
}

func (l local) jobs(ctx context.Context, name string, codec conq.Codec[[]byte], lease time.Duration) (jobQueue, error) {
	q, err := work.Open(ctx, l.db, name, codec)
	return localJobs{q, work.ReserveOptions{Lease: lease}}, err
}

// localJobs is a work queue whose jobs are leased in a way of its own.
type localJobs struct {
	*work.Queue[[]byte]
	reserve work.ReserveOptions
}

func (q localJobs) ReserveN(ctx context.Context, n int, _ ...work.ReserveOptions) ([]*work.Lease[[]byte], error) {
	return q.Queue.ReserveN(ctx, n, q.reserve)
}

func (q localJobs) ReserveWaitN(ctx context.Context, n int, _ ...work.ReserveOptions) ([]*work.Lease[[]byte], error) {
	return q.Queue.ReserveWaitN(ctx, n, q.reserve)
}

// move moves the bytes of items as they are, whatever their codec.
func (l local) move(ctx context.Context, from conq.Info, to string, n int) (int, error) {
	if from.Kind == conq.KindPriorityQueue {
		return moveAll(ctx, l.db, conq.OpenPriorityQueue[[]byte], from.Name, to, n)
	}
	return moveAll(ctx, l.db, conq.OpenQueue[[]byte], from.Name, to, n)
}

// moveAll moves up to n items, in as many transactions as that takes.
func moveAll[Q interface {
	conq.Transactor
	io.Closer
}](ctx context.Context, db kv.DB, open func(context.Context, kv.DB, string, conq.Codec[[]byte], ...conq.Options) (Q, error), from, to string, n int) (moved int, err error) {
	source, err := open(ctx, db, from, conq.Bytes())
	if err != nil {
		return 0, err
	}
	defer letGo(ctx, source)
	target, err := open(ctx, db, to, conq.Bytes())
	if err != nil {
		return 0, err
	}
	defer letGo(ctx, target)
	for err == nil && moved < n {
		var some int
		some, err = conq.Move(ctx, source, target, n-moved)
		moved += some
	}
	return moved, err
}
