package layout_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// What is read of the key of an item, by kind of queue. Of a key that is not right the integers in
// front of what is wrong are: staged items go back by them, and the items of a priority are found.
func TestParse(t *testing.T) {
	random := bytes.Repeat([]byte{0, 0xff}, 10)
	const (
		other = "its key is not that of an item"
		count = "the number of pieces in its key is not an integer from 2 on"
		shape = "its key has 2 integers in front of the random bytes, and should have 1"
	)
	for _, c := range []struct {
		what     string
		kind     queue.Kind
		elems    tuple.Tuple
		pieces   int // 0 if it is not an item's
		integers int // that are read
		err      string
	}{
		{"item", queue.KindQueue, tuple.Tuple{5, random}, 1, 1, ""},
		{"item below 0", queue.KindQueue, tuple.Tuple{int64(math.MinInt64), random}, 1, 1, ""},
		{"any bytes", queue.KindQueue, tuple.Tuple{5, []byte{}}, 1, 1, ""},
		{"item of pieces", queue.KindQueue, tuple.Tuple{5, random, 3}, 3, 1, ""},
		{"most pieces", queue.KindQueue, tuple.Tuple{5, random, math.MaxInt32}, math.MaxInt32, 1, ""},
		{"one piece", queue.KindQueue, tuple.Tuple{5, random, 1}, 0, 1, count},
		{"too many pieces", queue.KindQueue, tuple.Tuple{5, random, int64(math.MaxInt32) + 1}, 0, 1, count},
		{"pieces a text", queue.KindQueue, tuple.Tuple{5, random, "3"}, 0, 1, count},
		{"more behind", queue.KindQueue, tuple.Tuple{5, random, 3, 4}, 0, 1, other},
		{"of a priority queue", queue.KindQueue, tuple.Tuple{5, 6, random}, 0, 1, shape},
		{"random a text", queue.KindQueue, tuple.Tuple{5, "x"}, 0, 1, other},
		{"no random bytes", queue.KindQueue, tuple.Tuple{5}, 0, 1, other},
		{"no integer", queue.KindQueue, tuple.Tuple{random}, 0, 0, other},
		{"too large an integer", queue.KindQueue, tuple.Tuple{uint64(math.MaxUint64), random}, 0, 0, other},
		{"nothing", queue.KindQueue, nil, 0, 0, other},
		{"priority", queue.KindPriorityQueue, tuple.Tuple{-5, 6, random}, 1, 2, ""},
		{"priority of pieces", queue.KindPriorityQueue, tuple.Tuple{-5, 6, random, 2}, 2, 2, ""},
		{"priority without a count", queue.KindPriorityQueue, tuple.Tuple{-5, "x", random}, 0, 1, other},
		{"priority alone", queue.KindPriorityQueue, tuple.Tuple{-5}, 0, 1, other},
	} {
		t.Run(c.what, func(t *testing.T) {
			q := layout.New("q", c.kind, kv.Limits{})
			fields := testkit.Pack(t, c.elems...)
			key := q.Key(fields)
			k, err := layout.Parse(fields, q.Integers)
			testkit.Equal(t, "pieces", k.Pieces, c.pieces)
			testkit.Equal(t, "error", err == nil, c.pieces > 0)
			testkit.Equal(t, "keys to weigh", q.Keys(key), max(1, c.pieces))
			pieces, err := q.Check(key)
			testkit.Equal(t, "checked pieces", pieces, c.pieces)
			if err != nil || c.err != "" {
				testkit.Equal(t, "what is wrong", err.Error(), c.err)
			}
			for i := range q.Integers {
				n, err := q.Integer(key, i)
				testkit.Equal(t, "integer is there", err == nil, i < c.integers)
				if err == nil {
					testkit.Equal(t, "integer", fmt.Sprint(n), fmt.Sprint(c.elems[i]))
				}
			}
			group, place := q.Place(key)
			var wantGroup, wantPlace []byte
			if c.integers == q.Integers {
				wantGroup = testkit.Pack(t, c.elems[:c.integers-1]...)
				wantPlace = testkit.Pack(t, c.elems[:c.integers]...)
			}
			testkit.Equal(t, "group", string(group), string(wantGroup))
			testkit.Equal(t, "place", string(place), string(wantPlace))
		})
	}
}

// A key of another queue has no place, and is not an item's.
func TestOtherQueue(t *testing.T) {
	q := layout.New("q", queue.KindQueue, kv.Limits{})
	key := layout.New("other", queue.KindQueue, kv.Limits{}).Key(testkit.Pack(t, 1, []byte("r")))
	group, place := q.Place(key)
	if _, err := q.Check(key); err == nil || group != nil || place != nil {
		t.Fatalf("place %x %x, error %v", group, place, err)
	}
}

// The kind of a queue shows in the keys of its items.
func TestParseAny(t *testing.T) {
	for integers := range 4 {
		elems := tuple.Tuple{1, 2, 3}[:integers]
		_, got, err := layout.ParseAny(testkit.Pack(t, append(elems[:integers:integers], []byte("r"))...))
		testkit.Equal(t, "it is an item", err == nil, integers == 1 || integers == 2)
		if err == nil {
			testkit.Equal(t, "integers", got, integers)
		}
	}
}

// The key of a piece is that of its item with a number behind it.
func TestCutPiece(t *testing.T) {
	random := []byte("r")
	for what, c := range map[string]struct {
		elems  tuple.Tuple
		number int64
		ok     bool
	}{
		"piece":              {tuple.Tuple{1, random, 3, 2}, 2, true},
		"too large a number": {tuple.Tuple{1, random, 3, int64(math.MaxInt64)}, math.MaxInt64, true},
		"number below 0":     {tuple.Tuple{1, random, 3, -1}, -1, true},
		"of a whole item":    {tuple.Tuple{1, random, 1}, 0, false},
		"no number":          {tuple.Tuple{1, random, 3}, 0, false},
		"number a text":      {tuple.Tuple{1, random, 3, "2"}, 0, false},
		"more behind":        {tuple.Tuple{1, random, 3, 2, 1}, 0, false},
		"another kind's":     {tuple.Tuple{1, 2, random, 3, 2}, 0, false},
		"nothing":            {nil, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			q := layout.New("q", queue.KindQueue, kv.Limits{})
			rest := testkit.Pack(t, c.elems...)
			fields, pieces, number, ok := q.CutPiece(rest)
			testkit.Equal(t, "is a piece", ok, c.ok)
			if !ok {
				return
			}
			testkit.Equal(t, "fields", string(fields), string(testkit.Pack(t, c.elems[:3]...)))
			testkit.Equal(t, "pieces", pieces, 3)
			testkit.Equal(t, "number", number, c.number)
			key := q.Piece(q.Key(fields), number)
			testkit.Equal(t, "key", string(key), string(layout.Pieces("q").Bytes())+string(rest))
		})
	}
}

// FuzzParse takes any key for that of an item.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0x15, 1, 1, 'r', 0, 0x15, 2}, 1)
	f.Add([]byte{0x14, 0x14, 1, 0, 0xff, 0}, 2)
	f.Fuzz(func(t *testing.T, fields []byte, integers int) {
		integers = 1 + integers&1
		k, err := layout.Parse(fields, integers)
		if (err == nil) != (k.Pieces >= 1) {
			t.Fatalf("%d pieces, error %v", k.Pieces, err)
		}
		elems, bad := tuple.Unpack(fields)
		if err == nil && (bad != nil || len(elems) != integers+1+min(k.Pieces-1, 1)) {
			t.Fatalf("%d pieces by a key of %d elements (%v)", k.Pieces, len(elems), bad)
		}
	})
}
