package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

// takeFlags are the flags of the commands that take items out.
type takeFlags struct {
	n                int64
	all, commitFirst bool
	wait             string
	follow           bool
	print            printFlags
}

func (t *takeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	integerFlag(flags, &t.n, "count", "n", 1, "take up to so many items")
	flags.BoolVar(&t.all, "all", false, "take all items")
	flags.BoolVar(&t.commitFirst, "commit-first", false,
		"remove items before they are written: if the command dies, its last batch\nis lost, instead of being written again by the next one")
	flags.StringVar(&t.wait, "wait", "", "wait until there is an item, or for so long, as 30s")
	flags.Lookup("wait").NoOptDefVal = forEver
	flags.BoolVar(&t.follow, "follow", false, "take all items, and go on with those to come until interrupted")
	t.print.register(cmd)
}

// limit returns how many items are wanted.
func (t *takeFlags) limit(cmd *cobra.Command) (int, error) {
	switch {
	case t.all && cmd.Flags().Changed("count"):
		return 0, usagef("-n and --all exclude each other")
	case t.follow && (t.all || t.wait != "" || cmd.Flags().Changed("count")):
		return 0, usagef("--follow takes all items, with no -n, --all or --wait beside it")
	case t.all, t.follow:
		return math.MaxInt, nil
	case t.n < 1:
		return 0, usagef("-n %d: at least 1 item must be wanted", t.n)
	}
	return int(min(t.n, math.MaxInt)), nil
}

// deliveryHelp is part of the help of the commands that take items out.
const deliveryHelp = `Items are removed in batches. By default a batch is written out and flushed (to
the disk if standard output is a file) before its removal commits: if the command
is killed, no item is lost, and at most the last batch is written again by the
next one. With --commit-first it is the other way round: no item is written twice,
and at most the last batch is lost.

What is in a pipe counts as written. If its reader goes away, what it has not read of
that is gone: "conq dequeue numbers --all | head -n 1" removes more items than one,
and says how many if it finds the pipe closed. A standard output that is closed (>&-)
counts as /dev/null: what is written there is gone, too.

Where several commands take from one queue of a shared store (etcd, FoundationDB)
at the same time, use --commit-first. Without it, one that collides with another
has written its batch already: it goes on with other items, so that it writes some
which the other gets, too, and more than -n.`

// source is a queue as delivery needs it: something that has items in the order
// in which they are to be taken.
type source interface {
	// keys returns the first items in that order, at least n if there are so many.
	// Only their keys are looked at.
	keys(r kv.Reader, n int) iter.Seq2[kv.KeyValue, error]
	// take removes the first items, at most n and as many as the store likes, or
	// fails with conq.ErrEmpty.
	take(tx kv.Tx, n int) ([]item, error)
	// remove is take in a transaction of the handle's own.
	remove(ctx context.Context, n int) ([]item, error)
	// transact runs a transaction, and finds out whether it was committed.
	transact(ctx context.Context, f func(kv.Tx) (int, error)) (int, error)
	reclaimer
}

// delivery moves items from a queue to a sink, a batch a transaction.
//
// By default the items are written and flushed inside of the transaction, just
// before it commits. A write that fails, or a process that dies, then leaves the
// batch in the queue. But the function of a transaction can run more than once: it
// conflicts with another process on a shared store, or it becomes too old while
// the reader of a pipe lets it wait. So delivery knows the batch that it has
// written, by key, as values can repeat: a later attempt removes those items
// without writing them again. What another process has taken in between was
// written by both; without a commit before the write this can't be avoided.
//
// With commitFirst the transaction only removes, and what it removed is written
// after its commit.
type delivery struct {
	db          kv.DB
	source      source
	sink        *sink
	commitFirst bool
	finishes    bool // the batch under way when the context ends

	written map[string]bool // keys of items that were written, and are not known to be removed
}

// run delivers up to n items, and returns how many it has.
func (d *delivery) run(ctx context.Context, n int) (done int, err error) {
	if d.written == nil {
		d.written = make(map[string]bool)
	}
	size := budget.BatchFor(d.db.Limits(), itemOperations).Items
	batch := d.writeThenRemove
	if d.commitFirst {
		batch = d.removeThenWrite
	}
	batchCtx := ctx
	if d.finishes {
		var end context.CancelFunc
		batchCtx, end = finishing(ctx)
		defer end()
	}
	done, err = inBatches(ctx, d.source, n, func(n int) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		taken, err := batch(batchCtx, min(size, n))
		if err == nil && (taken == len(d.written) || len(d.written) > maxWritten) { // else some were written in vain, and will come again
			clear(d.written)
		}
		return taken, err
	})
	switch {
	case errors.Is(err, conq.ErrEmpty):
		return done, nil
	case errors.Is(err, kv.ErrCommitUnknown):
		return done, d.unknown(err)
	case err != nil && ctx.Err() != nil && !isOutput(err):
		return done, d.stillIn(fmt.Errorf("%w; %s removed before that", err, items(done)))
	case err != nil && !isOutput(err):
		return done, d.stillIn(err)
	case err != nil && !d.commitFirst:
		err = after(err, fmt.Sprintf("%s removed", items(done)))
		if isUnread(err) && done > 0 {
			err = &exitError{exitFailure, err} // it may not have read all of those
		}
	}
	return done, err
}

