package tuple_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/tuple"
)

// vector is a case made with FoundationDB's own Python binding.
type vector struct {
	Tuple  []map[string]json.RawMessage
	Packed string
	Range  [2]string
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	var file struct{ Cases []vector }
	data, err := os.ReadFile("testdata/tuples.json")
	testkit.NoError(t, err)
	testkit.NoError(t, json.Unmarshal(data, &file))
	if len(file.Cases) < 300 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	return file.Cases
}

func decodeHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testkit.NoError(t, err)
	return b
}

// value returns the tuple that a vector describes, with the types that Unpack
// returns.
func value(t testing.TB, elems []map[string]json.RawMessage) tuple.Tuple {
	t.Helper()
	out := tuple.Tuple{}
	for _, e := range elems {
		if len(e) != 1 {
			t.Fatalf("element with %d keys", len(e))
		}
		for kind, raw := range e {
			out = append(out, element(t, kind, raw))
		}
	}
	return out
}

func element(t testing.TB, kind string, raw json.RawMessage) any {
	t.Helper()
	text := func() (s string) {
		testkit.NoError(t, json.Unmarshal(raw, &s))
		return s
	}
	switch kind {
	case "null":
		return nil
	case "bool":
		return string(raw) == "true"
	case "bytes":
		return decodeHex(t, text())
	case "string":
		return text()
	case "int":
		return integer(t, text())
	case "float32_bits":
		bits, err := strconv.ParseUint(text(), 16, 32)
		testkit.NoError(t, err)
		return math.Float32frombits(uint32(bits))
	case "float64_bits":
		bits, err := strconv.ParseUint(text(), 16, 64)
		testkit.NoError(t, err)
		return math.Float64frombits(bits)
	case "uuid":
		return tuple.UUID(decodeHex(t, text()))
	case "versionstamp":
		b := decodeHex(t, text())
		return tuple.Versionstamp{Transaction: [10]byte(b), User: uint16(b[10])<<8 | uint16(b[11])}
	case "tuple":
		var elems []map[string]json.RawMessage
		testkit.NoError(t, json.Unmarshal(raw, &elems))
		return value(t, elems)
	}
	t.Fatalf("unknown kind %q", kind)
	return nil
}

func integer(t testing.TB, s string) any {
	t.Helper()
	i, ok := new(big.Int).SetString(s, 10)
	switch {
	case !ok:
		t.Fatalf("bad integer %q", s)
	case i.IsInt64():
		return i.Int64()
	case i.IsUint64():
		return i.Uint64()
	}
	return i
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		want := decodeHex(t, v.Packed)
		in := value(t, v.Tuple)
		packed, err := in.Pack()
		if err != nil || string(packed) != string(want) {
			t.Errorf("Pack(%v) = %x, %v; want %s", in, packed, err, v.Packed)
		}
		out, err := tuple.Unpack(want)
		if err != nil || !same(in, out) {
			t.Errorf("Unpack(%s) = %#v, %v; want %#v", v.Packed, out, err, in)
		}
		if lo, hi := v.Packed+"00", v.Packed+"ff"; v.Range != [2]string{lo, hi} {
			t.Errorf("range of %s is %q", v.Packed, v.Range)
		}
	}
}

// The order of all pairs of the vectors' bytes is the order of their tuples.
func TestVectorsOrder(t *testing.T) {
	vectors := readVectors(t)
	tuples := make([]tuple.Tuple, len(vectors))
	for i, v := range vectors {
		tuples[i] = value(t, v.Tuple)
	}
	for i, a := range tuples {
		for j, b := range tuples {
			want := strings.Compare(vectors[i].Packed, vectors[j].Packed)
			if got := tuple.Compare(a, b); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
		}
	}
}
