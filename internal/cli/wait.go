package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/spf13/cobra"
)

// waitHelp is part of the help of the commands that take items out.
const waitHelp = `With --wait it waits until there is an item, or for the time given, as --wait=30s:
then the exit code is 1. With --follow it goes on until SIGTERM or SIGINT, which end it
after the batch under way, with exit code 0. An embedded store is not kept open
meanwhile, so that other commands can add to it. While a cluster does not answer
the command waits, for as long as that takes, and says so.

`

const (
	forEver = "forever" // what --wait without a time means

	// lookEvery is how often a command that waits looks whether there is something: the item
	// must not be taken before its removal can be written out with it, so a take that waits won't do.
	lookEvery = 100 * time.Millisecond
)

// waiting returns a context that ends when there is to be no more waiting, or nil if there is to be none.
func (t *takeFlags) waiting(ctx context.Context) (context.Context, context.CancelFunc, error) {
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

// taker takes what the flags say out of a queue, and waits if they say so.
type taker struct {
	*app
	flags takeFlags
	name  string
	kind  conq.Kind
	from  ends

	most  int // that are to be taken
	taken int
	owner fs.FileInfo // of an embedded store, when this command had it open last
}

// takeAll takes what the flags say out of an existing queue and prints it.
func (a *app) takeAll(cmd *cobra.Command, name string, kind conq.Kind, flags takeFlags, from ends) error {
	n, err := flags.limit(cmd)
	if err != nil {
		return err
	}
	waits, cancel, err := flags.waiting(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	a.lasts = waits != nil
	t := &taker{app: a, flags: flags, name: name, kind: kind, from: from, most: n}
	if a.isServer() {
		err = a.withServer(cmd.Context(), func(c *client.Client) error { return t.takeFromServer(cmd.Context(), waits, c) })
	} else {
		err = t.run(cmd.Context(), waits)
	}
	return t.unlessEnded(cmd.Context(), err)
}

// unlessEnded returns err, unless it says only that a command that follows a queue was ended: nothing else ends it.
func (t *taker) unlessEnded(ctx context.Context, err error) error {
	if t.flags.follow && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// run takes until it has what it is to take, there is nothing more and nothing to wait for, or ctx ends.
// It waits until waits ends, if that is not nil.
func (t *taker) run(ctx, waits context.Context) error {
	for {
		err := withStore(t.openExisting, func(db kv.DB) error { return t.unlessEnded(ctx, t.drain(ctx, waits, db)) })
		var exit *exitError
		switch nothing := errors.As(err, &exit) && exit.code == exitEmpty; {
		case t.waits() && errors.Is(err, embedded.ErrInUse): // by a command that may be adding
			t.owner = nil
		case err != nil && !(nothing && t.waits()):
			return err
		case t.done():
			return nil
		case !t.waits():
			return errNothing
		}
		if err := t.pause(ctx, waits); err != nil {
			return err
		}
	}
}

func (t *taker) waits() bool { return t.flags.follow || t.flags.wait != "" }

// done tells whether there is nothing more to be waited for.
func (t *taker) done() bool { return t.taken > 0 && !t.flags.follow }

// drain takes what there is. From an embedded store that is all; of others it waits for more.
func (t *taker) drain(ctx, waits context.Context, db kv.DB) error {
	t.owner = t.lastOwner()
	if err := existing(ctx, local{t.app, db}, t.name, t.kind); err != nil {
		return err
	}
	q, err := openQueue(db, t.kind, t.name, t.itemCodec(), t.from)
	if err != nil {
		return err
	}
	defer letGo(ctx, q)
	d := delivery{db: db, source: q, sink: t.sink(t.flags.print), commitFirst: t.flags.commitFirst, finishes: t.flags.follow}
	for {
		n, err := d.run(ctx, t.most)
		t.taken += n
		if _, embedded := t.storeDir(); err != nil || embedded || t.done() || !t.waits() {
			return err
		}
		if err := t.pause(ctx, waits); err != nil {
			return err
		}
	}
}

// pause returns when it is time to look again. With an embedded store that is when another
// process has had it open.
func (t *taker) pause(ctx, waits context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-waits.Done():
			if ctx.Err() == nil {
				return errNothing
			}
			return &exitError{exitFailure, fmt.Errorf("%w while waiting; %s removed before that", context.Cause(ctx), items(t.taken))}
		case <-tick.C:
		}
		if _, embedded := t.storeDir(); !embedded || !same(t.owner, t.lastOwner()) {
			return nil
		}
	}
}

// lastOwner returns the file that each process writes that opens the embedded store, or nil.
func (t *taker) lastOwner() fs.FileInfo {
	dir, embedded := t.storeDir()
	if !embedded {
		return nil
	}
	info, err := os.Stat(filepath.Join(dir, "OWNER"))
	if err != nil {
		return nil
	}
	return info
}

// same tells whether a file is the one that it was, or was and is not there.
func same(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime())
}
