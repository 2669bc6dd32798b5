package kv_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// awkward draws short byte strings of the bytes where mistakes are made.
func awkward(t *rapid.T, label string) []byte {
	b := rapid.SampledFrom([]byte{0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff})
	return rapid.SliceOfN(b, 0, 4).Draw(t, label)
}

func TestPrefixRangeHoldsThePrefixAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, key := awkward(t, "prefix"), awkward(t, "key")
		if rapid.Bool().Draw(t, "inside") {
			key = append(bytes.Clone(prefix), key...)
		}
		if len(bytes.ReplaceAll(prefix, []byte{0xff}, nil)) == 0 {
			return // up to the end of the store, as documented
		}
		if got, want := kv.PrefixRange(prefix).Contains(key), bytes.HasPrefix(key, prefix); got != want {
			t.Errorf("PrefixRange(%q).Contains(%q) = %v, want %v", prefix, key, got, want)
		}
	})
}

func TestPrefixRange(t *testing.T) {
	for _, c := range []struct{ prefix, end string }{
		{"a", "b"}, {"\x00", "\x01"}, {"\x7f", "\x80"}, {"\x80", "\x81"}, {"\xfe", "\xff"},
		{"a\xff", "b"}, {"a\x80\xff\xff", "a\x81"}, {"", ""}, {"\xff", ""}, {"\xff\xff", ""},
	} {
		prefix := []byte(c.prefix)
		got := kv.PrefixRange(prefix)
		if string(got.Begin) != c.prefix || string(got.End) != c.end {
			t.Errorf("PrefixRange(%q) = %q to %q, want it to end at %q", c.prefix, got.Begin, got.End, c.end)
		}
		if string(prefix) != c.prefix {
			t.Errorf("PrefixRange(%q) changed its argument to %q", c.prefix, prefix)
		}
	}
}

func TestAfterIsTheNextKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, other := awkward(t, "key"), awkward(t, "other")
		after := kv.After(key)
		if bytes.Compare(key, after) >= 0 {
			t.Errorf("After(%q) = %q, want one behind it", key, after)
		}
		if bytes.Compare(key, other) < 0 && bytes.Compare(other, after) < 0 {
			t.Errorf("%q is between %q and After of it, %q", other, key, after)
		}
		if kv.KeyRange(key).Contains(other) != bytes.Equal(key, other) {
			t.Errorf("KeyRange(%q) contains %q: %v", key, other, kv.KeyRange(key).Contains(other))
		}
	})
}

func TestAfterDoesNotTouchItsArgument(t *testing.T) {
	buffer := []byte("ab")
	kv.After(buffer[:1])
	if string(buffer) != "ab" {
		t.Errorf("After wrote into its argument's array: %q", buffer)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		begin, end, want string
		ok               bool
	}{
		{"", "", "\xff", true}, {"a", "", "\xff", true}, {"a", "b", "b", true}, {"a", "a", "a", true},
		{"", "a", "a", true}, {"b", "a", "", false}, {"a\x00", "a", "", false}, {"\xff", "", "\xff", true},
		{"\xff\xff", "\xff", "", false},
	} {
		got, err := kv.Range{Begin: []byte(c.begin), End: []byte(c.end)}.Bounds()
		if !c.ok {
			if !errors.Is(err, kv.ErrInvalid) {
				t.Errorf("Bounds of %q to %q: error %v, want ErrInvalid", c.begin, c.end, err)
			}
			continue
		}
		if err != nil || string(got.Begin) != c.begin || string(got.End) != c.want {
			t.Errorf("Bounds of %q to %q = %q to %q, %v; want an end of %q", c.begin, c.end, got.Begin, got.End, err, c.want)
		}
	}
	behind := kv.PrefixRange([]byte{0xff, 0xff})
	if got, err := behind.Bounds(); err != nil || !bytes.Equal(got.Begin, got.End) {
		t.Errorf("Bounds of the keys that begin with 0xff, 0xff = %q to %q, %v; want an empty range", got.Begin, got.End, err)
	}
}
