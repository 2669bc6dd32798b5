package conq_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq"
)

func ExampleQueue_DequeueWait() {
	_, q := letters()
	go func() { check(q.Enqueue(ctx, "a")) }()
	fmt.Println(q.DequeueWait(ctx)) // there may be nothing yet
	// Output: a <nil>
}

// A wait ends with its context, and then has taken nothing.
func ExampleQueue_DequeueWait_timeout() {
	_, q := letters()
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := q.DequeueWait(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleQueue_DequeueWaitN() {
	_, q := letters("a", "b", "c")
	fmt.Println(q.DequeueWaitN(ctx, 2))
	fmt.Println(q.DequeueWaitN(ctx, 2)) // one is enough
	// Output:
	// [a b] <nil>
	// [c] <nil>
}

func ExamplePriorityQueue_PopWait() {
	_, p := jobs()
	go func() { check(p.Push(ctx, "sweep", 3)) }()
	fmt.Println(p.PopWait(ctx, conq.Min))
	// Output: sweep <nil>
}

func ExamplePriorityQueue_PopWaitN() {
	_, p := jobs(conq.Prioritized[string]{Value: "sweep", Priority: 3}, conq.Prioritized[string]{Value: "cook", Priority: 1})
	fmt.Println(p.PopWaitN(ctx, conq.Min, 5)) // one is enough
	// Output: [{cook 1} {sweep 3}] <nil>
}

// What a handle does can be counted.
func ExampleOptions_observe() {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	q, err := conq.OpenQueue(ctx, db, "letters", conq.String(), conq.Options{
		Observe: func(e conq.Event) { fmt.Println(e.Queue, e.Kind, e.Items) },
	})
	check(err)
	check(q.EnqueueAll(ctx, []string{"a", "b"}))
	_, err = q.Dequeue(ctx)
	check(err)
	// Output:
	// letters added 2
	// letters taken 1
}

// Who waits on a handle that is closed is told so; the queue and its items stay.
func ExampleQueue_Close() {
	db, q := letters()
	defer db.Close()
	waiting := make(chan error)
	go func() {
		_, err := q.DequeueWait(ctx)
		waiting <- err
	}()
	check(q.Close())
	fmt.Println(errors.Is(<-waiting, conq.ErrClosed))
	fmt.Println(q.Enqueue(ctx, "a"))
	// Output:
	// true
	// conq: handle is closed: kv: closed: queue "letters"
}

func ExamplePriorityQueue_Close() {
	_, p := jobs()
	check(p.Close())
	fmt.Println(errors.Is(p.Push(ctx, "sweep", 3), conq.ErrClosed))
	// Output: true
}
