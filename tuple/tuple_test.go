package tuple_test

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/tuple"
)

// same tells whether two unpacked tuples are equal in types and values, floats
// bit for bit.
func same(a, b tuple.Tuple) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if !sameElement(a[i], b[i]) {
			return false
		}
	}
	return true
}

func sameElement(a, b any) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	switch a := a.(type) {
	case float32:
		return math.Float32bits(a) == math.Float32bits(b.(float32))
	case float64:
		return math.Float64bits(a) == math.Float64bits(b.(float64))
	case *big.Int:
		return a.Cmp(b.(*big.Int)) == 0
	case tuple.Tuple:
		return same(a, b.(tuple.Tuple))
	}
	return reflect.DeepEqual(a, b)
}

// nest returns a tuple that is nested so many times.
func nest(depth int) tuple.Tuple {
	t := tuple.Tuple{}
	for range depth {
		t = tuple.Tuple{t}
	}
	return t
}

func big2(exponent uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), exponent) }

func neg(i *big.Int) *big.Int { return new(big.Int).Neg(i) }

func TestGoIntegerTypes(t *testing.T) {
	want := []byte{0x15, 0x07}
	for _, e := range []any{7, int8(7), int16(7), int32(7), int64(7), uint(7), uint8(7), uint16(7), uint32(7), uint64(7), big.NewInt(7)} {
		if got, err := (tuple.Tuple{e}).Pack(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Pack(%T 7) = %x, %v", e, got, err)
		}
	}
	want = []byte{0x13, 0xf8}
	for _, e := range []any{-7, int8(-7), int16(-7), int32(-7), int64(-7), big.NewInt(-7)} {
		if got, err := (tuple.Tuple{e}).Pack(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Pack(%T -7) = %x, %v", e, got, err)
		}
	}
}

func TestIntegerEdges(t *testing.T) {
	for exponent := range uint(255 * 8) {
		for _, i := range []*big.Int{big2(exponent), new(big.Int).Sub(big2(exponent+1), big.NewInt(1))} {
			for _, i := range []*big.Int{i, neg(i)} {
				packed, err := tuple.Tuple{i}.Pack()
				testkit.NoError(t, err)
				out, err := tuple.Unpack(packed)
				if err != nil || !same(out, tuple.Tuple{integer(t, i.String())}) {
					t.Fatalf("%v: %x unpacks as %v, %v", i, packed, out, err)
				}
				if i.IsInt64() && !bytes.Equal(tuple.AppendInt(nil, i.Int64()), packed) {
					t.Fatalf("AppendInt(%v) differs from %x", i, packed)
				}
			}
		}
	}
}

// The bindings disagree in ±(2^64-1); both forms are read.
func TestOtherFormOf64Bits(t *testing.T) {
	all := new(big.Int).SetUint64(math.MaxUint64)
	for packed, want := range map[string]any{
		"\x1c\xff\xff\xff\xff\xff\xff\xff\xff":     uint64(math.MaxUint64),
		"\x1d\x08\xff\xff\xff\xff\xff\xff\xff\xff": uint64(math.MaxUint64),
		"\x0c\x00\x00\x00\x00\x00\x00\x00\x00":     neg(all),
		"\x0b\xf7\x00\x00\x00\x00\x00\x00\x00\x00": neg(all),
	} {
		if got, err := tuple.Unpack([]byte(packed)); err != nil || !same(got, tuple.Tuple{want}) {
			t.Errorf("Unpack(%x) = %v, %v", packed, got, err)
		}
	}
}

