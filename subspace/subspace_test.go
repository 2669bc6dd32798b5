package subspace_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		testkit.NoError(t, err)
		return v
	}
}

// The vectors' ranges are those of the subspace of the same tuple.
func TestRangeVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Packed string
			Range  [2]string
		}
	}
	data := must[[]byte](t)(os.ReadFile("../tuple/testdata/tuples.json"))
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) < 300 {
		t.Fatal(len(file.Cases), err)
	}
	for _, c := range file.Cases {
		packed := must[[]byte](t)(hex.DecodeString(c.Packed))
		elems := must[tuple.Tuple](t)(tuple.Unpack(packed))
		r := must[subspace.Subspace](t)(subspace.New(elems...)).Range()
		if hex.EncodeToString(r.Begin) != c.Range[0] || hex.EncodeToString(r.End) != c.Range[1] {
			t.Errorf("range of %v is %x..%x, want %v", elems, r.Begin, r.End, c.Range)
		}
	}
}

func TestKeys(t *testing.T) {
	s := must[subspace.Subspace](t)(subspace.Named("Q").Sub(int64(7), []byte("x")))
	elems := tuple.Tuple{int64(1), nil, "a"}
	key := must[[]byte](t)(s.Pack(elems))
	whole := must[[]byte](t)(append(tuple.Tuple{"Q", 7, []byte("x")}, elems...).Pack())
	if !bytes.Equal(key, whole) {
		t.Errorf("key is %x, want %x", key, whole)
	}
	if got := must[tuple.Tuple](t)(s.Unpack(key)); !reflect.DeepEqual(got, elems) {
		t.Errorf("unpacks as %v", got)
	}
	if !s.Contains(key) || !s.Range().Contains(key) {
		t.Error("key is outside")
	}
	if !bytes.Equal(subspace.FromBytes(s.Bytes()).Bytes(), s.Bytes()) {
		t.Error("FromBytes changed the prefix")
	}
}

func TestZeroIsWholeKeySpace(t *testing.T) {
	var s subspace.Subspace
	r := s.Range()
	if !bytes.Equal(r.Begin, []byte{0}) || !bytes.Equal(r.End, []byte{0xff}) || !s.Contains(nil) || len(s.Bytes()) != 0 {
		t.Errorf("range %x..%x", r.Begin, r.End)
	}
}

func TestRangeIsWithoutThePrefix(t *testing.T) {
	s := subspace.Named("Q")
	if !s.Contains(s.Bytes()) || s.Range().Contains(s.Bytes()) {
		t.Error("the bare prefix must be in the subspace and not in its range")
	}
	for _, name := range []string{"", "P", "R", "QQ", "Q\x00", "Q\x00Q"} {
		key := must[[]byte](t)(subspace.Named(name).Pack(tuple.Tuple{1}))
		if s.Range().Contains(key) {
			t.Errorf("range has a key of %q", name)
		}
	}
}

func TestErrors(t *testing.T) {
	s := subspace.Named("Q")
	if _, err := subspace.New("a", 1i); !errors.Is(err, tuple.ErrElement) {
		t.Error(err)
	}
	if _, err := s.Sub(1i); !errors.Is(err, tuple.ErrElement) {
		t.Error(err)
	}
	if key, err := s.Pack(tuple.Tuple{1i}); !errors.Is(err, tuple.ErrElement) || key != nil {
		t.Error(key, err)
	}
	if _, err := s.Unpack([]byte("elsewhere")); !errors.Is(err, subspace.ErrOutside) {
		t.Error(err)
	}
	if _, err := s.Unpack(append(s.Bytes(), 0x77)); !errors.Is(err, tuple.ErrMalformed) {
		t.Error(err)
	}
}

// Nothing that a caller does with what it gave or got changes the subspace, or
// another key.
func TestSharesNoMemory(t *testing.T) {
	prefix := make([]byte, 1, 100)
	prefix[0] = 'p'
	s := subspace.FromBytes(prefix)
	prefix[0] = 'x'
	first, second := append(s.Bytes(), 1), append(s.Bytes(), 2)
	if first[1] != 1 || second[1] != 2 || string(s.Bytes()) != "p" {
		t.Errorf("%q %q %q", first, second, s.Bytes())
	}
	empty := must[[]byte](t)(s.Pack(nil))
	empty[0] = 'y'
	r := s.Range()
	r.Begin[0], r.End[0] = 'y', 'y'
	sub := must[subspace.Subspace](t)(s.Sub())
	if string(s.Bytes()) != "p" || string(sub.Bytes()) != "p" {
		t.Errorf("prefix is now %q, %q", s.Bytes(), sub.Bytes())
	}
}

// Int and RangeOfInt are what Sub and Range make of one integer.
func TestInt(t *testing.T) {
	ints := []int64{0, 1, -1, 255, 256, -256, math.MaxInt64, math.MinInt64}
	for _, name := range []string{"Q", "", "a\x00b"} {
		for _, i := range ints {
			want, err := subspace.Named(name).Sub(i)
			testkit.NoError(t, err)
			got := subspace.Named(name).Int(i)
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("Int(%d) of %q is %x, want %x", i, name, got.Bytes(), want.Bytes())
			}
			wantRange := want.Range()
			if r := subspace.Named(name).RangeOfInt(i); !bytes.Equal(r.Begin, wantRange.Begin) || !bytes.Equal(r.End, wantRange.End) {
				t.Errorf("the range of %d in %q is %x to %x, want %x to %x", i, name, r.Begin, r.End, wantRange.Begin, wantRange.End)
			}
		}
	}
}
