package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	_ "github.com/conq-go/conq/kv/etcd"         // --store etcd://host:2379
	_ "github.com/conq-go/conq/kv/foundationdb" // without its build tag, opening one says how to build
)

const embeddedScheme = "embedded:"

// durabilities are the values of --durability.
var durabilities = []string{"always", "interval", "memory"}

// open opens the store.
func (a *app) open() (kv.DB, error) {
	store, err := a.storeURL()
	if err != nil {
		return nil, err
	}
	if _, ok := a.storeDir(); ok {
		return openURL(store)
	}
	db, err := a.connectDB(func() (kv.DB, error) { return openURL(store) })
	if err == nil && !a.serves && !strings.Contains(store, "patience=") {
		kv.Persist(db)
	}
	return db, err
}

// openURL opens the store of a URL. One that means nothing is a wrong use.
func openURL(store string) (kv.DB, error) {
	db, err := conq.Open(context.Background(), store)
	if errors.Is(err, kv.ErrInvalid) {
		return nil, usagef("%w", err)
	}
	return db, err
}

// patience is how long a cluster may say nothing before the command says so, and how often it looks whether that answers.
const patience = 5 * time.Second

// connectDB opens a store that may wait for others: some do that at their first transaction, and for as long as it takes.
func (a *app) connectDB(open func() (kv.DB, error)) (kv.DB, error) {
	db, err := connect(a, func() (kv.DB, error) {
		db, err := open()
		if err == nil {
			err = answers(a.ctx, db)
		}
		return db, err
	})
	if err == nil {
		go a.watch(func() error { return ask(a.ctx, db) })
	}
	return db, err
}

// connect opens what may not be there yet, and waits until it answers, or the command is to end. One that lasts tries again and again.
func connect[T any](a *app, open func() (T, error)) (T, error) {
	type opened struct {
		it  T
		err error
	}
	done := make(chan opened, 1)
	go func() {
		it, err := open()
		for a.lasts && errors.Is(err, kv.ErrUnavailable) && a.ctx.Err() == nil {
			it, err = open()
		}
		done <- opened{it, err}
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case o := <-done:
			return o.it, o.err
		case <-late.C:
			fmt.Fprintf(a.stderr, "conq: no answer from %.200s so far: is it up, and is this its address?\n", a.shownStore())
		case <-a.ctx.Done():
			var none T
			return none, context.Cause(a.ctx)
		}
	}
}

// watch says when a store, or a server, does not answer, and when it does again, until it is closed or the command ends. Whatever the
// command does waits meanwhile.
func (a *app) watch(ask func() error) {
	for a.rest() {
		late := time.AfterFunc(patience, func() {
			fmt.Fprintf(a.stderr, "conq: no answer from %.200s: this goes on when there is one; Ctrl-C ends it\n", a.shownStore())
		})
		err := ask()
		for errors.Is(err, kv.ErrUnavailable) && a.rest() {
			err = ask()
		}
		said := !late.Stop()
		if err != nil {
			return
		}
		if said {
			fmt.Fprintf(a.stderr, "conq: %.200s answers again\n", a.shownStore())
		}
	}
}

// rest waits before the next look whether there is an answer, and returns false when the command ends.
func (a *app) rest() bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// ask returns when a store has answered.
func ask(ctx context.Context, db kv.DB) error {
	return db.ReadTransact(ctx, func(r kv.Reader) error {
		_, err := r.Get([]byte{0})
		return err
	})
}

