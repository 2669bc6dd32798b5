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

// lookupIn returns what looks a queue up on a server.
func lookupIn(c *client.Client) func(context.Context, string) (conq.Info, bool, error) {
	return func(ctx context.Context, name string) (conq.Info, bool, error) {
		info, err := c.Lookup(ctx, name)
		if errors.Is(err, conq.ErrNoQueue) {
			return conq.Info{}, false, nil
		}
		return conq.Info{Name: info.Name, Kind: conq.Kind(info.Kind)}, err == nil, err
	}
}

func findOn(ctx context.Context, c *client.Client, name string) (client.Info, error) {
	info, err := c.Lookup(ctx, name)
	if errors.Is(err, conq.ErrNoQueue) {
		err = nothingf("%w: %.200q", conq.ErrNoQueue, name)
	}
	return info, err
}

func existingOn(ctx context.Context, c *client.Client, name string, kind conq.Kind) error {
	info, err := findOn(ctx, c, name)
	if err == nil && conq.Kind(info.Kind) != kind {
		err = kindError(conq.Info{Name: name, Kind: conq.Kind(info.Kind)}, kind)
	}
	return err
}

// remoteQueue is a queue of a server that items are put into.
type remoteQueue struct{ *client.Queue[[]byte] }

func (q remoteQueue) put(ctx context.Context, batch []item) error {
	return q.EnqueueAll(ctx, plainValues(batch))
}

func (a *app) serverQueue(ctx context.Context, c *client.Client, name string) (target, error) {
	q, err := client.OpenQueue(ctx, c, name, a.itemCodec())
	return remoteQueue{q}, err
}

type remotePriorityQueue struct {
	*client.PriorityQueue[[]byte]
}

func (q remotePriorityQueue) put(ctx context.Context, batch []item) error {
	return q.PushAll(ctx, prioritized(batch))
}

func (a *app) serverPriorityQueue(ctx context.Context, c *client.Client, name string) (target, error) {
	q, err := client.OpenPriorityQueue(ctx, c, name, a.itemCodec())
	return remotePriorityQueue{q}, err
}

// remoteJobs is a work queue of a server.
type remoteJobs struct{ *client.WorkQueue[[]byte] }

// BuryAll has the server's reason.
func (q remoteJobs) BuryAll(ctx context.Context, f work.Filter, _ string, progress func(int)) (int, error) {
	return q.WorkQueue.BuryAll(ctx, f, progress)
}

func (a *app) serverJobs(ctx context.Context, c *client.Client, name string, o client.WorkOptions) (jobQueue, error) {
	q, err := client.OpenWork(ctx, c, name, a.itemCodec(), o)
	return remoteJobs{q}, err
}

// remoteTake is what takes up to n items from a server, and what waits for some.
type remoteTake struct {
	now, wait func(context.Context, int) ([]item, error)
}

