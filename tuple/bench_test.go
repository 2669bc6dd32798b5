package tuple_test

import (
	"testing"

	"github.com/conq-go/conq/tuple"
)

// queueKey is the key of a queue's item.
var queueKey = tuple.Tuple{"emails", int64(123456), []byte("01234567890123456789")}

func BenchmarkPack(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := queueKey.Pack(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	dst, random := make([]byte, 0, 100), queueKey[2].([]byte)
	b.ReportAllocs()
	for b.Loop() {
		out := tuple.AppendString(dst, "emails")
		out = tuple.AppendInt(out, 123456)
		tuple.AppendBytes(out, random)
	}
}

func BenchmarkUnpack(b *testing.B) {
	packed := pack(b, queueKey)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tuple.Unpack(packed); err != nil {
			b.Fatal(err)
		}
	}
}
