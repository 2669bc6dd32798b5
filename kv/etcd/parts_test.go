package etcd

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

// key draws a short key of few bytes, so that keys meet.
func key(t *rapid.T, label string) []byte {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0xff}), 0, 3).Draw(t, label)
}

func keyRange(t *rapid.T) kv.Range {
	r := kv.Range{Begin: key(t, "begin"), End: key(t, "end")}
	if bytes.Compare(r.Begin, r.End) > 0 {
		r.Begin, r.End = r.End, r.Begin
	}
	return r
}

func TestLogEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []kv.Range
		for range rapid.IntRange(0, 4).Draw(t, "ranges") {
			want = append(want, keyRange(t))
		}
		encoded := encodeRanges(want)
		got, err := decodeRanges(encoded)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q came back as %q, %v", want, got, err)
		}
		for i := range got {
			if !bytes.Equal(got[i].Begin, want[i].Begin) || !bytes.Equal(got[i].End, want[i].End) {
				t.Fatalf("%q came back as %q", want, got)
			}
		}
		encoded[0]++
		if _, err := decodeRanges(encoded); err == nil {
			t.Error("an entry of another format is accepted")
		}
	})
}

func FuzzDecodeRanges(f *testing.F) {
	f.Add(encodeRanges([]kv.Range{{Begin: []byte("a"), End: []byte("b")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ranges, err := decodeRanges(b)
		if err != nil {
			return
		}
		again, err := decodeRanges(encodeRanges(ranges))
		if err != nil || !reflect.DeepEqual(again, ranges) {
			t.Errorf("%q came back as %q, %v", ranges, again, err)
		}
	})
}

// depth and widths of a transaction, as etcd's server counts them.
func refused(r *pb.TxnRequest, most int) bool {
	count := max(len(r.Compare), len(r.Success), len(r.Failure))
	if count > most {
		return true
	}
	for _, op := range append(slices.Clone(r.Success), r.Failure...) {
		if inner := op.GetRequestTxn(); inner != nil && refused(inner, most-count) {
			return true
		}
	}
	return false
}

func flat(ops []*pb.RequestOp) (keys []string) {
	for _, op := range ops {
		if inner := op.GetRequestTxn(); inner != nil {
			keys = append(keys, flat(inner.Success)...)
		} else {
			keys = append(keys, string(op.GetRequestPut().Key))
		}
	}
	return keys
}

// Whatever a transaction within the limits comes to, the server takes it: its
// writes are all there, in their order.
func TestGrouped(t *testing.T) {
	for compares := range maxOperations {
		for adds := 0; 2*adds+compares <= maxOperations; adds += 7 {
			sets := maxOperations - compares - 2*adds
			n := adds + 2*sets + 3 // a range around each key that is set, and the log
			var ops []*pb.RequestOp
			var want []string
			for i := range n {
				ops = append(ops, put(fmt.Append(nil, i), nil))
				want = append(want, fmt.Sprint(i))
			}
			outer := compares
			if compares > 0 {
				outer++ // the marker
			}
			request := &pb.TxnRequest{Compare: make([]*pb.Compare, outer), Success: grouped(ops, maxOperations, outer)}
			if adds > 0 {
				room := maxOperations - outer
				inner := &pb.TxnRequest{Compare: make([]*pb.Compare, adds), Success: grouped(ops, room, adds)}
				if request = inner; outer > 0 {
					request = &pb.TxnRequest{Compare: make([]*pb.Compare, outer), Success: []*pb.RequestOp{nested(inner)}}
				}
			}
			if refused(request, maxOperations) || !slices.Equal(flat(request.Success), want) {
				t.Fatalf("with %d comparisons, %d adds and %d sets the request is refused", compares, adds, sets)
			}
		}
	}
}

// However many writes there are, none is left out.
func TestGroupedHasAll(t *testing.T) {
	var ops []*pb.RequestOp
	var want []string
	for i := range 5 * maxOperations {
		for _, compares := range []int{0, maxOperations / 2} {
			if got := flat(grouped(ops, maxOperations, compares)); !slices.Equal(got, want) {
				t.Fatalf("with %d comparisons, of %d writes there are %d", compares, len(ops), len(got))
			}
		}
		ops, want = append(ops, put(fmt.Append(nil, i), nil)), append(want, fmt.Sprint(i))
	}
}

// What is said to be above or below is, and between two keys means between.
func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := key(t, "prefix")
		var keys [][]byte
		for range rapid.IntRange(2, 5).Draw(t, "keys") {
			keys = append(keys, append(bytes.Clone(prefix), rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "key")...))
		}
		slices.SortFunc(keys, bytes.Compare)
		low, high := keys[0], keys[len(keys)-1]
		s := scaleOf(low, high, len(keys))
		for n := range 5 {
			if above := s.above(high, n); above != nil && bytes.Compare(above, high) < 0 && n > 0 {
				t.Errorf("%q is said to be %d above %q", above, n, high)
			}
			if below := s.below(low, n); below != nil && bytes.Compare(below, low) > 0 {
				t.Errorf("%q is said to be %d below %q", below, n, low)
			}
		}
		if m := middle(low, high); m != nil && (bytes.Compare(m, low) <= 0 || bytes.Compare(m, high) >= 0) {
			t.Errorf("%q is said to be between %q and %q", m, low, high)
		}
	})
}