// answers returns when a store has answered, or closes it.
func answers(ctx context.Context, db kv.DB) error {
	err := ask(ctx, db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// openExisting opens the store of a command that only makes sense if there is
// one, and makes none.
func (a *app) openExisting() (kv.DB, error) {
	if _, err := a.storeURL(); err != nil {
		return nil, err
	}
	if dir, ok := a.storeDir(); ok && !hasFiles(dir) {
		return nil, nothingf("there is no store in %.200q: conq enqueue makes one, --store names another", dir)
	}
	return a.open()
}

// aPassword is one in a URL, which is not to be shown. It is taken to reach to the last @,
// as one that is not escaped may have any character: rather too much than a part of it.
var aPassword = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]+:/*[^:]*):.*@`)

// shownStore returns --store as it may be printed.
func (a *app) shownStore() string {
	if _, ok := a.storeDir(); ok {
		return a.store
	}
	return aPassword.ReplaceAllString(a.store, "$1:***@")
}

// storeURL returns what --store and --durability mean together. What is wrong with a directory's
// options is told here, as not all commands open a store that is not there.
func (a *app) storeURL() (string, error) {
	dir, ok := a.storeDir()
	switch {
	case a.isServer():
		return "", usagef("this command needs the store itself, and %.200q is a server: run it where that has its store", a.shownStore())
	case a.durability != "" && !slices.Contains(durabilities, a.durability):
		return "", usagef("unknown durability %.60q: there are %s", a.durability, strings.Join(durabilities, ", "))
	case a.durability != "" && !ok:
		return "", usagef("--durability is for embedded stores, not for %.200q", a.shownStore())
	case !ok:
		return a.store, nil
	}
	_, options, _ := strings.Cut(a.store, "?")
	if a.durability != "" {
		values, err := url.ParseQuery(options)
		if err != nil {
			return "", usagef("store %.200q: %w", a.store, err)
		}
		values.Set("durability", a.durability)
		options = values.Encode()
	}
	store := embeddedScheme + dir
	if options != "" {
		store += "?" + options
	}
	if _, _, err := embedded.ParseURL(store); err != nil {
		return "", usagef("%w", err)
	}
	return store, nil
}

// aScheme is how the URL of an engine begins. A single letter is a drive.
var aScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)

// storeDir returns the directory of the store, without its options, and whether it is one.
func (a *app) storeDir() (dir string, ok bool) {
	scheme := aScheme.FindString(a.store)
	if scheme != "" && !strings.EqualFold(scheme, embeddedScheme) {
		return "", false
	}
	dir, _, _ = strings.Cut(a.store[len(scheme):], "?")
	return dir, a.store != ""
}

// hasFiles tells whether dir is anything but absent or an empty directory.
func hasFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// closing ends the use of a store. What it returns is err, or else what closing
// brought up: to run the command again would do it twice.
func closing(db kv.DB, err *error) {
	if failed := db.Close(); *err == nil && failed != nil {
		*err = fmt.Errorf("closing the store: %w; all was done before that, as durable as --durability says", failed)
	}
}

// withStore runs f with the open store.
func withStore(open func() (kv.DB, error), f func(kv.DB) error) (err error) {
	db, err := open()
	if err != nil {
		return err
	}
	defer closing(db, &err)
	return f(db)
}

// maxItem is the size of the largest item, as Queue.Enqueue says; 0 if there is no limit.
func maxItem(l kv.Limits) int { return l.Transaction / 2 }

// checkSize returns the error that an item of that size would be. It is for when there may be no
// queue yet, and none is to be made for it.
func checkSize(l kv.Limits, size int) error {
	if limit := maxItem(l); limit > 0 && size > limit {
		return &kv.TooLargeError{What: "item", Size: size, Limit: limit, Unit: "bytes"}
	}
	return nil
}

// opening returns open, which then refuses a store that can't have items of that size,
// before any is made, and prints a title when the store is open for the first time.
func (a *app) opening(open func() (kv.DB, error), itemSize int, title string) func() (kv.DB, error) {
	return func() (kv.DB, error) {
		db, err := open()
		if err != nil {
			return nil, err
		}
		if err = checkSize(db.Limits(), itemSize); err != nil {
			err = usagef("--size: %w", err)
		} else if title != "" && !a.json {
			err = a.printf("%s", title)
			title = ""
		}
		if err != nil {
			closing(db, &err)
			return nil, err
		}
		return db, nil
	}
}
