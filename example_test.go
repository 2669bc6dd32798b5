package conq_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

var ctx = context.Background()

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// letters opens a queue in a new store and enqueues some letters.
func letters(values ...string) (kv.DB, *conq.Queue[string]) {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	q, err := conq.OpenQueue(ctx, db, "letters", conq.String())
	check(err)
	check(q.EnqueueAll(ctx, values))
	return db, q
}

// jobs opens a priority queue in a new store and pushes some jobs.
func jobs(values ...conq.Prioritized[string]) (kv.DB, *conq.PriorityQueue[string]) {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	p, err := conq.OpenPriorityQueue(ctx, db, "jobs", conq.String())
	check(err)
	check(p.PushAll(ctx, values))
	return db, p
}

func Example() {
	db, err := conq.Open(ctx, "memory:") // or a directory
	check(err)
	defer db.Close()

	q, err := conq.OpenQueue(ctx, db, "emails", conq.String())
	check(err)
	check(q.Enqueue(ctx, "hello"))
	check(q.Enqueue(ctx, "world"))

	for {
		email, err := q.Dequeue(ctx)
		if errors.Is(err, conq.ErrEmpty) {
			break
		}
		check(err)
		fmt.Println(email)
	}
	// Output:
	// hello
	// world
}

func ExampleMove() {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	failed, err := conq.OpenQueue(ctx, db, "failed", conq.String())
	check(err)
	emails, err := conq.OpenQueue(ctx, db, "emails", conq.String())
	check(err)
	check(failed.EnqueueAll(ctx, []string{"a", "b", "c"}))

	fmt.Println(conq.Move(ctx, failed, emails, 100))
	fmt.Println(emails.DequeueN(ctx, 100))
	// Output:
	// 3 <nil>
	// [a b c] <nil>
}

// An item becomes another one in the transaction that takes it: both happen, or neither.
func Example_transaction() {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	q, err := conq.OpenQueue(ctx, db, "inbox", conq.String())
	check(err)
	p, err := conq.OpenPriorityQueue(ctx, db, "jobs", conq.String())
	check(err)
	check(q.Enqueue(ctx, "mow the lawn"))

	check(db.Transact(ctx, func(tx kv.Tx) error {
		v, err := q.In(tx).Dequeue()
		if err != nil {
			return err
		}
		return p.In(tx).Push(v, 5)
	}))

	_, err = q.Peek(ctx)
	fmt.Println(err)
	v, err := p.Peek(ctx, conq.Min)
	fmt.Println(v, err)
	// Output:
	// conq: queue is empty
	// mow the lawn <nil>
}

func ExampleOpen() {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	fmt.Println(db.Limits().Value)

	_, err = conq.Open(ctx, "redis://localhost")
	fmt.Println(err != nil)
	// Output:
	// 100000
	// true
}

func ExampleQueues() {
	db, _ := letters("a")
	defer db.Close()
	_, err := conq.OpenPriorityQueue(ctx, db, "jobs", conq.Bytes())
	check(err)

	infos, err := conq.Queues(ctx, db)
	check(err)
	for _, info := range infos {
		fmt.Println(info.Name, "is a", info.Kind)
	}
	// Output:
	// jobs is a priority queue
	// letters is a queue
}

func ExampleLookup() {
	db, _ := letters()
	defer db.Close()

	info, found, err := conq.Lookup(ctx, db, "letters")
	fmt.Println(info.Kind, found, err)
	_, found, err = conq.Lookup(ctx, db, "numbers")
	fmt.Println(found, err)
	// Output:
	// queue true <nil>
	// false <nil>
}

func ExampleOpenQueue() {
	db, _ := letters("a")
	defer db.Close()

	q, err := conq.OpenQueue(ctx, db, "letters", conq.String()) // another handle on the same queue
	check(err)
	fmt.Println(q.Dequeue(ctx))

	_, err = conq.OpenPriorityQueue(ctx, db, "letters", conq.String())
	fmt.Println(err)
	// Output:
	// a <nil>
	// conq: queue is of another kind: "letters" is a queue, not a priority queue
}

func ExampleOpenPriorityQueue() {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	p, err := conq.OpenPriorityQueue(ctx, db, "jobs", conq.String(), conq.Options{FIFOTies: true})
	check(err)

	check(p.Push(ctx, "first", 9))
	check(p.Push(ctx, "second", 9))
	fmt.Println(p.PopMax(ctx))
	// Output: first <nil>
}

func ExampleBytes() {
	b, _ := conq.Bytes().Encode([]byte("as it is"))
	fmt.Printf("%q\n", b)
	// Output: "as it is"
}

func ExampleString() {
	_, err := conq.String().Encode("\xff")
	fmt.Println(err)
	// Output: string is not UTF-8
}

func ExampleJSON() {
	type email struct{ To, Subject string }
	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	q, err := conq.OpenQueue(ctx, db, "emails", conq.JSON[email]())
	check(err)

	check(q.Enqueue(ctx, email{"ada@example.org", "Engines"}))
	v, err := q.Dequeue(ctx)
	fmt.Println(v.To, v.Subject, err)
	// Output: ada@example.org Engines <nil>
}

func ExampleTuple() {
	b, _ := conq.Tuple[string]().Encode("x") // as FoundationDB's Java recipe has it
	fmt.Printf("%q\n", b)
	v, err := conq.Tuple[string]().Decode(b)
	fmt.Println(v, err)
	// Output:
	// "\x02x\x00"
	// x <nil>
}
