package conq_test

import (
	"errors"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

type job = conq.Prioritized[string]

func ExamplePriorityQueue_Name() {
	_, p := jobs()
	fmt.Println(p.Name())
	// Output: jobs
}

func ExamplePriorityQueue_Push() {
	_, p := jobs()
	check(p.Push(ctx, "sweep", 7))
	check(p.Push(ctx, "put out fire", -1))
	fmt.Println(p.PopMin(ctx))
	// Output: put out fire <nil>
}

func ExamplePriorityQueue_PushAll() {
	_, p := jobs()
	check(p.PushAll(ctx, []job{{Value: "sweep", Priority: 7}, {Value: "cook", Priority: 3}}))
	fmt.Println(p.PopMin(ctx))
	// Output: cook <nil>
}

func ExamplePriorityQueue_PopMin() {
	_, p := jobs(job{Value: "b", Priority: 2}, job{Value: "first a", Priority: 1}, job{Value: "second a", Priority: 1})
	fmt.Println(p.PopMin(ctx))
	fmt.Println(p.PopMin(ctx))
	// Output:
	// first a <nil>
	// second a <nil>
}

func ExamplePriorityQueue_PopMax() {
	_, p := jobs(job{Value: "a", Priority: 1}, job{Value: "first b", Priority: 2}, job{Value: "second b", Priority: 2})
	fmt.Println(p.PopMax(ctx))
	fmt.Println(p.PopMax(ctx))
	// Output:
	// second b <nil>
	// first b <nil>
}

func ExamplePriorityQueue_Pop() {
	_, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	fmt.Println(p.Pop(ctx, conq.Max))
	fmt.Println(p.Pop(ctx, conq.Min))
	_, err := p.Pop(ctx, conq.Min)
	fmt.Println(errors.Is(err, conq.ErrEmpty))
	// Output:
	// b <nil>
	// a <nil>
	// true
}

func ExamplePriorityQueue_PopN() {
	_, p := jobs(job{Value: "c", Priority: 3}, job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	fmt.Println(p.PopN(ctx, conq.Max, 1))
	fmt.Println(p.PopN(ctx, conq.Min, 5))
	// Output:
	// [{c 3}] <nil>
	// [{a 1} {b 2}] <nil>
}

func ExamplePriorityQueue_Peek() {
	_, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	fmt.Println(p.Peek(ctx, conq.Min))
	fmt.Println(p.Peek(ctx, conq.Max))
	// Output:
	// a <nil>
	// b <nil>
}

// A page at a time, from the highest priority down; nothing is taken.
func ExamplePriorityQueue_Page() {
	_, p := jobs(job{Value: "c", Priority: 3}, job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	for after := []byte(nil); ; {
		page, next, err := p.Page(ctx, conq.Max, after, 2)
		check(err)
		fmt.Println(page)
		if after = next; next == nil {
			break
		}
	}
	// Output:
	// [{c 3} {b 2}]
	// [{a 1}]
}

func ExamplePriorityQueue_Len() {
	_, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	fmt.Println(p.Len(ctx))
	// Output: 2 <nil>
}

func ExamplePriorityQueue_Clear() {
	_, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	check(p.Clear(ctx))
	_, err := p.PopMin(ctx)
	fmt.Println(err)
	// Output: conq: queue is empty
}

func ExamplePriorityQueue_All() {
	_, p := jobs(job{Value: "b", Priority: 2}, job{Value: "a", Priority: 1})
	for item, err := range p.All(ctx) {
		check(err)
		fmt.Println(item.Priority, item.Value)
	}
	// Output:
	// 1 a
	// 2 b
}

func ExamplePriorityQueue_In() {
	db, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	err := db.Transact(ctx, func(tx kv.Tx) error {
		v, err := p.In(tx).PopMin()
		if err != nil {
			return err
		}
		return p.In(tx).Push(v, 9) // less urgent now
	})
	check(err)
	fmt.Println(p.PopMin(ctx))
	// Output: b <nil>
}

func ExamplePriorityQueueTx() {
	db, p := jobs(job{Value: "a", Priority: 1}, job{Value: "b", Priority: 2})
	err := db.Transact(ctx, func(tx kv.Tx) error {
		if err := p.In(tx).Clear(); err != nil {
			return err
		}
		return p.In(tx).Push("c", 3) // all or nothing
	})
	check(err)
	fmt.Println(p.PopN(ctx, conq.Max, 10))
	// Output: [{c 3}] <nil>
}
