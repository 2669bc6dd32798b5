package conq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
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

// A page at a time; nothing is taken.
func ExampleQueue_Page() {
	_, q := letters("a", "b", "c")
	for after := []byte(nil); ; {
		page, next, err := q.Page(ctx, after, 2)
		check(err)
		fmt.Println(page)
		if after = next; next == nil {
			break
		}
	}
	// Output:
	// [a b]
	// [c]
}

// A consumer that takes only within its own transactions has the items of dead ones put back, now and then.
func ExampleQueue_Reclaim() {
	db, q := letters("a")
	check(q.Reclaim(ctx))
	check(db.Transact(ctx, func(tx kv.Tx) error {
		v, err := q.In(tx).Dequeue()
		fmt.Println(v)
		return err
	}))
	// Output: a
}

// What was put in is known for certain, also where a cluster does not say whether a commit took place.
func ExampleTransact() {
	db, from := letters("a", "b", "c")
	to, err := conq.OpenQueue(ctx, db, "archive", conq.String())
	check(err)
	fmt.Println(conq.Transact(ctx, from, func(tx kv.Tx) (int, error) {
		all, err := from.In(tx).DequeueN(2)
		if err != nil {
			return 0, err
		}
		return len(all), to.In(tx).EnqueueAll(all)
	}))
	// Output: 2 <nil>
}

func ExampleDeleteQueue() {
	db, _ := letters("a")
	fmt.Println(conq.DeleteQueue(ctx, db, "letters"))
	fmt.Println(errors.Is(conq.DeleteQueue(ctx, db, "letters"), conq.ErrNoQueue))
	// Output:
	// <nil>
	// true
}

func ExampleCheck() {
	db, _ := letters("a", "b")
	report, err := conq.Check(ctx, db, conq.CheckOptions{
		Repair: true,
		Found:  func(f conq.Finding) { fmt.Println(f) },
	})
	check(err)
	fmt.Println(report.Sound(), report.Queues, report.Items)
	// Output: true 1 2
}