func (a *app) remoteTake(ctx context.Context, c *client.Client, name string, kind conq.Kind, from ends) (remoteTake, error) {
	if kind == conq.KindQueue {
		q, err := client.OpenQueue(ctx, c, name, a.itemCodec())
		if err != nil {
			return remoteTake{}, err
		}
		return remoteTake{itemsOf(q.DequeueN, plainItem), itemsOf(q.DequeueWaitN, plainItem)}, nil
	}
	q, err := client.OpenPriorityQueue(ctx, c, name, a.itemCodec())
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

func plainItem(v []byte) item                           { return item{value: v} }
func prioritizedItem(v client.Prioritized[[]byte]) item { return item{v.Value, v.Priority} }

func itemsOf[V any](take func(context.Context, int) ([]V, error), of func(V) item) func(context.Context, int) ([]item, error) {
	return func(ctx context.Context, n int) (batch []item, err error) {
		values, err := take(ctx, n)
		for _, v := range values {
			batch = append(batch, of(v))
		}
		return batch, err
	}
}

// takeFromServer takes what the flags say out of an existing queue of a server and prints it. Each batch is gone when it arrives.
func (a *app) takeFromServer(ctx context.Context, name string, kind conq.Kind, flags takeFlags, from ends, n int) error {
	return a.withServer(ctx, func(c *client.Client) error {
		if err := existingOn(ctx, c, name, kind); err != nil {
			return err
		}
		take, err := a.remoteTake(ctx, c, name, kind, from)
		if err != nil {
			return err
		}
		waits, cancel, err := flags.waitContext(ctx)
		if err != nil {
			return err
		}
		defer cancel()
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

// waitContext returns a context for calls that wait, or nil if none are to.
func (t *takeFlags) waitContext(ctx context.Context) (context.Context, context.CancelFunc, error) {
	nothing := func() {}
	switch {
	case t.follow, t.wait == forEver:
		return ctx, nothing, nil
	case t.wait == "":
		return nil, nothing, nil
	}
	d, err := time.ParseDuration(t.wait)
	if err != nil || d <= 0 {
		return nil, nothing, usagef("--wait=%.40s: not a time above 0, as 30s or 5m", t.wait)
	}
	waits, cancel := context.WithTimeout(ctx, d)
	return waits, cancel, nil
}

// peekOnServer prints the first items of a queue of a server.
func (a *app) peekOnServer(ctx context.Context, name string, flags takeFlags, from ends, n int) error {
	return a.withServer(ctx, func(c *client.Client) error {
		info, err := findOn(ctx, c, name)
		if err != nil {
			return err
		}
		page, err := a.remotePage(ctx, c, info, flags, from)
		if err != nil {
			return err
		}
		out := a.sink(flags.print)
		out.file = nil
		done, err := printPages(ctx, page, n, out)
		if failed := out.flush(); err == nil {
			err = failed
		}
		if err == nil && done == 0 {
			err = errNothing
		}
		return err
	})
}

// aPage returns items of a queue, from where next of another page says on.
type aPage func(ctx context.Context, after []byte, n int) (page []item, next []byte, err error)

func (a *app) remotePage(ctx context.Context, c *client.Client, info client.Info, flags takeFlags, from ends) (aPage, error) {
	switch conq.Kind(info.Kind) {
	case conq.KindQueue:
		if from.max || flags.print.priority {
			return nil, usagef("--max and --with-priority are for priority queues, and %q is a queue", info.Name)
		}
		q, err := client.OpenQueue(ctx, c, info.Name, a.itemCodec())
		return func(ctx context.Context, after []byte, n int) (page []item, next []byte, err error) {
			take := func(ctx context.Context, n int) (values [][]byte, err error) {
				values, next, err = q.Page(ctx, after, n)
				return values, err
			}
			page, err = itemsOf(take, plainItem)(ctx, n)
			return page, next, err
		}, err
	case conq.KindPriorityQueue:
		if from.max && from.ties == "first" {
			return nil, usagef("--ties first needs the store itself")
		}
		q, err := client.OpenPriorityQueue(ctx, c, info.Name, a.itemCodec())
		return func(ctx context.Context, after []byte, n int) (page []item, next []byte, err error) {
			look := q.PageMin
			if from.max {
				look = q.PageMax
			}
			take := func(ctx context.Context, n int) (values []client.Prioritized[[]byte], err error) {
				values, next, err = look(ctx, after, n)
				return values, err
			}
			page, err = itemsOf(take, prioritizedItem)(ctx, n)
			return page, next, err
		}, err
	}
	return nil, usagef("%q is a %s: conq jobs shows it", info.Name, info.Kind)
}

func printPages(ctx context.Context, page aPage, n int, out *sink) (done int, err error) {
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

// moveOnServer moves up to n items, a batch a transaction.
func (a *app) moveOnServer(ctx context.Context, from, to string, n int) error {
	return a.withServer(ctx, func(c *client.Client) error {
		if _, err := findOn(ctx, c, from); err != nil {
			return err
		}
		moved := 0
		for moved < n {
			some, err := c.Move(ctx, from, to, min(1000, n-moved), false)
			if err != nil {
				return fmt.Errorf("%w; %s moved before that", err, items(moved))
			}
			if moved += some; some == 0 {
				break
			}
		}
		if moved == 0 {
			return errNothing
		}
		return after(a.printMoved(from, to, moved), fmt.Sprintf("%s moved to %q", items(moved), to))
	})
}

// purgeOnServer removes all items of a queue of any kind.
func (a *app) purgeOnServer(ctx context.Context, name string, yes bool) error {
	return a.withServer(ctx, func(c *client.Client) error {
		info, err := findOn(ctx, c, name)
		if err != nil {
			return err
		}
		n, err := c.Len(ctx, name)
		if err != nil {
			return err
		}
		if !yes {
			if err := a.confirm(ctx, fmt.Sprintf("Remove %s of %s %q?", items(n), info.Kind, name)); err != nil {
				return err
			}
		}
		if err := c.Clear(ctx, name); err != nil {
			return err
		}
		return after(a.printPurged(name, n), fmt.Sprintf("%s removed from %q", items(n), name))
	})
}

func (a *app) lsOnServer(ctx context.Context) error {
	return a.withServer(ctx, func(c *client.Client) error {
		all, err := c.Queues(ctx)
		if err != nil {
			return err
		}
		var infos []conq.Info
		for _, q := range all {
			infos = append(infos, conq.Info{Name: q.Name, Kind: conq.Kind(q.Kind)})
		}
		return a.printInfos(infos)
	})
}

// statOnServer prints facts about a queue, counted now, or about all, as the server has seen them last.
func (a *app) statOnServer(ctx context.Context, args []string) error {
	return a.withServer(ctx, func(c *client.Client) error {
		if len(args) == 1 {
			found, err := findOn(ctx, c, args[0])
			if err == nil {
				found, err = c.Count(ctx, args[0])
			}
			if err != nil {
				return err
			}
			return a.printQueueFacts(factsOf(found))
		}
		all, err := c.Queues(ctx)
		if err != nil {
			return err
		}
		facts := storeFacts{Store: a.shownStore(), Engine: "server", Queues: []info{}}
		for _, q := range all {
			facts.Queues = append(facts.Queues, factsOf(q))
		}
		if a.json {
			return a.printJSON(facts)
		}
		return a.printStore(facts)
	})
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
