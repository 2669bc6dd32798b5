package etcd

import (
	"context"
	"slices"
	"time"

	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch waits for a change of its key.
type watch struct {
	key  string
	told chan error // has room for one
	base int64      // the revision from which on changes count
	mod  int64      // in which the key was changed last at base; 0 if it was absent
}

func newWatch(key []byte) *watch { return &watch{key: string(key), told: make(chan error, 1)} }

// tell ends w, with nil for a change.
func (w *watch) tell(err error) {
	if err != nil {
		w.told <- err
	}
	close(w.told)
}

// watch starts the watches of t, which was committed at a revision, or has only
// read at it. What t itself has left at the key is where they start from: what
// others did before is no change. Where t has added to what others left, it is.
func (t *tx) watch(revision int64, adds []*added) {
	for _, w := range t.watches {
		w.base = t.rev
		w.mod, _ = t.view.mod([]byte(w.key))
		change, own := t.writes.Lookup([]byte(w.key))
		switch {
		case !own:
		case change == nil || change.Kind == overlay.Clear:
			w.base, w.mod = revision, 0
		case change.Kind == overlay.Set:
			w.base, w.mod = revision, revision
		default:
			if before := modOf(adds, w.key); before != w.mod {
				w.tell(nil)
				continue
			}
			w.base, w.mod = revision, revision
		}
		t.db.startWatch(t.caller, w)
	}
	t.watches = nil
}

func modOf(adds []*added, key string) int64 {
	for _, a := range adds {
		if string(a.key) == key {
			return a.mod
		}
	}
	return 0
}

// startWatch has w wait, in a goroutine that ends with it: at a change, at the end of ctx, or
// when the store closes.
func (db *DB) startWatch(ctx context.Context, w *watch) {
	if err := db.begin(); err != nil {
		w.tell(err)
		return
	}
	ctx, leave := db.within(ctx)
	go func() {
		defer db.running.Done()
		defer leave()
		db.follow(ctx, w)
		w.tell(context.Cause(ctx))
	}()
}

// lostPause is how long a watch is kept waiting that could not be had, so that its owner does
// not come again at once.
const lostPause = 50 * time.Millisecond

// follow waits until the key of w has changed, or may have: when another member is used, or
// the watch of etcd is lost, the owner of w has to look. That watch begins when it is made, as one
// that began at a revision in the past would be served late; whether the key was changed before is
// looked up.
func (db *DB) follow(ctx context.Context, w *watch) {
	here, leave := context.WithCancel(db.conn.inUse())
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	changes := db.conn.client.Watch(here, string(db.layout.at([]byte(w.key))), clientv3.WithCreatedNotify())
	for {
		select {
		case <-here.Done():
		case response, ok := <-changes:
			if ok && response.Err() == nil {
				if db.changed(ctx, w, response) {
					return
				}
				continue
			}
		}
		retry.Sleep(ctx, lostPause)
		return
	}
}

// changed tells from a response whether the key of w has changed, or that this can't be told.
func (db *DB) changed(ctx context.Context, w *watch, response clientv3.WatchResponse) bool {
	if !response.Created {
		return slices.ContainsFunc(response.Events, func(e *clientv3.Event) bool { return e.Kv.ModRevision > w.base })
	}
	if response.Header.Revision <= w.base {
		return false
	}
	found, err := db.conn.Range(ctx, &pb.RangeRequest{Key: db.layout.at([]byte(w.key)), KeysOnly: true})
	if err != nil {
		return true
	}
	mod := int64(0)
	for _, pair := range found.Kvs {
		mod = pair.ModRevision
	}
	return mod != w.mod
}
