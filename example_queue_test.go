package conq_test

import (
	"fmt"

	"github.com/conq-go/conq/kv"
)

func ExampleQueue_Name() {
	_, q := letters()
	fmt.Println(q.Name())
	// Output: letters
}

func ExampleQueue_Enqueue() {
	_, q := letters()
	check(q.Enqueue(ctx, "a"))
	check(q.Enqueue(ctx, "b"))
	fmt.Println(q.Dequeue(ctx))
	// Output: a <nil>
}

func ExampleQueue_EnqueueAll() {
	_, q := letters()
	check(q.EnqueueAll(ctx, []string{"a", "b", "c"}))
	fmt.Println(q.Len(ctx))
	// Output: 3 <nil>
}

func ExampleQueue_Dequeue() {
	_, q := letters("a")
	fmt.Println(q.Dequeue(ctx))
	_, err := q.Dequeue(ctx)
	fmt.Println(err)
	// Output:
	// a <nil>
	// conq: queue is empty
}

func ExampleQueue_DequeueN() {
	_, q := letters("a", "b", "c")
	fmt.Println(q.DequeueN(ctx, 2))
	fmt.Println(q.DequeueN(ctx, 2))
	// Output:
	// [a b] <nil>
	// [c] <nil>
}

func ExampleQueue_Peek() {
	_, q := letters("a", "b")
	fmt.Println(q.Peek(ctx))
	fmt.Println(q.Peek(ctx))
	// Output:
	// a <nil>
	// a <nil>
}

func ExampleQueue_Len() {
	_, q := letters("a", "b")
	fmt.Println(q.Len(ctx))
	// Output: 2 <nil>
}

func ExampleQueue_Clear() {
	_, q := letters("a", "b")
	check(q.Clear(ctx))
	fmt.Println(q.Len(ctx))
	// Output: 0 <nil>
}

func ExampleQueue_All() {
	_, q := letters("a", "b", "c")
	for v, err := range q.All(ctx) {
		check(err)
		fmt.Println(v)
	}
	// Output:
	// a
	// b
	// c
}

func ExampleQueue_In() {
	db, q := letters("a", "b")
	err := db.Transact(ctx, func(tx kv.Tx) error {
		v, err := q.In(tx).Dequeue()
		if err != nil {
			return err
		}
		return q.In(tx).Enqueue(v) // to the end
	})
	check(err)
	fmt.Println(q.Peek(ctx))
	// Output: b <nil>
}

func ExampleQueueTx() {
	db, q := letters("a", "b")
	err := db.Transact(ctx, func(tx kv.Tx) error {
		in := q.In(tx)
		if err := in.EnqueueAll([]string{"c", "d"}); err != nil {
			return err
		}
		n, err := in.Len() // sees what the transaction has done
		fmt.Println(n, err)
		return err
	})
	check(err)
	// Output: 4 <nil>
}
