package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/danielgtaylor/huma/v2"
)

// appendAdded adds what has become of a batch.
func appendAdded(a *wire.Added, b wire.Added) {
	a.Added += b.Added
	a.Duplicates += b.Duplicates
	if a.Added+a.Duplicates > maxIDs {
		a.IDs = nil
	} else {
		a.IDs = append(a.IDs, b.IDs...)
	}
}

// maxIDs is how many ids an answer has: a stream of jobs may be longer than memory.
const maxIDs = 100_000

// incomplete is an error in the middle of a stream: what is durable by then stays.
type incomplete struct {
	huma.ErrorModel
	wire.Added
}

// destined is a batch for a queue.
type destined interface {
	add(ctx context.Context) (wire.Added, error)
	addIn(tx kv.Tx) (wire.Added, error)
}

// carrier has a payload.
type carrier interface {
	Check() error
	Size() int
}

// addition is a request that adds things of type T.
type addition[T carrier] struct {
	*api
	exchange *Exchange
	queue    string
	key      string // Idempotency-Key or ""
	list     string // the member of a JSON body that has them

	fromBytes func([]byte) (T, error) // of a body of bytes
	each      int                     // operations that an engine needs for one, at most
	open      func(ctx context.Context, batch []T) (to destined, release func(), err error)

	batches int
}

// run adds all of the body.
func (a *addition[T]) run(ctx context.Context) (reply, error) {
	r, contentType, err := a.exchange.body()
	if err != nil {
		return nil, err
	}
	var sum wire.Added
	switch contentType {
	case typeNDJSON:
		sum, err = a.stream(ctx, r)
	case typeBytes:
		sum, err = a.single(ctx, r)
	default:
		sum, err = a.listed(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return replyJSON(sum), nil
}

func (a *addition[T]) single(ctx context.Context, r io.Reader) (wire.Added, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return wire.Added{}, bodyError(err)
	}
	v, err := a.fromBytes(b)
	if err != nil {
		return wire.Added{}, bodyError(err)
	}
	return a.batch(ctx, []T{v})
}

// maxListed is how many a list may have: each takes more memory than the shortest JSON of it.
const maxListed = 10_000

func (a *addition[T]) listed(ctx context.Context, r io.Reader) (wire.Added, error) {
	var batch []T
	err := listed(r, a.list, func(v T) error {
		if len(batch) == maxListed {
			return fmt.Errorf("a list can have up to %d: %s has no such limit", maxListed, typeNDJSON)
		}
		batch = append(batch, v)
		return v.Check()
	})
	if err != nil {
		return wire.Added{}, bodyError(err)
	}
	return a.batch(ctx, batch)
}

// stream adds a batch after the other. Where they end is the same for the same body, so that with a key each has its
// own answer.
func (a *addition[T]) stream(ctx context.Context, r io.Reader) (sum wire.Added, err error) {
	var batch []T
	bytes := 0
	count := 0 // of documents before the batch
	flush := func() error {
		done, err := a.batch(ctx, batch)
		if err != nil {
			return fmt.Errorf("documents %d to %d: %w", count+1, count+len(batch), err)
		}
		appendAdded(&sum, done)
		count += len(batch)
		batch, bytes = nil, 0
		return nil
	}
	most := budget.BatchFor(a.Queues.DB().Limits(), a.each)
	var failed error // of the store
	err = lines(r, a.MaxBody, func(v T) error {
		if err := v.Check(); err != nil {
			return err
		}
		batch = append(batch, v)
		if bytes += v.Size(); len(batch) < most.Items && bytes < most.Bytes {
			return nil
		}
		failed = flush()
		return failed
	})
	switch {
	case failed != nil:
		err = failed
	case err != nil:
		err = bodyError(err)
	case len(batch) > 0:
		err = flush()
	}
	if err != nil {
		return wire.Added{}, &incomplete{modelOf(err), sum}
	}
	return sum, nil
}

// batch adds in one transaction. With a key it does so once.
func (a *addition[T]) batch(ctx context.Context, batch []T) (sum wire.Added, err error) {
	to, release, err := a.open(ctx, batch)
	if err != nil {
		return wire.Added{}, err
	}
	defer release()
	if a.key == "" {
		return to.add(ctx)
	}
	a.batches++
	r := answers.Request{Key: fmt.Sprintf("%d %s", a.batches, a.key), Bytes: 1, Operations: a.each * len(batch)}
	for _, v := range batch {
		r.Bytes += v.Size()
	}
	err = a.once(ctx, r, []any{a.list, a.queue, batch}, &sum, func(tx kv.Tx) (any, error) { return to.addIn(tx) })
	return sum, err
}

// once has f carry out a request of a key once: its answer is that of the first time. content is all that makes it what it is.
func (a *api) once(ctx context.Context, r answers.Request, content, answer any, f func(kv.Tx) (any, error)) error {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(content); err != nil {
		return err
	}
	r.Caller, r.Content = access.From(ctx).Name, hash.Sum(nil)
	r.Do = func(tx kv.Tx) ([]byte, error) {
		answer, err := f(tx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	}
	stored, err := a.Answers.Do(ctx, r)
	if err != nil {
		return err
	}
	return json.Unmarshal(stored, answer)
}
