package etcd

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watch waits for a change of its key.
type watch struct {
	key  string
	told chan error // has room for one
	base int64      // the revision from which on changes count
	mod  int64      // in which the key was changed last at base; 0 if it was absent
	stop func() bool
}

func newWatch(key []byte) *watch { return &watch{key: string(key), told: make(chan error, 1)} }

// tell ends w, with nil for a change. It is called when w is taken out of the table.
func (w *watch) tell(err error) {
	if w.stop != nil {
		w.stop()
	}
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
		t.db.watch.add(t.caller, w)
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

// watches are all that wait, by key. All that wait for one key share a watch of
// etcd, which begins when it is made: one that began at a revision in the past
// would be served late. Whether the key was changed before it began is looked up.
type watches struct {
	db         *DB
	background sync.WaitGroup

	mu     sync.Mutex
	closed bool
	keys   map[string]*watcher
}

// watcher is a watch of etcd.
type watcher struct {
	key     string
	cancel  context.CancelFunc
	waiting map[*watch]struct{}
	ctx     context.Context
	from    int64 // changes behind this revision are told; 0 until that is known
	last    int64 // revision of the last one that was told
}

func (ws *watches) init(db *DB) {
	ws.db = db
	ws.keys = make(map[string]*watcher)
}

// add has w wait, until ctx ends.
func (ws *watches) add(ctx context.Context, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		w.tell(kv.ErrClosed)
		return
	}
	watched := ws.keys[w.key]
	switch {
	case watched == nil:
		watched = ws.start(w.key)
	case watched.last > w.base:
		w.tell(nil)
		return
	case watched.from > w.base:
		ws.background.Go(func() { ws.check(watched) })
	}
	watched.waiting[w] = struct{}{}
	w.stop = context.AfterFunc(ctx, func() { ws.leave(watched, w, context.Cause(ctx)) })
}

// start makes a watch of etcd. The lock is held.
func (ws *watches) start(key string) *watcher {
	ctx, cancel := context.WithCancel(ws.db.ctx)
	watched := &watcher{key: key, ctx: ctx, cancel: cancel, waiting: make(map[*watch]struct{})}
	ws.keys[key] = watched
	ws.background.Go(func() {
		defer cancel()
		ws.run(watched)
	})
	return watched
}

// leave ends w with err if it still waits.
func (ws *watches) leave(watched *watcher, w *watch, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, waits := watched.waiting[w]; !waits {
		return
	}
	delete(watched.waiting, w)
	w.tell(err)
	if len(watched.waiting) == 0 {
		ws.drop(watched, nil)
	}
}

// drop ends a watch of etcd, and all that wait for it. The lock is held.
func (ws *watches) drop(watched *watcher, err error) {
	for w := range watched.waiting {
		w.tell(err)
	}
	clear(watched.waiting)
	watched.cancel()
	if ws.keys[watched.key] == watched {
		delete(ws.keys, watched.key)
	}
}

// close ends all.
func (ws *watches) close() {
	ws.mu.Lock()
	ws.closed = true
	for _, watched := range ws.keys {
		ws.drop(watched, kv.ErrClosed)
	}
	ws.mu.Unlock()
	ws.background.Wait()
}

// lostPause is how long those are kept waiting whose watch could not be had, so
// that they do not come again at once.
const lostPause = 50 * time.Millisecond

// run follows one key. When that is no longer possible, as the member does not
// answer, all its watches tell that something may have changed: their owners look, and
// watch another member.
func (ws *watches) run(watched *watcher) {
	ctx := watched.ctx
	moved := ws.db.conn.member()
	changes := ws.open(ctx, watched.key, moved)
	for {
		select {
		case <-moved:
		case response, ok := <-changes:
			if ok && response.Err() == nil {
				if ws.follow(watched, response) {
					continue
				}
			}
		}
		break
	}
	if ctx.Err() == nil {
		retry.Sleep(ctx, lostPause)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.drop(watched, ws.lost())
}

// open makes the watch. The client has one stream for all watches whose contexts
// say the same to the server: what they say tells members apart, so that a watch
// of the next one does not hang on a connection to the last. It waits for the member's
// answer, and gives up if another member is used meanwhile.
func (ws *watches) open(ctx context.Context, key string, moved <-chan struct{}) clientv3.WatchChan {
	ctx, giveUp := context.WithCancel(ctx)
	opened := make(chan struct{})
	defer close(opened)
	ws.background.Go(func() {
		select {
		case <-moved:
			giveUp()
		case <-opened:
		}
	})
	ctx = metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "conq-member", ws.db.conn.memberID())
	at := ws.db.layout.at([]byte(key))
	return ws.db.conn.client.Watch(ctx, string(at), clientv3.WithCreatedNotify())
}

// follow deals with a response. It returns false if the watch can't go on.
func (ws *watches) follow(watched *watcher, response clientv3.WatchResponse) bool {
	if response.Created {
		return ws.created(watched, response.Header.Revision)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, event := range response.Events {
		watched.last = max(watched.last, event.Kv.ModRevision)
	}
	return ws.tell(watched, func(w *watch) bool { return watched.last > w.base })
}

// tell ends the watches for which the key has changed. It
// returns false if none is left. The lock is held.
func (ws *watches) tell(watched *watcher, changed func(*watch) bool) bool {
	for w := range watched.waiting {
		if changed(w) {
			delete(watched.waiting, w)
			w.tell(nil)
		}
	}
	if len(watched.waiting) > 0 {
		return true
	}
	ws.drop(watched, nil)
	return false
}

// created looks whether the key was changed before the watch began, if that may be.
func (ws *watches) created(watched *watcher, from int64) bool {
	ws.mu.Lock()
	watched.from = from
	late := false
	for w := range watched.waiting {
		late = late || w.base < from
	}
	ws.mu.Unlock()
	return !late || ws.check(watched)
}

// check looks whether the key has changed since watches began. It returns false if
// the watch can't go on.
func (ws *watches) check(watched *watcher) bool {
	response, err := ws.db.conn.Range(watched.ctx, &pb.RangeRequest{Key: ws.db.layout.at([]byte(watched.key)), KeysOnly: true})
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if err != nil {
		ws.drop(watched, ws.lost())
		return false
	}
	mod := int64(0)
	if len(response.Kvs) > 0 {
		mod = response.Kvs[0].ModRevision
	}
	return ws.tell(watched, func(w *watch) bool { return w.mod != mod && w.base < response.Header.Revision })
}

// lost is what watches tell that can't tell of changes any more. The lock is
// held.
func (ws *watches) lost() error {
	if ws.closed || ws.db.ctx.Err() != nil {
		return kv.ErrClosed
	}
	return nil
}

// memberID tells members of the cluster apart, and the times at which each was in
// use.
func (c *conn) memberID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.uses)
}
