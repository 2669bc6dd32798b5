package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// tx is the state of one attempt of a transaction.
type tx struct {
	db       *DB
	caller   context.Context
	ctx      context.Context // ends with the caller's, and with the store
	cancel   func()
	readOnly bool

	rev     int64 // that all reads are at; 0 before the first
	view    view
	planned []*pb.RangeRequest // to be read with what is read next
	ahead   []readAhead        // was read, and not asked for yet

	tails []kv.Range       // whose ends were read
	reads []kv.Range       // read conflict ranges, with explicit bounds
	keys  map[string]int64 // keys with a read conflict, and the revisions that they must still have
	known map[string]int64 // the same for those that were not read in this transaction

	writes  overlay.Writer
	watches []*watch
}

func newTx(ctx context.Context, db *DB) *tx {
	inner, cancel := db.within(ctx)
	return &tx{db: db, caller: ctx, ctx: inner, cancel: cancel, writes: overlay.Writer{Limits: &limits}}
}

// Signals implements kvext.Local: there are none, as several processes share the store.
func (t *tx) Signals() *kvext.Signals { return nil }

// end makes t unusable. Watches that do not wait yet end with err.
func (t *tx) end(err error) {
	t.writes.Ended = true
	t.cancel()
	for _, w := range t.watches {
		w.tell(err)
	}
	t.watches = nil
}

// err returns the error of a transaction that can't go on.
func (t *tx) err() error {
	switch {
	case t.writes.Ended || t.db.ctx.Err() != nil:
		return kv.ErrClosed
	case t.caller.Err() != nil:
		return context.Cause(t.caller)
	}
	return nil
}

// fetch reads, and with it what is planned, unless the servers take less at once.
func (t *tx) fetch(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if response, ok := t.hasRead(r); ok {
		return response, nil
	}
	all := append([]*pb.RangeRequest{r}, slices.DeleteFunc(t.planned, func(p *pb.RangeRequest) bool { return sameRange(p, r) })...)
	t.planned = nil
	responses, err := t.readAll(all)
	if len(all) > 1 && errors.Is(err, errTooMany) {
		all = all[:1]
		responses, err = t.readAll(all)
	}
	if err != nil {
		return nil, err
	}
	for i, r := range all[1:] {
		t.ahead = append(t.ahead, readAhead{r, responses[i+1]})
	}
	return responses[0], nil
}

// readAll reads at the transaction's revision. The first read fixes that: it is the
// only one for which the members have to agree on how far they are, as what a
// revision holds does not change. A member that has not reached it yet, as the
// connection has moved to it, is asked to catch up.
func (t *tx) readAll(all []*pb.RangeRequest) ([]*pb.RangeResponse, error) {
	responses, revision, err := t.readAt(all, t.rev != 0)
	if errors.Is(err, errFuture) {
		responses, revision, err = t.readAt(all, false)
	}
	switch {
	case errors.Is(err, errCompacted):
		return nil, fmt.Errorf("%w: revision %d of the cluster has been compacted", kv.ErrTooOld, t.rev)
	case err != nil:
		return nil, err
	case t.rev == 0:
		t.rev = revision
	}
	return responses, nil
}

// readAt sends one request, serializable or not.
func (t *tx) readAt(all []*pb.RangeRequest, serializable bool) ([]*pb.RangeResponse, int64, error) {
	for _, r := range all {
		r.Revision, r.Serializable = t.rev, serializable
	}
	if len(all) == 1 {
		response, err := t.db.conn.Range(t.ctx, all[0])
		if err != nil {
			return nil, 0, err
		}
		return []*pb.RangeResponse{response}, response.Header.Revision, nil
	}
	response, err := t.db.conn.ReadAll(t.ctx, all...)
	if err != nil {
		return nil, 0, err
	}
	responses := make([]*pb.RangeResponse, len(all))
	for i := range all {
		responses[i] = response.Responses[i].GetResponseRange()
	}
	return responses, response.Header.Revision, nil
}

// fetchKey reads one key, or only whether it is there.
func (t *tx) fetchKey(key []byte, keyOnly bool) (value []byte, err error) {
	response, err := t.fetch(t.keyRequest(key, keyOnly))
	if err != nil {
		return nil, err
	}
	if len(response.Kvs) == 0 {
		t.view.sawKey(key, 0)
		return nil, nil
	}
	pair := response.Kvs[0]
	t.view.sawKey(key, pair.ModRevision)
	if pair.Value == nil {
		pair.Value = []byte{}
	}
	return pair.Value, nil
}

