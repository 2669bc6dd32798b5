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
	"github.com/conq-go/conq/work"
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
	c, err := client.Dial(ctx, a.store, client.Options{Token: token, Insecure: os.Getenv("CONQ_INSECURE") == "1", Patience: patience})
	if err != nil {
		return err
	}
	defer c.Close()
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
	return conq.Info{Name: info.Name, Kind: conq.Kind(info.Kind)}, err == nil, err
}

func (r remote) find(ctx context.Context, name string) (conq.Info, error) {
	info, found, err := r.lookup(ctx, name)
	if err == nil && !found {
		err = nothingf("%w: %.200q", conq.ErrNoQueue, name)
	}
	return info, err
}

// remoteQueue is a queue of a server that items are put into.
type remoteQueue struct{ *client.Queue[[]byte] }

func (q remoteQueue) put(ctx context.Context, batch []item) error {
	return q.EnqueueAll(ctx, plainValues(batch))
}

func (r remote) queue(ctx context.Context, name string) (target, error) {
	q, err := client.OpenQueue(ctx, r.c, name, r.app.itemCodec())
	return remoteQueue{q}, err
}

type remotePriorityQueue struct {
	*client.PriorityQueue[[]byte]
}

func (q remotePriorityQueue) put(ctx context.Context, batch []item) error {
	return q.PushAll(ctx, prioritized(batch))
}

func (r remote) priorityQueue(ctx context.Context, name string) (target, error) {
	q, err := client.OpenPriorityQueue(ctx, r.c, name, r.app.itemCodec())
	return remotePriorityQueue{q}, err
}

// remoteJobs is a work queue of a server.
type remoteJobs struct{ *client.WorkQueue[[]byte] }

// BuryAll has the server's reason.
func (q remoteJobs) BuryAll(ctx context.Context, f work.Filter, _ string, progress func(int)) (int, error) {
	return q.WorkQueue.BuryAll(ctx, f, progress)
}

func (r remote) jobs(ctx context.Context, name string, codec conq.Codec[[]byte], o work.Options) (jobQueue, error) {
	q, err := client.OpenWork(ctx, r.c, name, codec, client.WorkOptions{Lease: o.Lease})
	return remoteJobs{q}, err
}

// remoteTake is what takes up to n items from a server, and what waits for some.
type remoteTake struct {
	now, wait func(context.Context, int) ([]item, error)
}

func (r remote) take(ctx context.Context, name string, kind conq.Kind, from ends) (remoteTake, error) {
	if kind == conq.KindQueue {
		q, err := client.OpenQueue(ctx, r.c, name, r.app.itemCodec())
		if err != nil {
			return remoteTake{}, err
		}
		return remoteTake{itemsOf(q.DequeueN, plainItem), itemsOf(q.DequeueWaitN, plainItem)}, nil
	}
	q, err := client.OpenPriorityQueue(ctx, r.c, name, r.app.itemCodec())
	switch {
	case err != nil:
		return remoteTake{}, err
	case from.ties == "first" && from.max:
		return remoteTake{}, usagef("--ties first needs the store itself: over a server --max takes the one that was pushed last")
	case from.max:
		return remoteTake{itemsOf(q.PopMaxN, prioritizedItem), itemsOf(q.PopMaxWaitN, prioritizedItem)}, nil
	}
	return remoteTake{itemsOf(q.PopMinN, prioritizedItem), itemsOf(q.PopMinWaitN, prioritizedItem)}, nil
}

func itemsOf[V any](take func(context.Context, int) ([]V, error), of func(V) item) func(context.Context, int) ([]item, error) {
	return func(ctx context.Context, n int) ([]item, error) {
		values, err := take(ctx, n)
		return itemsFrom(values, of), err
	}
}

// takeFromServer takes what the flags say out of an existing queue of a server and prints it. Each batch is gone when it arrives.
func (a *app) takeFromServer(ctx context.Context, name string, kind conq.Kind, flags takeFlags, from ends, n int) error {
	return a.withServer(ctx, func(c *client.Client) error {
		r := remote{a, c}
		waits, cancel, err := flags.waiting(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		if err := r.await(ctx, waits, name, kind); err != nil {
			return err
		}
		take, err := r.take(ctx, name, kind, from)
		if err != nil {
			return err
		}
		d := delivery{sink: a.sink(flags.print), commitFirst: true}
		for done := 0; done < n; {
			batch, err := take.now(ctx, min(1000, n-done))
			if errors.Is(err, conq.ErrEmpty) && waits != nil && (done == 0 || flags.follow) {
				if batch, err = take.wait(waits, min(1000, n-done)); err != nil && ctx.Err() == nil && waits.Err() != nil {
					err = conq.ErrEmpty
				}
			}
			if lost, failed := d.writeRemoved(batch); failed != nil {
				return &exitError{exitFailure, fmt.Errorf("%w; %s lost: removed from the queue, and not written", failed, items(lost))}
			}
			switch done += len(batch); {
			case errors.Is(err, conq.ErrEmpty) && done > 0:
				return nil
			case errors.Is(err, conq.ErrEmpty):
				return errNothing
			case err != nil:
				return fmt.Errorf("%w; %s removed before that", err, items(done))
			}
		}
		return nil
	})
}

// await returns when there is the queue. It waits until waits ends, if that is not nil.
func (r remote) await(ctx, waits context.Context, name string, kind conq.Kind) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := existing(ctx, r, name, kind)
		switch {
		case waits == nil || err == nil:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w while waiting; %s removed before that", context.Cause(ctx), items(0))
		case !errors.Is(err, conq.ErrNoQueue):
			return err
		}
		select {
		case <-waits.Done():
			if ctx.Err() == nil {
				return errNothing
			}
		case <-tick.C:
		}
	}
}

