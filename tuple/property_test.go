package tuple_test

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/tuple"
	"pgregory.net/rapid"
)

// elements draws any element that Unpack can return. It favours values that are
// near each other, so that pairs differ late.
func elements(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})).AsAny(),
		rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.StringOf(rapid.SampledFrom([]rune{0, 1, 'a', 'é', '\U0010ffff'})).AsAny(),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Custom(integersNearPowers).AsAny(),
		rapid.Custom(func(t *rapid.T) any { return math.Float32frombits(rapid.Uint32().Draw(t, "bits")) }),
		rapid.Custom(func(t *rapid.T) any { return math.Float64frombits(rapid.Uint64().Draw(t, "bits")) }),
		rapid.SampledFrom([]float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, math.Inf(1), math.NaN()}).AsAny(),
		rapid.Custom(func(t *rapid.T) any {
			return tuple.UUID{0: rapid.Byte().Draw(t, "first"), 15: rapid.Byte().Draw(t, "last")}
		}),
		rapid.Custom(func(t *rapid.T) any {
			transaction := [10]byte{9: rapid.ByteRange(0, 2).Draw(t, "transaction")}
			return tuple.Versionstamp{Transaction: transaction, User: rapid.Uint16().Draw(t, "user")}
		}),
	}
	if depth > 0 {
		kinds = append(kinds, tuples(depth-1).AsAny(), tuples(depth-1).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// integersNearPowers draws integers around powers of 256, of either sign and of
// all sizes, as Unpack returns them.
func integersNearPowers(t *rapid.T) any {
	i := big2(8 * rapid.UintRange(0, 254).Draw(t, "bytes"))
	i.Add(i, big.NewInt(int64(rapid.IntRange(-2, 2).Draw(t, "offset"))))
	if rapid.Bool().Draw(t, "negative") {
		i.Neg(i)
	}
	switch {
	case i.IsInt64():
		return i.Int64()
	case i.IsUint64():
		return i.Uint64()
	}
	return i
}

func tuples(depth int) *rapid.Generator[tuple.Tuple] {
	return rapid.Custom(func(t *rapid.T) tuple.Tuple {
		return append(tuple.Tuple{}, rapid.SliceOfN(elements(depth), 0, 4).Draw(t, "elements")...)
	})
}

func pack(t testkit.TB, in tuple.Tuple) []byte {
	packed, err := in.Pack()
	testkit.NoError(t, err)
	return packed
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tuples(3).Draw(t, "tuple")
		packed := pack(t, in)
		if out, err := tuple.Unpack(packed); err != nil || !same(in, out) {
			t.Fatalf("%x unpacks as %v, %v", packed, out, err)
		}
	})
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tuples(2).Draw(t, "a"), tuples(2).Draw(t, "b")
		b = append(slices.Clone(a[:rapid.IntRange(0, len(a)).Draw(t, "common")]), b...)
		want := bytes.Compare(pack(t, a), pack(t, b))
		if got := tuple.Compare(a, b); got != want {
			t.Fatalf("Compare = %d, bytes %d", got, want)
		}
		if got := tuple.Compare(b, a); got != -want {
			t.Fatalf("Compare the other way = %d, bytes %d", got, -want)
		}
	})
}

// The order of floats is that of their values, apart from zeros and NaNs.
func TestOrderOfFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if a == b {
			return
		}
		if got := tuple.Compare(tuple.Tuple{a}, tuple.Tuple{b}); got != cmp.Compare(a, b) {
			t.Fatalf("Compare = %d", got)
		}
		c, d := float32(a), float32(b)
		if got := tuple.Compare(tuple.Tuple{c}, tuple.Tuple{d}); c != d && got != cmp.Compare(c, d) {
			t.Fatalf("Compare of float32 = %d", got)
		}
	})
}

// The order of all pairs of integers near a power of 256.
func TestOrderOfIntegers(t *testing.T) {
	var all []*big.Int
	for _, size := range []uint{0, 1, 2, 3, 7, 8, 9, 10, 100, 254} {
		for offset := int64(-2); offset <= 2; offset++ {
			i := new(big.Int).Add(big2(8*size), big.NewInt(offset))
			all = append(all, i, neg(i))
		}
	}
	for _, a := range all {
		for _, b := range all {
			x, y := tuple.Tuple{a}, tuple.Tuple{b}
			if bytes.Compare(pack(t, x), pack(t, y)) != a.Cmp(b) || tuple.Compare(x, y) != a.Cmp(b) {
				t.Fatalf("%v and %v are out of order", a, b)
			}
		}
	}
}

