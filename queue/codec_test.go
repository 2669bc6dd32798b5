package queue_test

import (
	"math"
	"math/big"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// roundTrip checks that a value comes back as it was.
func roundTrip[T any](t testkit.TB, c queue.Codec[T], v T) {
	t.Helper()
	b, err := c.Encode(v)
	testkit.NoError(t, err)
	got, err := c.Decode(b)
	testkit.NoError(t, err)
	if !reflect.DeepEqual(got, v) {
		t.Fatalf("%T %v came back as %T %v", v, v, got, got)
	}
}

func TestCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		s := rapid.String().Draw(t, "string")
		roundTrip(t, queue.Bytes(), b)
		roundTrip(t, queue.String(), s)
		roundTrip(t, queue.JSON[map[string]int64](), map[string]int64{s: rapid.Int64().Draw(t, "int")})
		roundTrip(t, queue.Tuple[[]byte](), b)
		roundTrip(t, queue.Tuple[string](), s)
		roundTrip(t, queue.Tuple[any](), any(s))
		roundTrip(t, queue.Tuple[int64](), rapid.Int64().Draw(t, "int64"))
		roundTrip(t, queue.Tuple[int](), rapid.Int().Draw(t, "int"))
		roundTrip(t, queue.Tuple[int8](), rapid.Int8().Draw(t, "int8"))
		roundTrip(t, queue.Tuple[uint64](), rapid.Uint64().Draw(t, "uint64"))
		roundTrip(t, queue.Tuple[uint16](), rapid.Uint16().Draw(t, "uint16"))
		roundTrip(t, queue.Tuple[float64](), rapid.Float64().Draw(t, "float64"))
		roundTrip(t, queue.Tuple[float32](), rapid.Float32().Draw(t, "float32"))
		roundTrip(t, queue.Tuple[bool](), rapid.Bool().Draw(t, "bool"))
		roundTrip(t, queue.Tuple[*big.Int](), big.NewInt(rapid.Int64().Draw(t, "big")))
	})
	roundTrip(t, queue.Tuple[*big.Int](), new(big.Int).Lsh(big.NewInt(-1), 200))
	roundTrip(t, queue.Tuple[*big.Int](), new(big.Int).SetUint64(math.MaxUint64))
	roundTrip(t, queue.Tuple[tuple.UUID](), tuple.UUID{1, 2})
	roundTrip(t, queue.Tuple[tuple.Tuple](), tuple.Tuple{int64(1), "a", nil})
	roundTrip(t, queue.Tuple[any](), nil)
	roundTrip(t, queue.Tuple[any](), any(int64(-1)))
}

func TestDecodeErrors(t *testing.T) {
	refuses := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s was decoded", what)
		}
	}
	into := func(elems ...any) []byte { return testkit.Pack(t, elems...) }
	refuses("300 into int8", testkit.Drop(queue.Tuple[int8]().Decode(into(300))))
	refuses("-1 into uint", testkit.Drop(queue.Tuple[uint]().Decode(into(-1))))
	refuses("2^64-1 into int64", testkit.Drop(queue.Tuple[int64]().Decode(into(uint64(math.MaxUint64)))))
	refuses("2^100 into uint64", testkit.Drop(queue.Tuple[uint64]().Decode(into(new(big.Int).Lsh(big.NewInt(1), 100)))))
	refuses("int into string", testkit.Drop(queue.Tuple[string]().Decode(into(1))))
	refuses("string into bytes", testkit.Drop(queue.Tuple[[]byte]().Decode(into("a"))))
	refuses("nil into int", testkit.Drop(queue.Tuple[int]().Decode(into(nil))))
	refuses("no element", testkit.Drop(queue.Tuple[string]().Decode(nil)))
	refuses("two elements", testkit.Drop(queue.Tuple[string]().Decode(into("a", "b"))))
	refuses("no tuple", testkit.Drop(queue.Tuple[any]().Decode([]byte{0xfe})))
	refuses("JSON of another type", testkit.Drop(queue.JSON[int]().Decode([]byte(`"a"`))))
	refuses("truncated JSON", testkit.Drop(queue.JSON[any]().Decode([]byte(`{`))))
	refuses("more than JSON", testkit.Drop(queue.JSON[int]().Decode([]byte(`1 2`))))
	refuses("no UTF-8", testkit.Drop(queue.String().Decode([]byte("\xc3"))))
	if _, err := queue.Tuple[struct{}]().Encode(struct{}{}); err == nil {
		t.Error("a struct was packed")
	}
	if _, err := queue.JSON[func()]().Encode(nil); err == nil {
		t.Error("a function was marshalled")
	}
}

// FuzzTuple decodes anything, into types of all sorts, without a panic.
func FuzzTuple(f *testing.F) {
	f.Add([]byte("\x02a\x00"))
	f.Add([]byte{0x15, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		testkit.NoError(t, sameAgain(queue.Tuple[any](), b))
		testkit.NoError(t, sameAgain(queue.Tuple[int32](), b))
		testkit.NoError(t, sameAgain(queue.Tuple[uint64](), b))
		testkit.NoError(t, sameAgain(queue.Tuple[*big.Int](), b))
		testkit.NoError(t, sameAgain(queue.Tuple[string](), b))
	})
}

// sameAgain checks that what is decoded can be encoded.
func sameAgain[T any](c queue.Codec[T], b []byte) error {
	v, err := c.Decode(b)
	if err != nil {
		return nil // refused
	}
	_, err = c.Encode(v)
	return err
}
