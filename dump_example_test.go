package conq_test

import (
	"bytes"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv/memory"
)

// All queues of a store, into another one.
func ExampleDump() {
	db, _ := letters("a", "b", "c")
	var dump bytes.Buffer // or a file, or a pipe
	report, err := conq.Dump(ctx, db, &dump)
	check(err)
	fmt.Println(report.Items, "items dumped")

	other := memory.New(memory.Options{})
	defer other.Close()
	loaded, err := conq.Load(ctx, other, &dump)
	check(err)
	for _, q := range loaded.Queues {
		fmt.Println(q.Name, q.Kind, q.Items, q.Whole)
	}
	// Output:
	// 3 items dumped
	// letters queue 3 true
}

// A dump that is not what it was: what comes before is loaded, and the report says what
// that is.
func ExampleLoad() {
	db, _ := letters("a", "b", "c")
	var dump bytes.Buffer
	_, err := conq.Dump(ctx, db, &dump)
	check(err)

	other := memory.New(memory.Options{})
	defer other.Close()
	report, err := conq.Load(ctx, other, bytes.NewReader(dump.Bytes()[:40]))
	fmt.Println(err)
	fmt.Println(report.Items, "items loaded")
	// Output:
	// conq: dump is broken: at byte 40: it is cut off here
	// 0 items loaded
}