func TestFloatsBitForBit(t *testing.T) {
	for _, b := range []uint64{0, 1 << 63, 0x7ff8000000000001, 0xfff8000000000001, 0x7ff0000000000001, 0xffffffffffffffff, 1} {
		in := tuple.Tuple{math.Float64frombits(b), math.Float32frombits(uint32(b>>32) | uint32(b&1))}
		packed, err := in.Pack()
		testkit.NoError(t, err)
		if out, err := tuple.Unpack(packed); err != nil || !same(in, out) {
			t.Errorf("%x: %v, %v", b, out, err)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	type named int
	cyclic := tuple.Tuple{nil}
	cyclic[0] = cyclic
	for _, c := range []struct {
		in   tuple.Tuple
		want string
	}{
		{tuple.Tuple{1, struct{}{}}, "element 1: type struct {} is not supported"},
		{tuple.Tuple{named(1)}, "element 0: type tuple_test.named is not supported"},
		{tuple.Tuple{[]any{}}, "element 0: type []interface {} is not supported"},
		{tuple.Tuple{1, tuple.Tuple{nil, 2i}}, "element 1: element 1: type complex128 is not supported"},
		{tuple.Tuple{"a\xff"}, `element 0: string "a\xff" is not valid UTF-8`},
		{tuple.Tuple{(*big.Int)(nil)}, "element 0: nil *big.Int"},
		{tuple.Tuple{big2(255 * 8)}, "integer of 256 bytes is over the limit of 255"},
		{tuple.Tuple{neg(big2(255 * 8))}, "integer of 256 bytes is over the limit of 255"},
		{nest(tuple.MaxDepth + 1), "nested deeper than 100"},
		{cyclic, "nested deeper than 100"},
	} {
		packed, err := c.in.Pack()
		if !errors.Is(err, tuple.ErrElement) || !strings.Contains(err.Error(), c.want) || packed != nil {
			t.Errorf("Pack = %x, %v; want %s", packed, err, c.want)
		}
	}
	dst := []byte("dst")
	if got, err := (tuple.Tuple{1, 2i}).Append(dst); err == nil || string(got) != "dst" {
		t.Errorf("Append = %q, %v", got, err)
	}
}

func TestDepthLimit(t *testing.T) {
	in := nest(tuple.MaxDepth)
	packed, err := in.Pack()
	testkit.NoError(t, err)
	if out, err := tuple.Unpack(packed); err != nil || !same(in, out) {
		t.Errorf("Unpack: %v", err)
	}
	for depth, want := range map[int]int{tuple.MaxDepth - 1: -1, tuple.MaxDepth: 0} { // of the tuples of one element
		a, b := tuple.Tuple{1}, tuple.Tuple{2}
		for range depth + 1 {
			a, b = tuple.Tuple{a}, tuple.Tuple{b}
		}
		if got := tuple.Compare(a, b); got != want {
			t.Errorf("Compare at depth %d = %d, want %d", depth+1, got, want)
		}
	}
	deep := append(bytes.Repeat([]byte{5}, 1e6), make([]byte, 1e6)...)
	_, err = tuple.Unpack(deep)
	if !errors.Is(err, tuple.ErrMalformed) || !strings.Contains(err.Error(), "byte 100: tuples are nested deeper than 100") {
		t.Errorf("Unpack: %v", err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	for packed, want := range map[string]string{
		"\x01abc":         "byte 4: truncated",
		"\x01abc\x00\xff": "byte 6: truncated",
		"\x02":            "byte 1: truncated",
		"\x02a\xff\x00":   `byte 1: string "a\xff" is not valid UTF-8`,
		"\x05":            "byte 1: truncated",
		"\x05\x00\xff":    "byte 3: truncated",
		"\x05\x15":        "byte 2: truncated: 1 more bytes",
		"\x16\x01":        "byte 2: truncated: 1 more bytes",
		"\x10\x01":        "byte 2: truncated: 3 more bytes",
		"\x0b":            "byte 1: truncated",
		"\x1d\x09\x01":    "byte 3: truncated: 8 more bytes",
		"\x20\x80\x00":    "byte 3: truncated: 2 more bytes",
		"\x21":            "byte 1: truncated: 8 more bytes",
		"\x30\x01":        "byte 2: truncated: 15 more bytes",
		"\x33\x01":        "byte 2: truncated: 11 more bytes",
		"\x14\x03":        "byte 1: unknown type code 0x03",
		"\x14\x28":        "byte 1: unknown type code 0x28",
		"\xff":            "byte 0: unknown type code 0xff",
		"\x00\xff":        "byte 1: unknown type code 0xff",
		// Integers that are longer than they need be.
		"\x15\x00":                             "byte 0: integer is not in its shortest form",
		"\x14\x16\x00\x05":                     "byte 1: integer is not in its shortest form",
		"\x13\xff":                             "byte 0: integer is not in its shortest form",
		"\x0c\xff\x00\x00\x00\x00\x00\x00\x00": "byte 0: integer is not in its shortest form",
		"\x1d\x00":                             "byte 0: integer is not in its shortest form",
		"\x1d\x01\x07":                         "byte 0: integer is not in its shortest form",
		"\x0b\xfe\xf8":                         "byte 0: integer is not in its shortest form",
		"\x1d\x08\xff\xff\xff\xff\xff\xff\xff\xfe":     "byte 0: integer is not in its shortest form",
		"\x1d\x09\x00\xff\xff\xff\xff\xff\xff\xff\xff": "byte 0: integer is not in its shortest form",
		"\x0b\xf6\xff\x00\x00\x00\x00\x00\x00\x00\x00": "byte 0: integer is not in its shortest form",
	} {
		out, err := tuple.Unpack([]byte(packed))
		if !errors.Is(err, tuple.ErrMalformed) || !strings.Contains(err.Error(), want) || out != nil {
			t.Errorf("Unpack(%x) = %v, %v; want %s", packed, out, err, want)
		}
	}
}

// A vector that is cut off anywhere is an error, unless what is left happens to
// be a packed tuple itself.
func TestUnpackTruncated(t *testing.T) {
	for _, v := range readVectors(t) {
		packed := decodeHex(t, v.Packed)
		for n := range packed {
			out, err := tuple.Unpack(packed[:n])
			if err != nil {
				if !errors.Is(err, tuple.ErrMalformed) {
					t.Errorf("Unpack(%x): %v", packed[:n], err)
				}
				continue
			}
			if again, err := out.Pack(); err != nil || !bytes.Equal(again, packed[:n]) {
				t.Errorf("Unpack(%x) = %v, which packs as %x, %v", packed[:n], out, again, err)
			}
		}
	}
}

func TestNext(t *testing.T) {
	packed, err := tuple.Tuple{"a", nil, 5}.Pack()
	testkit.NoError(t, err)
	got := tuple.Tuple{}
	for rest := packed; len(rest) > 0; {
		var e any
		if e, rest, err = tuple.Next(rest); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if !same(got, tuple.Tuple{"a", nil, int64(5)}) {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{"", "\x02a", "\x77"} {
		e, rest, err := tuple.Next([]byte(bad))
		if !errors.Is(err, tuple.ErrMalformed) || e != nil || string(rest) != bad {
			t.Errorf("Next(%x) = %v, %x, %v", bad, e, rest, err)
		}
	}
}

// What Unpack returns does not change with its input, nor the input with it.
func TestUnpackCopies(t *testing.T) {
	want := tuple.Tuple{[]byte("abc"), "def", big2(100), neg(big2(100)), tuple.Tuple{[]byte("x\x00y")}}
	packed, err := want.Pack()
	testkit.NoError(t, err)
	input := bytes.Clone(packed)
	got, err := tuple.Unpack(input)
	testkit.NoError(t, err)
	if !bytes.Equal(input, packed) {
		t.Errorf("input is now %x, was %x", input, packed)
	}
	clear(input)
	if !same(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestAppendWithoutAllocation(t *testing.T) {
	dst := make([]byte, 0, 100)
	b, s := []byte("a\x00b\x00\x00c"), "x\x00y"
	allocs := testing.AllocsPerRun(100, func() {
		out := tuple.AppendInt(dst, math.MinInt64)
		out = tuple.AppendBytes(out, b)
		tuple.AppendString(out, s)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	want, err := tuple.Tuple{int64(math.MinInt64), b, s}.Pack()
	testkit.NoError(t, err)
	got := tuple.AppendString(tuple.AppendBytes(tuple.AppendInt(dst, math.MinInt64), b), s)
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestCompareUnsupported(t *testing.T) {
	cyclic := tuple.Tuple{nil}
	cyclic[0] = cyclic
	for _, c := range []struct {
		a, b tuple.Tuple
		want int
	}{
		{tuple.Tuple{2i}, tuple.Tuple{tuple.Versionstamp{}}, +1},
		{tuple.Tuple{2i}, tuple.Tuple{[]any{}}, 0},
		{tuple.Tuple{(*big.Int)(nil)}, tuple.Tuple{1}, +1},
		{cyclic, cyclic, 0},
		{tuple.Tuple{}, nil, 0},
		{tuple.Tuple{int8(3)}, tuple.Tuple{big.NewInt(3)}, 0},
	} {
		if got := tuple.Compare(c.a, c.b); got != c.want {
			t.Errorf("Compare(%T, %T) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := tuple.Compare(c.b, c.a); got != -c.want {
			t.Errorf("Compare(%T, %T) = %d, want %d", c.b, c.a, got, -c.want)
		}
	}
}

// One tuple for each reason to sort after the one before it.
func TestCompareLadder(t *testing.T) {
	ladder := []tuple.Tuple{
		{}, {nil}, {nil, nil}, {[]byte{}}, {[]byte{0}}, {[]byte{0, 0}}, {[]byte{1}}, {""}, {"\x00"}, {"a"}, {"a", nil}, {"a\x00"}, {"b"},
		{tuple.Tuple{}}, {tuple.Tuple{}, 1}, {tuple.Tuple{nil}}, {tuple.Tuple{nil, nil}}, {tuple.Tuple{1}}, {tuple.Tuple{1, 1}}, {tuple.Tuple{2}},
		{neg(big2(64))}, {int64(math.MinInt64)}, {-256}, {-255}, {-1}, {0}, {1}, {255}, {256}, {uint64(math.MaxUint64)}, {big2(64)}, {big2(65)},
		{math.Float32frombits(0xffc00001)}, {float32(math.Inf(-1))}, {float32(-1)}, {float32(math.Copysign(0, -1))}, {float32(0)}, {float32(1)}, {float32(math.NaN())}, {math.Float32frombits(0x7fffffff)},
		{math.Float64frombits(0xffffffffffffffff)}, {math.Float64frombits(0xfff8000000000001)}, {math.Inf(-1)}, {-1.0}, {math.Copysign(0, -1)}, {0.0}, {1.0}, {math.Inf(1)}, {math.NaN()},
		{false}, {true}, {tuple.UUID{}}, {tuple.UUID{15: 1}}, {tuple.UUID{0: 1}},
		{tuple.Versionstamp{}}, {tuple.Versionstamp{User: 1}}, {tuple.Versionstamp{User: 256}}, {tuple.Versionstamp{Transaction: [10]byte{9: 1}}},
	}
	for i, a := range ladder {
		for j, b := range ladder {
			want := min(1, max(-1, i-j))
			if got := tuple.Compare(a, b); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
			x, err := a.Pack()
			y, err2 := b.Pack()
			if err != nil || err2 != nil || bytes.Compare(x, y) != want {
				t.Errorf("%v packs as %x, %v as %x, %v %v", a, x, b, y, err, err2)
			}
		}
	}
}