// aPage returns items of a queue, from where next of another page says on.
type aPage func(ctx context.Context, after []byte, n int) (page []item, next []byte, err error)

func (r remote) page(ctx context.Context, q conq.Info, from ends) (aPage, error) {
	if q.Kind == conq.KindQueue {
		queue, err := client.OpenQueue(ctx, r.c, q.Name, r.app.itemCodec())
		if err != nil {
			return nil, err
		}
		return pages(queue.Page, plainItem), nil
	}
	if from.max && from.ties == "first" {
		return nil, usagef("--ties first needs the store itself")
	}
	queue, err := client.OpenPriorityQueue(ctx, r.c, q.Name, r.app.itemCodec())
	switch {
	case err != nil:
		return nil, err
	case from.max:
		return pages(queue.PageMax, prioritizedItem), nil
	}
	return pages(queue.PageMin, prioritizedItem), nil
}

func pages[V any](look func(context.Context, []byte, int) ([]V, []byte, error), of func(V) item) aPage {
	return func(ctx context.Context, after []byte, n int) (page []item, next []byte, err error) {
		values, next, err := look(ctx, after, n)
		return itemsFrom(values, of), next, err
	}
}

func (r remote) peek(ctx context.Context, q conq.Info, from ends, n int, out *sink) (done int, err error) {
	page, err := r.page(ctx, q, from)
	if err != nil {
		return 0, err
	}
	for after := []byte(nil); done < n; {
		batch, next, err := page(ctx, after, min(1000, n-done))
		if err != nil {
			return done, err
		}
		for _, it := range batch {
			if err := out.add(it); err != nil {
				return done, err
			}
			done++
		}
		if after = next; after == nil {
			break
		}
	}
	return done, nil
}

func (r remote) move(ctx context.Context, from conq.Info, to string, n int) (moved int, err error) {
	for moved < n {
		some, err := r.c.Move(ctx, from.Name, to, min(1000, n-moved), false)
		if moved += some; err != nil || some == 0 {
			return moved, err
		}
	}
	return moved, nil
}

func (r remote) purge(ctx context.Context, q conq.Info, sure func(n int) error) (n int, err error) {
	if n, err = r.c.Len(ctx, q.Name); err != nil {
		return 0, err
	}
	if err := sure(n); err != nil {
		return 0, err
	}
	return n, r.c.Clear(ctx, q.Name)
}

func (r remote) queues(ctx context.Context) (infos []conq.Info, err error) {
	all, err := r.c.Queues(ctx)
	for _, q := range all {
		infos = append(infos, conq.Info{Name: q.Name, Kind: conq.Kind(q.Kind)})
	}
	return infos, err
}

func (r remote) count(ctx context.Context, q conq.Info) (info, error) {
	counted, err := r.c.Count(ctx, q.Name)
	return factsOf(counted), err
}

// facts has each queue counted, as the numbers in the list of a server may be of a while ago.
func (r remote) facts(ctx context.Context) (storeFacts, error) {
	facts := storeFacts{Store: r.app.shownStore(), Engine: "server", Queues: []info{}}
	all, err := r.c.Queues(ctx)
	for _, q := range all {
		counted, err := r.c.Count(ctx, q.Name)
		if err != nil {
			return facts, err
		}
		facts.Queues = append(facts.Queues, factsOf(counted))
	}
	return facts, err
}

func factsOf(q client.Info) info {
	i := info{Name: q.Name, Kind: conq.Kind(q.Kind), Items: new(int)}
	if q.State == nil {
		return i
	}
	n := q.State.Depth
	if j := q.State.Jobs; j != nil {
		i.Jobs = (*jobCounts)(j)
		n += j.Dead + j.Done
	}
	*i.Items = int(min(n, math.MaxInt))
	return i
}
