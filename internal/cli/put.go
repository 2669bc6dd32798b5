package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

// putFlags are the flags of the commands that put items in.
type putFlags struct {
	ack, null bool
}

func (p *putFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.ack, "ack", false,
		"print the number of items that are on disk, a line each time it has grown")
	cmd.Flags().BoolVarP(&p.null, "null", "0", false, "items on standard input end with NUL, not with a line end")
}

// putter moves items from a feed into a queue, all that are there in one
// transaction. An item is done when its transaction is durable, and items are
// done in their order: at any moment the queue has got a prefix of the input.
type putter struct {
	app      *app
	flags    putFlags
	queue    string
	unit     string // what the items' numbers count: "line", "item" or argument
	put      func(context.Context, []item) error
	progress *progress

	done  int
	bytes int64
	began time.Time
}

// run puts all items in and says how many.
func (p *putter) run(ctx context.Context, f *feed) error {
	p.began = time.Now()
	err := p.drain(ctx, f)
	p.progress.finish()
	if err != nil {
		return fmt.Errorf("%w; %s put into %q before that", err, items(p.done), p.queue)
	}
	return p.summary()
}

func (p *putter) drain(ctx context.Context, f *feed) error {
	for {
		batch, first, err := f.take(ctx)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return p.name(err, first)
		}
		if err := p.commit(ctx, batch, first); err != nil {
			return err
		}
	}
}

// commit puts a batch in. If it is too large it tries the halves, so that what
// remains at last is the one item that is too large, and all before it are in.
func (p *putter) commit(ctx context.Context, batch []item, first int) error {
	err := p.put(ctx, batch)
	var some *partlyPut
	switch {
	case err == nil:
		return p.acknowledge(batch)
	case errors.As(err, &some):
		p.done += some.n
		return err
	case isOutput(err): // of what is told of the batch, as its ids: it is in, and the rest of the input is not
		p.done += len(batch)
		return &exitError{exitFailure, err}
	case errors.Is(err, kv.ErrCommitUnknown):
		return fmt.Errorf("%w: %ss %d to %d may or may not be in", err, p.unit, first, first+len(batch)-1)
	case !errors.Is(err, kv.ErrTooLarge):
		return err
	case len(batch) == 1:
		return p.name(err, first)
	}
	half := len(batch) / 2
	if err := p.commit(ctx, batch[:half], first); err != nil {
		return err
	}
	return p.commit(ctx, batch[half:], first+half)
}

// name adds to an error which item it is about.
func (p *putter) name(err error, number int) error {
	var bad *badItem
	if errors.Is(err, kv.ErrTooLarge) || errors.As(err, &bad) {
		return fmt.Errorf("%s %d: %w", p.unit, number, err)
	}
	return err
}

func (p *putter) acknowledge(batch []item) error {
	p.done += len(batch)
	for _, it := range batch {
		p.bytes += int64(len(it.Value))
	}
	p.progress.set(items(p.done), p.bytes+int64(p.done)) // each item had a line end
	if !p.flags.ack {
		return nil
	}
	// Unlike a reader of items, one of acknowledgements that goes away has not
	// had enough: the rest of the input is not in. So this is no quiet end.
	if err := p.printDone(); err != nil {
		return &exitError{exitFailure, err}
	}
	return nil
}

func (p *putter) printDone() error {
	return p.app.answer(struct {
		Done int `json:"done"`
	}{p.done}, "%d\n", p.done)
}

func (p *putter) summary() error {
	took := time.Since(p.began)
	if p.app.json {
		err := p.app.printJSON(struct {
			Queue   string  `json:"queue"`
			Items   int     `json:"items"`
			Bytes   int64   `json:"bytes"`
			Seconds float64 `json:"seconds"`
		}{p.queue, p.done, p.bytes, took.Seconds()})
		return after(err, fmt.Sprintf("%s put into %q", items(p.done), p.queue))
	}
	const enough = 1000 // for the rate to mean something
	if isTerminal(p.app.stderr) && p.done >= enough {
		fmt.Fprintf(p.app.stderr, "%s (%s) put into %q in %.2f s, %s a second\n", items(p.done), size(p.bytes), p.queue,
			took.Seconds(), count(int(float64(p.done)/took.Seconds())))
	}
	return nil
}

// partlyPut is the error of a batch of which n items are in.
type partlyPut struct {
	error
	n int
}

func (e *partlyPut) Unwrap() error { return e.error }

// badItem is the error for an item that can't be put in as it is.
type badItem struct{ err error }

func (e *badItem) Error() string { return e.err.Error() }
func (e *badItem) Unwrap() error { return e.err }

const argument = "argument"

// input returns a feed of the items that the arguments or standard input give,
// and what their numbers count. parse turns a line into an item.
func (a *app) input(args []string, null bool, limits kv.Limits, parse func([]byte) (item, error)) (f *feed, unit string) {
	next := argumentReader(args)
	unit = argument
	if fromStdin(args) {
		next, unit = a.stdinReader(null, limits), "line"
		if null {
			unit = "item"
		}
	}
	f = newFeed(budget.BatchFor(limits, itemOperations))
	go f.fill(func() (item, error) {
		b, err := next()
		if err != nil {
			return item{}, err
		}
		it, err := parse(b)
		if err == nil {
			b, err = a.itemCodec().Encode(it.Value)
		}
		if err != nil {
			return item{}, &badItem{err}
		}
		return it, checkSize(limits, len(b))
	})
	return f, unit
}

func fromStdin(args []string) bool {
	return len(args) == 0 || len(args) == 1 && args[0] == "-"
}

func argumentReader(args []string) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(args) == 0 {
			return nil, io.EOF
		}
		arg := args[0]
		args = args[1:]
		return []byte(arg), nil
	}
}

func (a *app) stdinReader(null bool, limits kv.Limits) func() ([]byte, error) {
	if isTerminal(a.stdin) {
		fmt.Fprintln(a.stderr, "conq: reading items from the terminal, one a line; Ctrl-D ends")
	}
	return newLineReader(a.stdin, separator(null), maxItem(limits)).next
}

// plain parses a line that is an item.
func plain(line []byte) (item, error) { return item{Value: line}, nil }

// withPriority parses a line "PRIORITY<TAB>ITEM".
func withPriority(line []byte) (item, error) {
	number, value, found := bytes.Cut(line, []byte{'\t'})
	if !found {
		return item{}, fmt.Errorf("no tab in %.40q: a line is PRIORITY<TAB>ITEM unless --priority is given", line)
	}
	priority, err := parseInteger("priority", string(number))
	return item{Value: value, Priority: priority}, err
}

// stdinSize returns the size of standard input if it is a file, else -1.
func (a *app) stdinSize() int64 {
	if _, info := regular(a.stdin); info != nil {
		return info.Size()
	}
	return -1
}
