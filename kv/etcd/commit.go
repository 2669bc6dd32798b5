package etcd

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// commit makes what t wrote part of the store, or returns why it can't.
func (t *tx) commit() error {
	if err := t.err(); err != nil {
		return err
	}
	if t.writes.Bad != nil {
		return t.writes.Bad
	}
	if t.writes.Empty() && len(t.writes.Conflicts) == 0 {
		t.watch(t.rev, nil)
		return nil
	}
	if err := t.db.begin(); err != nil {
		return err
	}
	defer t.db.running.Done()
	c := t.prepare()
	if err := c.check(); err != nil {
		return err
	}
	revision, err := c.run()
	if err != nil {
		t.forgetKnown()
		return err
	}
	t.learn(revision)
	c.learnSums(revision)
	t.watch(revision, c.adds)
	if len(c.ranges) > 0 && oneIn(trimEvery) {
		t.db.trim(t.ctx)
	}
	return nil
}

// commit is what a transaction asks of the cluster.
type commit struct {
	t        *tx
	compares []*pb.Compare    // all must hold, or the transaction conflicts
	seen     int              // how many of them are for keys that were seen in ranges, or are written, too
	marked   []byte           // the markers that are compared for others
	coarse   bool             // one comparison is for all markers, as there is no room for more
	covered  overlay.RangeSet // what compares are for
	base     int64            // nothing may have been written to ranges since then
	ranges   []kv.Range       // that are written to
	adds     []*added
}

// added is a key that something is added to.
type added struct {
	key    []byte
	delta  int64
	stored // as the store has it
}

// stored is what a key was found to be.
type stored struct {
	value []byte
	mod   int64 // revision of value; 0 if the key is absent
}

func (a *added) sum() []byte { return overlay.Sum(a.value, a.delta) }

// prepare finds out what t conflicts on.
func (t *tx) prepare() *commit {
	c := &commit{t: t, base: t.rev}
	for _, r := range t.reads {
		c.covered.Add(r)
	}
	l := &t.db.layout
	for _, r := range c.covered {
		c.compares = append(c.compares, notSince(l.at(r.Begin), l.at(r.End), t.rev))
	}
	t.writes.Changes(func(change *overlay.Change) {
		if change.Kind == overlay.Add {
			c.adds = append(c.adds, &added{key: change.Key, delta: change.Delta})
		}
	})
	c.compareSeen()
	for key, mod := range t.keys {
		c.compareKey(key, mod)
	}
	for key, mod := range t.known {
		if _, read := t.keys[key]; !read {
			c.compareKey(key, mod)
		}
		if t.rev == 0 {
			c.base = max(c.base, mod)
		}
	}
	c.coarse = c.count() > maxOperations
	c.ranges = slices.Concat(t.writes.Conflicts, t.writes.Cleared())
	return c
}

func (c *commit) compareKey(key string, mod int64) {
	if _, ok := c.covered.Holding([]byte(key)); ok {
		return
	}
	if _, own := c.t.writes.Lookup([]byte(key)); own {
		c.seen++
	}
	c.compares = append(c.compares, modIs(c.t.db.layout.at([]byte(key)), mod))
	c.covered.Add(kv.KeyRange([]byte(key)))
}

// check compares c with the limits.
func (c *commit) check() error {
	t := c.t
	writes := t.writes.Ops() + len(t.writes.Conflicts)
	operations := writes + len(c.adds) + len(c.compares) - c.seen
	// What was seen counts where there is no other way.
	return limits.CheckTransaction(t.writes.Bytes(), max(operations, c.count()))
}

// count returns how many comparisons c sends, with those of markers and Adds.
func (c *commit) count() int {
	n := 1 + len(c.compares) + len(c.adds)
	if c.coarse {
		return n
	}
	return n + len(c.marked)
}