// seed adds packed tuples that have something of everything.
func seed(f *testing.F, add func(packed []byte)) {
	for i, v := range readVectors(f) {
		if i < 100 {
			add(decodeHex(f, v.Packed))
		}
	}
	add([]byte("\x1c\xff\xff\xff\xff\xff\xff\xff\xff"))
	add([]byte("\x0c\x00\x00\x00\x00\x00\x00\x00\x00"))
}

// hasTwoForms tells whether an integer of the tuple is one of the two that are
// read in another form than they are written in.
func hasTwoForms(in tuple.Tuple) bool {
	return slices.ContainsFunc(in, func(e any) bool {
		switch e := e.(type) {
		case uint64:
			return e == math.MaxUint64
		case *big.Int:
			return e.CmpAbs(new(big.Int).SetUint64(math.MaxUint64)) == 0
		case tuple.Tuple:
			return hasTwoForms(e)
		}
		return false
	})
}

// No input makes Unpack panic; what it takes packs into the same bytes again.
func FuzzUnpack(f *testing.F) {
	seed(f, func(packed []byte) { f.Add(packed) })
	f.Fuzz(func(t *testing.T, b []byte) {
		sameAsNext(t, b)
		out, err := tuple.Unpack(b)
		if err != nil {
			if !errors.Is(err, tuple.ErrMalformed) || out != nil {
				t.Fatal(out, err)
			}
			return
		}
		packed := pack(t, out)
		if again, err := tuple.Unpack(packed); err != nil || !same(out, again) {
			t.Fatalf("%v unpacks again as %v, %v", out, again, err)
		}
		if !hasTwoForms(out) && !bytes.Equal(packed, b) {
			t.Fatalf("%x packs as %x", b, packed)
		}
	})
}

// sameAsNext compares NextInt and SkipBytes with Next.
func sameAsNext(t *testing.T, b []byte) {
	t.Helper()
	elem, rest, err := tuple.Next(b)
	want, isInt := elem.(int64)
	i, after, ok := tuple.NextInt(b)
	if isInt = isInt && err == nil; ok != isInt || ok && (i != want || !bytes.Equal(after, rest)) {
		t.Fatalf("NextInt(%x) = %d, %x, %v; Next returns %v, %x, %v", b, i, after, ok, elem, rest, err)
	}
	_, isBytes := elem.([]byte)
	after, ok = tuple.SkipBytes(b)
	if isBytes = isBytes && err == nil; ok != isBytes || ok && !bytes.Equal(after, rest) {
		t.Fatalf("SkipBytes(%x) = %x, %v; Next returns %v, %x, %v", b, after, ok, elem, rest, err)
	}
}

// Integers of each size, and those that are just too large for an int64.
func TestNextInt(t *testing.T) {
	for bits := range 64 {
		for _, i := range []int64{1<<bits - 1, 1 << bits, -(1 << bits), 1 - 1<<bits, -1 - 1<<bits} {
			packed := append(tuple.AppendInt(nil, i), 1, 0)
			sameAsNext(t, packed)
			sameAsNext(t, packed[:1])
			sameAsNext(t, append([]byte{packed[0], 0}, packed[1:]...)) // not the shortest form
		}
	}
	for _, packed := range [][]byte{
		{0x1c, 0x80, 0, 0, 0, 0, 0, 0, 0}, {0x1c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x0c, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x0c, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe},
		{0x0c, 0, 0, 0, 0, 0, 0, 0, 0}, {}, {0x01}, {0x01, 'a'}, {0x01, 0, 0xff}, {0x01, 0, 0xff, 0}, {0x02, 'a', 0},
	} {
		sameAsNext(t, packed)
	}
}

// Bytes of tuples sort as the tuples.
func FuzzOrder(f *testing.F) {
	var last []byte
	seed(f, func(packed []byte) {
		f.Add(packed, last)
		last = packed
	})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errX := tuple.Unpack(a)
		y, errY := tuple.Unpack(b)
		if errX != nil || errY != nil {
			return
		}
		want := bytes.Compare(pack(t, x), pack(t, y))
		if got := tuple.Compare(x, y); got != want {
			t.Fatalf("Compare(%v, %v) = %d, bytes %d", x, y, got, want)
		}
	})
}
