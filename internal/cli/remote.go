package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/kv"
)

// serverHelp is part of the help of the command.
const serverHelp = `A --store as http://host:7711 is a server, which "conq serve" runs. CONQ_TOKEN has its
token, or CONQ_TOKEN_FILE the name of a file with it; it goes over http:// to another machine
only if CONQ_INSECURE is 1. Over a server dequeue and pop remove items before they are written,
as with --commit-first; check, dump, load, demo and bench need the store itself.`

// isServer tells whether the store is that of a server.
func (a *app) isServer() bool {
	scheme := strings.ToLower(aScheme.FindString(a.store))
	return scheme == "http:" || scheme == "https:"
}

// withServer runs f with a client of the server.
func (a *app) withServer(ctx context.Context, f func(*client.Client) error) error {
	if a.durability != "" {
		return usagef("--durability is for embedded stores, not for %.200q", a.shownStore())
	}
	token := os.Getenv("CONQ_TOKEN")
	if file := os.Getenv("CONQ_TOKEN_FILE"); token == "" && file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return usagef("CONQ_TOKEN_FILE: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	o := client.Options{Token: token, Insecure: os.Getenv("CONQ_INSECURE") == "1", Transport: a.transport}
	c, err := connect(a, func() (*client.Client, error) { return client.Dial(ctx, a.store, o) })
	if err != nil {
		return err
	}
	c.Close()
	look := o
	look.Patience, look.Timeout = 1, patience // one try
	o.Patience = math.MaxInt64                // it has answered once, and is waited for from then on, as a store is
	if c, err = client.Dial(ctx, a.store, o); err != nil {
		return err
	}
	defer c.Close()
	go a.watch(func() error {
		c, err := client.Dial(ctx, a.store, look)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return f(c)
}

// remote is a server.
type remote struct {
	app *app
	c   *client.Client
}

func (r remote) limits() kv.Limits { return kv.Limits{} }

func (r remote) lookup(ctx context.Context, name string) (conq.Info, bool, error) {
	info, err := r.c.Lookup(ctx, name)
	if errors.Is(err, conq.ErrNoQueue) {
		return conq.Info{}, false, nil
	}
	return conq.Info{Name: info.Name, Kind: conq.Kind(info.Kind), Deleting: info.Deleting}, err == nil, err
}

func (r remote) find(ctx context.Context, name string) (conq.Info, error) {
	info, found, err := r.lookup(ctx, name)
	if err == nil && !found {
		err = nothingf("%w: %.200q", conq.ErrNoQueue, name)
	}
	return info, err
}

func (r remote) open(ctx context.Context, name string, kind conq.Kind) (itemQueue, error) {
	if kind == conq.KindQueue {
		q, err := client.OpenQueue(ctx, r.c, name, r.app.itemCodec())
		return fifo{q}, err
	}
	return client.OpenPriorityQueue(ctx, r.c, name, r.app.itemCodec())
}

func (r remote) jobs(ctx context.Context, name string, codec conq.Codec[[]byte], lease time.Duration) (jobQueue, error) {
	return client.OpenWork(ctx, r.c, name, codec, client.WorkOptions{Lease: lease})
}

// takeFromServer takes what there is on a server, or comes, and prints it. Each batch is gone when it arrives.
func (t *taker) takeFromServer(ctx, waits context.Context, c *client.Client) error {
	r := remote{t.app, c}
	if err := t.awaitQueue(ctx, waits, r); err != nil {
		return err
	}
	if t.from.firstOfTies() {
		return usagef("--ties first needs the store itself: over a server --max takes the one that was pushed last")
	}
	q, err := r.open(ctx, t.name, t.kind)
	if err != nil {
		return err
	}
	d := delivery{sink: t.sink(t.flags.print), commitFirst: true}
	for t.most > t.taken {
		n := min(mostAtOnce, t.most-t.taken)
		batch, err := q.PopN(ctx, t.from.end(), n)
		if errors.Is(err, conq.ErrEmpty) && waits != nil && !t.done() {
			if batch, err = q.PopWaitN(waits, t.from.end(), n); err != nil && ctx.Err() == nil && waits.Err() != nil {
				err = conq.ErrEmpty
			}
		}
		if _, failed := d.writeRemoved(batch); failed != nil {
			return failed
		}
		switch t.taken += len(batch); {
		case errors.Is(err, conq.ErrEmpty) && t.taken > 0:
			return nil
		case errors.Is(err, conq.ErrEmpty):
			return errNothing
		case errors.Is(err, kv.ErrCommitUnknown) && waits != nil && waits.Err() == nil:
			fmt.Fprintln(t.stderr, oneLine(err.Error(), "up to a batch of items may be lost; this goes on"))
		case err != nil:
			return fmt.Errorf("%w; %s removed before that", err, items(t.taken))
		}
	}
	return nil
}

// awaitQueue returns when there is the queue. It waits until waits ends, if that is not nil.
func (t *taker) awaitQueue(ctx, waits context.Context, b backend) error {
	for {
		err := existing(ctx, b, t.name, t.kind)
		if waits == nil || ctx.Err() == nil && !errors.Is(err, conq.ErrNoQueue) {
			return err
		}
		if err := t.pause(ctx, waits); err != nil {
			return err
		}
	}
}

// mostAtOnce is how many items one request is for.
const mostAtOnce = 1000

func (r remote) move(ctx context.Context, from conq.Info, to string, n int) (moved int, err error) {
	for err == nil && moved < n {
		var some int
		some, err = r.c.Move(ctx, from.Name, to, min(mostAtOnce, n-moved))
		moved += some
	}
	return moved, err
}

func (r remote) queues(ctx context.Context) (infos []conq.Info, err error) {
	all, err := r.c.Queues(ctx)
	for _, q := range all {
		infos = append(infos, conq.Info{Name: q.Name, Kind: conq.Kind(q.Kind), Deleting: q.Deleting})
	}
	return infos, err
}

func (r remote) remove(ctx context.Context, name string) error { return r.c.DeleteQueue(ctx, name) }

func (r remote) about() storeFacts {
	return storeFacts{Store: r.app.shownStore(), Engine: "server"}
}
