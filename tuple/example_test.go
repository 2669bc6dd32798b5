package tuple_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/conq-go/conq/tuple"
)

func Example() {
	packed, err := tuple.Tuple{"Q", 1, []byte{0xca, 0xfe}}.Pack()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", packed)
	unpacked, err := tuple.Unpack(packed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(unpacked)
	// Output:
	// 025100150101cafe00
	// [Q 1 [202 254]]
}

// Packed tuples sort as the tuples do, numbers by their values.
func ExampleCompare() {
	nine, _ := tuple.Tuple{"user", -9}.Pack()
	ten, _ := tuple.Tuple{"user", 10}.Pack()
	fmt.Println(bytes.Compare(nine, ten), tuple.Compare(tuple.Tuple{"user", -9}, tuple.Tuple{"user", 10}))
	// Output: -1 -1
}

func ExampleTuple_Pack_error() {
	_, err := tuple.Tuple{"a", tuple.Tuple{1, struct{}{}}}.Pack()
	fmt.Println(err)
	// Output: tuple: cannot pack: element 1: element 1: type struct {} is not supported
}

func ExampleUnpack_error() {
	_, err := tuple.Unpack([]byte("\x02text without an end"))
	fmt.Println(err)
	// Output: tuple: malformed: byte 20: truncated: end of bytes or string expected
}

// A key that is built often is built without a Tuple.
func ExampleAppendInt() {
	key := make([]byte, 0, 32)
	key = tuple.AppendString(key, "Q")
	key = tuple.AppendInt(key, 1)
	fmt.Printf("%x\n", key)
	// Output: 0251001501
}

func ExampleNext() {
	packed := tuple.AppendInt(tuple.AppendString(nil, "Q"), 7)
	for len(packed) > 0 {
		element, rest, err := tuple.Next(packed)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %T\n", element, element)
		packed = rest
	}
	// Output:
	// Q string
	// 7 int64
}