// run commits, and returns the revision with it.
func (c *commit) run() (revision int64, err error) {
	if err := c.readAdded(); err != nil {
		return 0, err
	}
	for since := c.t.rev; ; {
		request, err := c.request()
		if err != nil {
			return 0, err
		}
		if size := proto.Size(request); size > maxRequest-maxEnvelope {
			return 0, &kv.TooLargeError{What: "request to etcd, with all keys that were read,", Size: size, Limit: maxRequest - maxEnvelope, Unit: "bytes"}
		}
		response, err := c.t.db.conn.Commit(c.t.caller, request, since)
		if err != nil {
			return 0, err
		}
		since = response.Header.Revision
		done, err := c.result(response)
		if done || err != nil {
			return response.Header.Revision, err
		}
		if c.t.caller.Err() != nil {
			return 0, context.Cause(c.t.caller)
		}
	}
}

// readAdded reads the keys that something is added to, but for those that are known. That they have not been
// changed since is checked by the commit, which reads them anew if they were: so a
// member that is behind may answer.
func (c *commit) readAdded() error {
	var unknown []*added
	var rs []*pb.RangeRequest
	for _, a := range c.adds {
		var known bool
		if a.stored, known = c.t.db.sums.get(string(a.key)); !known {
			unknown = append(unknown, a)
			rs = append(rs, &pb.RangeRequest{Key: c.t.db.layout.at(a.key), Serializable: true})
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	response, err := c.t.db.conn.ReadAll(c.t.ctx, rs...)
	if err == nil {
		setAdded(unknown, response.Responses)
	}
	return err
}

func setAdded(adds []*added, found []*pb.ResponseOp) {
	for i, a := range adds {
		a.stored = stored{}
		if kvs := found[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			a.stored = stored{kvs[0].Value, kvs[0].ModRevision}
		}
	}
}

// learnSums remembers what the keys are now that something was added to.
func (c *commit) learnSums(revision int64) {
	for _, a := range c.adds {
		c.t.db.sums.set(string(a.key), stored{a.sum(), revision})
	}
}

// request returns the transaction of etcd. There are up to two questions in it,
// which must be told apart, as a conflict is for the function to deal with, and
// another value of what is added to is not:
//
//	if nothing that was read has changed, and no range was written to
//	then if what is added to has not changed
//	     then write
//	     else return what is added to
//	else return which ranges were written to
func (c *commit) request() (*pb.TxnRequest, error) {
	ops, err := c.operations()
	if err != nil {
		return nil, err
	}
	var compares []*pb.Compare
	if len(c.compares) > 0 {
		compares = append(c.compareMarkers(), c.compares...)
	}
	room := maxOperations - len(compares)
	if len(c.adds) == 0 {
		request := &pb.TxnRequest{Compare: compares, Success: grouped(ops, maxOperations, len(compares))}
		if len(compares) > 0 {
			request.Failure = gets(c.rangeReads())
		}
		return request, nil
	}
	inner := &pb.TxnRequest{}
	var reads []*pb.RangeRequest
	for _, a := range c.adds {
		key := c.t.db.layout.at(a.key)
		inner.Compare = append(inner.Compare, modIs(key, a.mod))
		reads = append(reads, &pb.RangeRequest{Key: key})
	}
	inner.Failure = gets(reads)
	if len(compares) == 0 {
		inner.Success = grouped(ops, maxOperations, len(c.adds))
		return inner, nil
	}
	inner.Success = grouped(ops, room, len(c.adds))
	return &pb.TxnRequest{Compare: compares, Success: []*pb.RequestOp{nested(inner)}, Failure: gets(c.rangeReads())}, nil
}

// result tells from a response whether c is done. If it is neither that nor a
// conflict, c has to be sent again.
func (c *commit) result(response *pb.TxnResponse) (done bool, err error) {
	inner := response
	if len(c.compares) > 0 {
		if !response.Succeeded {
			return false, c.conflict(response)
		}
		if len(c.adds) > 0 {
			inner = response.Responses[0].GetResponseTxn()
		}
	}
	if !inner.Succeeded {
		setAdded(c.adds, inner.Responses)
		return false, nil
	}
	return true, nil
}

// operations returns what has to be written.
func (c *commit) operations() (ops []*pb.RequestOp, err error) {
	l := &c.t.db.layout
	cleared := overlay.RangeSet(c.t.writes.Cleared())
	add := 0
	var puts, clears [][]byte // in the order of their keys
	c.t.writes.Changes(func(change *overlay.Change) {
		switch change.Kind {
		case overlay.Clear:
			if _, ok := cleared.Holding(change.Key); !ok {
				ops = append(ops, remove(l.at(change.Key), nil))
				clears = append(clears, change.Key)
			}
			return
		case overlay.Add:
			ops = append(ops, put(l.at(change.Key), c.adds[add].sum()))
			add++
		default:
			ops = append(ops, put(l.at(change.Key), change.Value))
		}
		puts = append(puts, change.Key)
	})
	ops = append(ops, l.markRemoved(clears)...)
	ops = l.removeAround(ops, cleared, puts)
	if len(c.ranges) > 0 {
		entry, err := c.logEntry()
		if err != nil {
			return nil, err
		}
		ops = append(ops, put([]byte(l.last), nil), entry)
	}
	return ops, nil
}

// removeAround adds the operations that delete ranges, but for the keys that are put into
// them: a transaction of etcd may not put a key into a range that it deletes.
func (l *layout) removeAround(ops []*pb.RequestOp, cleared overlay.RangeSet, puts [][]byte) []*pb.RequestOp {
	for _, r := range cleared {
		begin := r.Begin
		for len(puts) > 0 && bytes.Compare(puts[0], r.End) < 0 {
			if r.Contains(puts[0]) {
				if bytes.Compare(begin, puts[0]) < 0 {
					ops = append(ops, remove(l.at(begin), l.at(puts[0])))
				}
				begin = kv.After(puts[0])
			}
			puts = puts[1:]
		}
		if bytes.Compare(begin, r.End) < 0 {
			ops = append(ops, remove(l.at(begin), l.at(r.End)))
		}
	}
	return ops
}

// logEntry returns the operation that adds the ranges to the log.
func (c *commit) logEntry() (*pb.RequestOp, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("etcd: no random bytes: %w", err)
	}
	return put(append([]byte(c.t.db.layout.log), id[:]...), encodeRanges(c.ranges)), nil
}

// learn remembers what is known of the store now that t is committed.
func (t *tx) learn(revision int64) {
	for _, keys := range []map[string]int64{t.keys, t.known} {
		for key := range keys {
			if change, own := t.writes.Lookup([]byte(key)); own && change != nil && change.Kind == overlay.Set {
				t.db.known.set(key, revision)
			} else if own {
				t.db.known.forget(key)
			}
		}
	}
	clears := 0
	t.writes.Changes(func(change *overlay.Change) {
		if change.Kind == overlay.Clear {
			clears++
		}
	})
	t.db.cleared(clears, revision)
	for _, r := range t.tails {
		var last []byte
		t.writes.Changes(func(change *overlay.Change) {
			if change.Kind == overlay.Set && r.Contains(change.Key) {
				last = change.Key
			}
		})
		if last != nil {
			t.db.hints.move(back(r), bytes.Clone(last))
		}
	}
}

// forgetKnown has the next attempt read what this one has not.
func (t *tx) forgetKnown() {
	for key := range t.known {
		t.db.known.forget(key)
	}
}

// grouped returns ops as the operations of a transaction that etcd takes: it counts
// the operations of one transaction, and takes those inside of it apart, where it
// allows so many less as the outer one has. compares is how many comparisons go
// with them.
func grouped(ops []*pb.RequestOp, most, compares int) []*pb.RequestOp {
	if len(ops) <= most {
		return ops
	}
	for groups := 2; groups < most; groups++ {
		size := most - max(groups, compares)
		if size <= 0 || groups*size < len(ops) {
			continue
		}
		var all []*pb.RequestOp
		for len(ops) > 0 {
			n := min(size, len(ops))
			all = append(all, nested(&pb.TxnRequest{Success: ops[:n]}))
			ops = ops[n:]
		}
		return all
	}
	return ops // the server will refuse it
}

func nested(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

func put(key, value []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}
}

// remove deletes a key, or a range if there is an end.
func remove(key, end []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key, RangeEnd: end}}}
}

// modIs compares the revision in which a key was changed last. It is 0 if the key
// is absent.
func modIs(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision},
	}
}

// notSince compares whether all keys that there are in a range were changed in a
// revision, or before it.
func notSince(begin, end []byte, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: begin, RangeEnd: end, Target: pb.Compare_MOD, Result: pb.Compare_LESS,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1},
	}
}
