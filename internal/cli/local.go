package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/anyqueue"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
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

func (l local) find(ctx context.Context, name string) (conq.Info, error) {
	info, found, err := l.lookup(ctx, name)
	if err != nil || found {
		return info, err
	}
	info = conq.Info{Name: name}
	err = l.db.ReadTransact(ctx, func(r kv.Reader) error {
		info.Kind, found, err = foreignKind(r, subspace.Named(name))
		return err
	})
	if err == nil && !found {
		err = nothingf("%w: %.200q", conq.ErrNoQueue, name)
	}
	return info, err
}

// foreignKind tells by the key of an item which recipe it is from.
func foreignKind(r kv.Reader, queue subspace.Subspace) (kind conq.Kind, found bool, err error) {
	for pair, err := range r.Range(queue.Range(), kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return "", false, err
		}
		elems, err := queue.Unpack(pair.Key)
		if err != nil {
			return "", false, fmt.Errorf("key %.200x is not of any queue: %w", pair.Key, err)
		}
		random := slices.IndexFunc(elems, func(e any) bool { _, ok := e.([]byte); return ok })
		switch random {
		case 1:
			return conq.KindQueue, true, nil
		case 2:
			return conq.KindPriorityQueue, true, nil
		}
		return "", false, fmt.Errorf("key %.200x is not of any queue", pair.Key)
	}
	return "", false, nil
}

func (l local) queues(ctx context.Context) ([]conq.Info, error) { return conq.Queues(ctx, l.db) }

func (l local) count(ctx context.Context, q conq.Info) (info, error) {
	facts := info{Name: q.Name, Kind: q.Kind, Format: q.Format}
	if q.Kind == conq.KindWorkQueue {
		return facts, l.countJobs(ctx, &facts)
	}
	queue, err := openQueue(l.db, q.Kind, q.Name, conq.Bytes(), ends{})
	if err != nil {
		return facts, err
	}
	n, err := queue.Len(ctx)
	facts.Items = &n
	return facts, err
}

func (l local) countJobs(ctx context.Context, facts *info) error {
	q, err := work.Open(l.db, facts.Name, conq.Bytes())
	if err != nil {
		return err
	}
	defer letGo(ctx, q)
	stats, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	jobs := jobCounts(stats)
	n := 0
	for _, s := range jobs.rows() {
		n += int(s.n)
	}
	facts.Items, facts.Jobs = &n, &jobs
	return nil
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

func (l local) jobs(_ context.Context, name string, codec conq.Codec[[]byte], o work.Options) (jobQueue, error) {
	return work.Open(l.db, name, codec, o)
}

// move moves the bytes of items as they are, whatever their codec.
func (l local) move(ctx context.Context, from conq.Info, to string, n int) (moved int, err error) {
	source, err := openQueue(l.db, from.Kind, from.Name, conq.Bytes(), ends{})
	if err != nil {
		return 0, err
	}
	target, err := openQueue(l.db, from.Kind, to, conq.Bytes(), ends{})
	if err != nil {
		return 0, err
	}
	if err := source.Reclaim(ctx); err != nil { // take does not
		return 0, err
	}
	size := layout.BatchFor(l.limits(), itemOperations).Items
	for again := true; moved < n; {
		var batch []item
		err := l.db.Transact(ctx, func(tx kv.Tx) (err error) {
			if batch, err = source.take(tx, min(size, n-moved)); err != nil {
				return err
			}
			return target.AddAllIn(tx, batch)
		})
		switch {
		case again && errors.Is(err, conq.ErrEmpty): // the deadline of some may have come since
			again = false
			if err := source.Reclaim(ctx); err != nil {
				return moved, err
			}
		case errors.Is(err, conq.ErrEmpty):
			return moved, nil
		case err != nil:
			return moved, err
		default:
			moved += len(batch)
		}
	}
	return moved, nil
}

// purged is a queue of any kind.
type purged interface {
	Reclaim(ctx context.Context) error
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
	Close() error
}

func (l local) purge(ctx context.Context, q conq.Info, sure func(n int) error) (n int, err error) {
	queue, err := l.openPurged(q)
	if err != nil {
		return 0, err
	}
	defer letGo(ctx, queue)
	// What was staged and never collected counts, too. If it is damaged it does not, and it goes.
	_ = queue.Reclaim(ctx)
	if n, err = queue.Len(ctx); err != nil {
		return 0, err
	}
	if err := sure(n); err != nil {
		return 0, err
	}
	// Where others use the store at the same time, it may be some items more or less.
	return n, queue.Clear(ctx)
}

func (l local) openPurged(q conq.Info) (purged, error) {
	if q.Kind == conq.KindWorkQueue {
		return work.Open(l.db, q.Name, conq.Bytes())
	}
	return openQueue(l.db, q.Kind, q.Name, conq.Bytes(), ends{})
}