// maxWritten bounds the keys of what was written that are kept: some have gone, to others.
const maxWritten = 100_000

// lastBatch is for how long a batch goes on that is under way when its command is to end. It takes less, unless a cluster does not
// answer.
const lastBatch = 2 * time.Second

// finishing returns a context that ends lastBatch after ctx.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	later, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(lastBatch, func() { end(context.Cause(ctx)) })
	})
	return later, func() { stop(); end(nil) }
}

// inBatches has batch take up to n items, some at a time, until that fails, at last with conq.ErrEmpty. Items that were
// given to consumers that have died go back before, and when all others are taken, as the deadline of some may have come since.
func inBatches(ctx context.Context, from reclaimer, n int, batch func(n int) (taken int, err error)) (done int, err error) {
	if err := from.Reclaim(ctx); err != nil {
		return 0, err
	}
	for again := true; done < n; {
		taken, err := batch(n - done)
		done += taken
		if again && errors.Is(err, conq.ErrEmpty) {
			again, err = false, from.Reclaim(ctx)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// reclaimer puts items back that were given to consumers that have died: to take some does not.
type reclaimer interface {
	Reclaim(ctx context.Context) error
}

func (d *delivery) writeThenRemove(ctx context.Context, n int) (taken int, err error) {
	return d.source.transact(ctx, func(tx kv.Tx) (int, error) {
		keys, err := firstKeys(d.source, tx.Snapshot(), n)
		if err != nil {
			return 0, err
		}
		batch, err := d.source.take(tx, max(1, len(keys)))
		if err != nil {
			return 0, err
		}
		if len(batch) > len(keys) {
			return 0, fmt.Errorf("took %d items of which only %d have a key", len(batch), len(keys))
		}
		return len(batch), d.write(keys, batch)
	})
}

// write prints the items that were not written by an earlier attempt.
func (d *delivery) write(keys []string, batch []item) error {
	for i, it := range batch {
		if d.written[keys[i]] {
			continue
		}
		if err := d.sink.add(it); err != nil {
			return err
		}
		d.written[keys[i]] = true
	}
	return d.sink.flush()
}

func (d *delivery) removeThenWrite(ctx context.Context, n int) (taken int, err error) {
	batch, err := d.source.remove(ctx, n)
	if err != nil {
		return 0, err
	}
	return d.writeRemoved(batch)
}

// writeRemoved prints items that are no longer in the queue, and returns how many it has printed. If that fails the
// others are lost.
func (d *delivery) writeRemoved(batch []item) (written int, err error) {
	ends := make([]int, 0, len(batch)) // of the items, in the output
	for _, it := range batch {
		if err = d.sink.add(it); err != nil {
			break
		}
		ends = append(ends, d.sink.added())
	}
	if err == nil {
		err = d.sink.flush()
	}
	if err == nil {
		return len(batch), nil
	}
	written, _ = slices.BinarySearch(ends, d.sink.out.n+1)
	if written == len(batch) { // and then not to the disk: some or all of it
		written = 0
	}
	// Even if the reader of a pipe has gone away: it may have had enough, but not those.
	lost := items(len(batch) - written)
	return written, &exitError{exitFailure, fmt.Errorf("%w; %s lost: removed from the queue, and not written", err, lost)}
}

// unknown explains what an unknown outcome means here.
func (d *delivery) unknown(err error) error {
	if d.commitFirst {
		return fmt.Errorf("%w: up to a batch of items may be lost", err)
	}
	return fmt.Errorf("%w: the last %s written out may still be in the queue", err, items(len(d.written)))
}

// stillIn adds to an error of a batch that it was written, if it was.
func (d *delivery) stillIn(err error) error {
	if n := len(d.written); n > 0 {
		return fmt.Errorf("%w; the last %s written out may still be in the queue", err, items(n))
	}
	return err
}

// firstKeys returns the keys of the first n items, or of some of them if those
// are large: it reads their values too.
func firstKeys(s source, r kv.Reader, n int) (keys []string, err error) {
	const enough = 16 << 20
	bytes := 0
	for pair, err := range s.keys(r, n) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(pair.Key))
		if bytes += len(pair.Value); len(keys) == n || bytes >= enough {
			break
		}
	}
	return keys, nil
}
