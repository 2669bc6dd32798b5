package linear

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

// plain is a queue of either kind as the recipes have it, correct.
type plain struct {
	db kv.DB
	q  recipe.PriorityQueue
}

func newPlain(db kv.DB, random io.Reader, ties recipe.Ties) plain {
	return plain{db, recipe.NewPriorityQueue(subspace.Named("q"), random, ties)}
}

func (p plain) Put(ctx context.Context, items []Item) error {
	return p.db.Transact(ctx, func(tx kv.Tx) error {
		for _, item := range items {
			if err := p.q.Push(tx, []byte(item.Value), item.Priority); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p plain) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	return p.takeBy(ctx, n, func(tx kv.Tx) (kv.KeyValue, bool, error) {
		if end == queue.Min {
			return p.q.PopMin(tx)
		}
		return p.q.PopMax(tx)
	})
}

// takeBy takes up to n items, each with pop.
func (p plain) takeBy(
	ctx context.Context, n int, pop func(kv.Tx) (kv.KeyValue, bool, error),
) (all []Item, err error) {
	err = p.db.Transact(ctx, func(tx kv.Tx) error {
		all = nil
		for range n {
			item, ok, err := pop(tx)
			if err != nil || !ok {
				return err
			}
			priority, err := p.q.Priority(item.Key)
			if err != nil {
				return err
			}
			all = append(all, Item{string(item.Value), priority})
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = conq.ErrEmpty
	}
	return all, err
}

func (p plain) find(r kv.Reader, end queue.End) (kv.KeyValue, bool, error) {
	if end == queue.Min {
		return p.q.Min(r)
	}
	return p.q.Max(r)
}

func (p plain) Peek(ctx context.Context, end queue.End) (item Item, err error) {
	err = p.db.ReadTransact(ctx, func(r kv.Reader) error {
		kv, ok, err := p.find(r, end)
		if err == nil && !ok {
			err = conq.ErrEmpty
		}
		item = Item{string(kv.Value), Untold}
		return err
	})
	return item, err
}

func (p plain) Len(ctx context.Context) (n int, err error) {
	err = p.db.ReadTransact(ctx, func(r kv.Reader) error {
		for _, err := range p.q.Items(r, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// snapshotHead finds the item to take through a snapshot, and so gives it to two.
type snapshotHead struct{ plain }

func (s snapshotHead) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	return s.takeBy(ctx, n, func(tx kv.Tx) (kv.KeyValue, bool, error) {
		item, ok, err := s.find(tx.Snapshot(), end)
		if ok {
			tx.Clear(item.Key)
		}
		return item, ok, err
	})
}

// headOnly conflicts on the item that it takes, but not on what was put ahead of
// it meanwhile.
type headOnly struct{ plain }

func (h headOnly) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	return h.takeBy(ctx, n, func(tx kv.Tx) (kv.KeyValue, bool, error) {
		item, ok, err := h.find(tx.Snapshot(), end)
		if ok {
			tx.AddReadConflict(kv.KeyRange(item.Key))
			tx.Clear(item.Key)
		}
		return item, ok, err
	})
}

// staleEmpty looks before it begins, as a client does that asks a replica which
// lags behind: here its own last sight of the queue.
type staleEmpty struct {
	plain
	empty bool
}

func (s *staleEmpty) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	if s.empty {
		s.empty = false
		return nil, conq.ErrEmpty
	}
	items, err := s.plain.Take(ctx, end, n)
	s.empty = errors.Is(err, conq.ErrEmpty)
	return items, err
}

// lastFirst takes the last of the lowest priority.
type lastFirst struct{ plain }

func (l lastFirst) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	if end == queue.Max {
		return l.plain.Take(ctx, end, n)
	}
	return l.takeBy(ctx, n, func(tx kv.Tx) (kv.KeyValue, bool, error) {
		first, ok, err := l.q.Min(tx)
		if !ok {
			return first, ok, err
		}
		priority, err := l.q.Priority(first.Key)
		if err != nil {
			return first, false, err
		}
		last := first
		for item, err := range l.q.Items(tx, kv.RangeOptions{}) {
			if err != nil {
				return item, false, err
			}
			if p, err := l.q.Priority(item.Key); err != nil || p != priority {
				break
			}
			last = item
		}
		tx.Clear(last.Key)
		return last, true, nil
	})
}

// retry makes a call again after an unknown outcome.
type retry struct {
	Target
	puts, takes bool
}

func (r retry) Put(ctx context.Context, items []Item) (err error) {
	for err = kv.ErrCommitUnknown; errors.Is(err, kv.ErrCommitUnknown); {
		if err = r.Target.Put(ctx, items); !r.puts {
			break
		}
	}
	return err
}

func (r retry) Take(ctx context.Context, end queue.End, n int) (items []Item, err error) {
	for err = kv.ErrCommitUnknown; errors.Is(err, kv.ErrCommitUnknown); {
		if items, err = r.Target.Take(ctx, end, n); !r.takes {
			break
		}
	}
	return items, err
}

// denier tells of an unknown outcome as if nothing had happened.
type denier struct{ Target }

func (d denier) Put(ctx context.Context, items []Item) error {
	if err := d.Target.Put(ctx, items); errors.Is(err, kv.ErrCommitUnknown) {
		return kv.ErrConflict
	}
	return nil
}

// piecemeal needs a transaction for each item of a batch.
type piecemeal struct {
	Target
	puts, takes bool
}

func (p piecemeal) Put(ctx context.Context, items []Item) error {
	if !p.puts {
		return p.Target.Put(ctx, items)
	}
	for _, item := range items {
		if err := p.Target.Put(ctx, []Item{item}); err != nil {
			return err
		}
	}
	return nil
}

func (p piecemeal) Take(ctx context.Context, end queue.End, n int) (all []Item, err error) {
	if !p.takes {
		return p.Target.Take(ctx, end, n)
	}
	for range n {
		items, err := p.Target.Take(ctx, end, 1)
		if errors.Is(err, conq.ErrEmpty) && len(all) > 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// counter remembers the index of its last put of a priority and does not look
// again.
type counter struct {
	plain
	random io.Reader
	next   map[int64]int64
}

func (c counter) Put(ctx context.Context, items []Item) error {
	return c.db.Transact(ctx, func(tx kv.Tx) error {
		for _, item := range items {
			var random [recipe.RandomSize]byte
			if _, err := io.ReadFull(c.random, random[:]); err != nil {
				return err
			}
			key, err := subspace.Named("q").Pack([]any{item.Priority, c.next[item.Priority], random[:]})
			if err != nil {
				return err
			}
			c.next[item.Priority]++
			tx.Set(key, []byte(item.Value))
		}
		return nil
	})
}

// zeros is a source of random bytes that are not.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// kind is a queue for woven runs.
type kind struct {
	ends     int
	fifoTies bool
	unknown  float64
	open     func(kv.DB, io.Reader) Target
}

func of(ends int, open func(plain) Target) kind {
	return kind{ends: ends, open: func(db kv.DB, random io.Reader) Target {
		return open(newPlain(db, random, recipe.LastPushed))
	}}
}

func (k kind) withUnknown() kind { k.unknown = 0.15; return k }

// Correct queues are found correct, whatever happens between read and commit.
func TestCorrectQueues(t *testing.T) {
	one := of(1, func(p plain) Target { return p })
	two := of(2, func(p plain) Target { return p })
	ties := kind{ends: 2, fifoTies: true, open: func(db kv.DB, random io.Reader) Target {
		return newPlain(db, random, recipe.FirstPushed)
	}}
	for name, k := range map[string]kind{
		"one end": one, "two ends": two, "FIFO ties": ties,
		"one end, unknown": one.withUnknown(), "two ends, unknown": two.withUnknown(), "FIFO ties, unknown": ties.withUnknown(),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30 * *rounds) {
				Check(t, runWoven(t, seed, k))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// Queues with a known mistake are found wrong, within a few seeds. This is the
// test of the test.
func TestBrokenQueues(t *testing.T) {
	for _, c := range []struct {
		name   string
		k      kind
		within uint64
	}{
		{"no random element in keys", kind{ends: 1, open: func(db kv.DB, _ io.Reader) Target {
			return newPlain(db, zeros{}, recipe.LastPushed)
		}}, 10},
		{"snapshot read for the head", of(1, func(p plain) Target { return snapshotHead{p} }), 10},
		{"empty from an old snapshot", of(1, func(p plain) Target { return &staleEmpty{plain: p} }), 10},
		{"last in, first out", of(1, func(p plain) Target { return lastFirst{p} }), 10},
		{"last in, first out of the lowest", of(2, func(p plain) Target { return lastFirst{p} }), 10},
		{"last of the highest for the first", kind{ends: 2, fifoTies: true, open: func(db kv.DB, random io.Reader) Target {
			return newPlain(db, random, recipe.LastPushed)
		}}, 10},
		{"first of the highest for the last", kind{ends: 2, open: func(db kv.DB, random io.Reader) Target {
			return newPlain(db, random, recipe.FirstPushed)
		}}, 10},
		{"put again after an unknown outcome", of(1, func(p plain) Target { return retry{p, true, false} }).withUnknown(), 10},
		{"take again after an unknown outcome", of(1, func(p plain) Target { return retry{p, false, true} }).withUnknown(), 10},
		{"unknown outcome taken for a failure", of(1, func(p plain) Target { return denier{p} }).withUnknown(), 10},
		{"no conflict with a higher push", of(2, func(p plain) Target { return headOnly{p} }), 50},
		{"batch put in pieces", of(1, func(p plain) Target { return piecemeal{p, true, false} }), 50},
		{"batch taken in pieces", of(1, func(p plain) Target { return piecemeal{p, false, true} }), 50},
		{"index remembered", kind{ends: 1, open: func(db kv.DB, random io.Reader) Target {
			return counter{newPlain(db, random, recipe.LastPushed), random, make(map[int64]int64)}
		}}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range c.within {
				h := runWoven(t, seed, c.k)
				err := Verify(h, Limit)
				var v *Violation
				if errors.As(err, &v) {
					small := Shrink(h)
					t.Logf("found with seed %d, %d calls of %d:\n%s", seed, len(small.Ops), len(h.Ops), Listing(small))
					if err := Verify(small, Limit); !errors.As(err, &v) || len(small.Ops) > len(h.Ops) {
						t.Errorf("shrunk to a history that is not wrong: %v", err)
					}
					return
				}
				testkit.NoError(t, err)
			}
			t.Errorf("not found with %d seeds", c.within)
		})
	}
}
