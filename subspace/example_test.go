package subspace_test

import (
	"fmt"
	"log"

	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

func Example() {
	queue := subspace.Named("Q")
	key, err := queue.Pack(tuple.Tuple{1, "x"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", key)
	elements, err := queue.Unpack(key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(elements)
	r := queue.Range()
	fmt.Printf("%x to %x\n", r.Begin, r.End)
	// Output:
	// 0251001501027800
	// [1 x]
	// 02510000 to 025100ff
}
