package conq

import (
	"math"
	"math/big"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/tuple"
)

// roundTrip checks that a value comes back as it was.
func roundTrip[T any](t tb, c Codec[T], v T) {
	t.Helper()
	b, err := c.Encode(v)
	noError(t, err)
	got, err := c.Decode(b)
	noError(t, err)
	if !reflect.DeepEqual(got, v) {
		t.Fatalf("%T %v came back as %T %v", v, v, got, got)
	}
}

func TestCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		s := rapid.String().Draw(t, "string")
		roundTrip(t, Bytes(), b)
		roundTrip(t, String(), s)
		roundTrip(t, JSON[map[string]int64](), map[string]int64{s: rapid.Int64().Draw(t, "int")})
		roundTrip(t, Tuple[[]byte](), b)
		roundTrip(t, Tuple[string](), s)
		roundTrip(t, Tuple[any](), any(s))
		roundTrip(t, Tuple[int64](), rapid.Int64().Draw(t, "int64"))
		roundTrip(t, Tuple[int](), rapid.Int().Draw(t, "int"))
		roundTrip(t, Tuple[int8](), rapid.Int8().Draw(t, "int8"))
		roundTrip(t, Tuple[uint64](), rapid.Uint64().Draw(t, "uint64"))
		roundTrip(t, Tuple[uint16](), rapid.Uint16().Draw(t, "uint16"))
		roundTrip(t, Tuple[float64](), rapid.Float64().Draw(t, "float64"))
		roundTrip(t, Tuple[float32](), rapid.Float32().Draw(t, "float32"))
		roundTrip(t, Tuple[bool](), rapid.Bool().Draw(t, "bool"))
		roundTrip(t, Tuple[*big.Int](), big.NewInt(rapid.Int64().Draw(t, "big")))
	})
	roundTrip(t, Tuple[*big.Int](), new(big.Int).Lsh(big.NewInt(-1), 200))
	roundTrip(t, Tuple[*big.Int](), new(big.Int).SetUint64(math.MaxUint64))
	roundTrip(t, Tuple[tuple.UUID](), tuple.UUID{1, 2})
	roundTrip(t, Tuple[tuple.Tuple](), tuple.Tuple{int64(1), "a", nil})
	roundTrip(t, Tuple[any](), nil)
	roundTrip(t, Tuple[any](), any(int64(-1)))
}

func TestDecodeErrors(t *testing.T) {
	refuses := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s was decoded", what)
		}
	}
	into := func(elems ...any) []byte { return pack(t, elems...) }
	refuses("300 into int8", drop(Tuple[int8]().Decode(into(300))))
	refuses("-1 into uint", drop(Tuple[uint]().Decode(into(-1))))
	refuses("2^64-1 into int64", drop(Tuple[int64]().Decode(into(uint64(math.MaxUint64)))))
	refuses("2^100 into uint64", drop(Tuple[uint64]().Decode(into(new(big.Int).Lsh(big.NewInt(1), 100)))))
	refuses("int into string", drop(Tuple[string]().Decode(into(1))))
	refuses("string into bytes", drop(Tuple[[]byte]().Decode(into("a"))))
	refuses("nil into int", drop(Tuple[int]().Decode(into(nil))))
	refuses("no element", drop(Tuple[string]().Decode(nil)))
	refuses("two elements", drop(Tuple[string]().Decode(into("a", "b"))))
	refuses("no tuple", drop(Tuple[any]().Decode([]byte{0xfe})))
	refuses("JSON of another type", drop(JSON[int]().Decode([]byte(`"a"`))))
	refuses("truncated JSON", drop(JSON[any]().Decode([]byte(`{`))))
	refuses("more than JSON", drop(JSON[int]().Decode([]byte(`1 2`))))
	refuses("no UTF-8", drop(String().Decode([]byte("\xc3"))))
	if _, err := Tuple[struct{}]().Encode(struct{}{}); err == nil {
		t.Error("a struct was packed")
	}
	if _, err := JSON[func()]().Encode(nil); err == nil {
		t.Error("a function was marshalled")
	}
}

// FuzzTuple decodes anything, into types of all sorts, without a panic.
func FuzzTuple(f *testing.F) {
	f.Add([]byte("\x02a\x00"))
	f.Add([]byte{0x15, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		noError(t, sameAgain(Tuple[any](), b))
		noError(t, sameAgain(Tuple[int32](), b))
		noError(t, sameAgain(Tuple[uint64](), b))
		noError(t, sameAgain(Tuple[*big.Int](), b))
		noError(t, sameAgain(Tuple[string](), b))
	})
}

// sameAgain checks that what is decoded can be encoded.
func sameAgain[T any](c Codec[T], b []byte) error {
	v, err := c.Decode(b)
	if err != nil {
		return nil // refused
	}
	_, err = c.Encode(v)
	return err
}

// FuzzPieceCount takes any key for that of an item.
func FuzzPieceCount(f *testing.F) {
	f.Add([]byte{0x15, 1, 1, 'r', 0, 0x15, 2}, 1)
	f.Add([]byte{0x14, 0x14, 1, 0, 0xff, 0}, 2)
	f.Fuzz(func(t *testing.T, fields []byte, integers int) {
		n, err := pieceCount(fields, integers&3)
		if (err == nil) != (n >= 1) {
			t.Fatalf("%d pieces, error %v", n, err)
		}
		elems, bad := tuple.Unpack(fields)
		if err == nil && bad == nil && len(elems) != integers&3+1+min(n-1, 1) {
			t.Fatalf("%d pieces by a key of %d elements", n, len(elems))
		}
	})
}