func (t *tx) keyRequest(key []byte, keyOnly bool) *pb.RangeRequest {
	return &pb.RangeRequest{Key: t.db.layout.at(key), KeysOnly: keyOnly}
}

// lookUp makes sure that it is known when key was last changed.
func (t *tx) lookUp(key []byte) error {
	if _, known := t.view.mod(key); known {
		return nil
	}
	_, err := t.fetchKey(key, true)
	return err
}

// lookThrough makes sure that it is known which keys are in r, or that they are
// more than a transaction that writes can have conflicts on.
func (t *tx) lookThrough(r kv.Range) error {
	if !t.view.ranges.Covers(r) {
		c := newCursor(t, r, false)
		c.keysOnly, c.record = true, true
		_, _, err := c.fetch(r, maxOperations+1)
		return err
	}
	return nil
}

// conflict adds a read conflict range, and returns what changes it.
func (t *tx) conflict(r kv.Range) (change func(kv.Range)) {
	i := len(t.reads)
	t.reads = append(t.reads, r)
	return func(r kv.Range) { t.reads[i] = r }
}

func (t *tx) conflictKey(key []byte) {
	if t.keys == nil {
		t.keys = make(map[string]int64)
	}
	t.keys[string(key)], _ = t.view.mod(key)
}

// reader reads through t, with or without read conflicts.
type reader struct {
	*tx
	snapshot bool
}

// handle is the kv.Tx of a transaction.
type handle struct {
	reader
	*overlay.Writer
}

var _ kv.Tx = handle{}

// Context implements kv.Reader.
func (r reader) Context() context.Context { return r.caller }

// Snapshot implements kv.Reader.
func (r reader) Snapshot() kv.Reader { return reader{r.tx, true} }

// Get implements kv.Reader.
func (r reader) Get(key []byte) ([]byte, error) {
	if err := cmp.Or(r.err(), limits.CheckKey(key)); err != nil {
		return nil, err
	}
	if value, own := r.writes.Own(key); own {
		return value, nil
	}
	value, err := r.fetchKey(key, false)
	if err != nil {
		return nil, err
	}
	if !r.snapshot {
		r.conflictKey(key)
	}
	return r.writes.Added(key, value), nil
}

// Range implements kv.Reader.
func (r reader) Range(given kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return overlay.Pairs(given, opts.Limit, func(s kv.Range, yield func(kv.KeyValue) bool) error {
		var cover func(kv.Range)
		if !r.snapshot {
			cover = r.conflict(kv.Range{})
		}
		c := newCursor(r.tx, s, opts.Reverse)
		c.want, c.record, c.keysOnly = opts.Limit, !r.snapshot, opts.KeysOnly
		return r.writes.OverAll(c, s, opts.Reverse).Scan(opts.Limit, cover, r.err, yield)
	})
}

// AddReadConflict implements kv.Tx.
func (h handle) AddReadConflict(r kv.Range) {
	r, err := r.Bounds()
	if h.Refused(cmp.Or(err, h.err())) {
		return
	}
	r = overlay.Clone(r)
	if key := r.Begin; bytes.Equal(kv.After(key), r.End) {
		h.Refused(h.addKeyConflict(key))
		return
	}
	if !h.Refused(h.lookThrough(r)) {
		h.conflict(r)
	}
}

// addKeyConflict is AddReadConflict for a single key. If another transaction of the
// store has set it before, it need not be read: that it has not been changed since
// then is known to be enough, and checked by the commit.
func (t *tx) addKeyConflict(key []byte) error {
	if _, seen := t.view.mod(key); !seen {
		if mod, ok := t.db.known.get(string(key)); ok && (t.rev == 0 || mod <= t.rev) {
			if t.known == nil {
				t.known = make(map[string]int64)
			}
			t.known[string(key)] = mod
			return nil
		}
	}
	if len(key) == 0 { // which can't be there, but is the begin of a range
		return nil
	}
	if err := t.lookUp(key); err != nil {
		return err
	}
	t.conflictKey(key)
	return nil
}

// Watch implements kv.Tx.
func (h handle) Watch(key []byte) <-chan error {
	w := newWatch(key)
	err := cmp.Or(limits.CheckKey(key), h.err())
	if err == nil {
		err = h.lookUp(key)
	}
	if h.Refused(err) {
		w.tell(cmp.Or(err, error(kv.ErrClosed)))
	} else {
		h.watches = append(h.watches, w)
	}
	return w.told
}
