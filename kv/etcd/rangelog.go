package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// rangeReads are what a commit returns that does not take effect: the ranges that
// were written to since the base, and the floor of the log.
func (c *commit) rangeReads() []*pb.RangeRequest {
	l := &c.t.db.layout
	log := l.logRange()
	return []*pb.RangeRequest{
		{Key: log.Begin, RangeEnd: log.End, MinModRevision: c.base + 1},
		{Key: []byte(l.floor)},
	}
}

// conflict tells from the response of a commit that has not taken effect whether
// that was a conflict. It was none if ranges were written to that have nothing to
// do with those that this transaction conflicts on, and nothing else has happened:
// the commit has to be tried again to find out about the latter.
func (c *commit) conflict(response *pb.TxnResponse) error {
	entries := response.Responses[0].GetResponseRange().GetKvs()
	floor := response.Responses[1].GetResponseRange().GetKvs()
	if len(floor) > 0 && parseFloor(floor[0].Value) > c.base {
		return fmt.Errorf("%w: too many ranges were written to since", kv.ErrConflict)
	}
	if len(entries) == 0 || c.coarse { // which can't be compared to a newer base
		return kv.ErrConflict
	}
	for _, entry := range entries {
		written, err := decodeRanges(entry.Value)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(written, c.covered.Meets) {
			return kv.ErrConflict
		}
	}
	c.base = response.Header.Revision
	return nil
}

// The log of range writes is kept short by commits that add to it: one in trimEvery
// removes the oldest entries if there are more than maxLog, and leaves half of
// that. A transaction that is older than what was removed, which the floor tells,
// conflicts to be on the safe side.
const (
	trimEvery = 32
	maxLog    = 512
)

func oneIn(n int) bool { return rand.N(n) == 0 }

// trim shortens the log if it is too long. If it fails, the next one will do it.
func (db *DB) trim(ctx context.Context) {
	l := &db.layout
	log := l.logRange()
	response, err := db.conn.ReadAll(ctx,
		&pb.RangeRequest{Key: log.Begin, RangeEnd: log.End, KeysOnly: true},
		&pb.RangeRequest{Key: []byte(l.floor)})
	if err != nil {
		return
	}
	entries := response.Responses[0].GetResponseRange().GetKvs()
	if len(entries) <= maxLog {
		return
	}
	slices.SortFunc(entries, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	entries = entries[:min(len(entries)-maxLog/2, maxOperations-1)]
	var mod, floor int64
	if found := response.Responses[1].GetResponseRange().GetKvs(); len(found) > 0 {
		mod, floor = found[0].ModRevision, parseFloor(found[0].Value)
	}
	for n := len(entries); n > 0 && len(entries) > 0; {
		some := entries[:min(n, len(entries))]
		newest := max(floor, some[len(some)-1].ModRevision)
		ops := []*pb.RequestOp{put([]byte(l.floor), formatFloor(newest))}
		for _, entry := range some {
			ops = append(ops, remove(bytes.Clone(entry.Key), nil))
		}
		response, err := db.conn.Commit(ctx, &pb.TxnRequest{Compare: []*pb.Compare{modIs([]byte(l.floor), mod)}, Success: ops}, 0)
		switch {
		case errors.Is(err, errTooMany): // servers may take less than usual
			n /= 2
			continue
		case err != nil || !response.Succeeded:
			return
		}
		mod, floor, entries = response.Header.Revision, newest, entries[len(some):]
	}
}

// The floor of the log is the revision of the newest entry that was removed, as a
// big-endian number.
func formatFloor(revision int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(revision))
}

func parseFloor(value []byte) int64 {
	if len(value) != 8 {
		return 1<<63 - 1 // of a format that this version does not know
	}
	return int64(binary.BigEndian.Uint64(value))
}
