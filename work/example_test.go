package work_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// must ends an example at an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	ctx := context.Background()
	db := memory.New(memory.Options{}) // in a program: conq.Open("data")
	defer db.Close()
	q := must(work.Open(ctx, db, "emails", queue.String(), work.Options{Settings: &work.Settings{Lease: 30 * time.Second}}))
	defer q.Close()

	must(q.Put(ctx, "hello"))
	must(q.Put(ctx, "urgent", work.Job{Priority: -1}))

	ctx, stop := context.WithCancel(ctx)
	sent := 0
	err := work.Run(ctx, q, func(_ context.Context, job *work.Lease[string]) error {
		fmt.Println("send", job.Value)
		if sent++; sent == 2 {
			stop()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// send urgent
	// send hello
	// <nil>
}

func ExampleQueue_Reserve() {
	ctx := context.Background()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := must(work.Open(ctx, db, "emails", queue.String()))
	defer q.Close()
	must(q.Put(ctx, "hello"))

	job := must(q.Reserve(ctx))
	fmt.Println(job.Value, job.Attempt)
	fmt.Println(job.Ack(ctx))
	fmt.Println(errors.Is(job.Ack(ctx), work.ErrLeaseLost))
	_, err := q.Reserve(ctx) // ReserveWait waits for a job
	fmt.Println(errors.Is(err, queue.ErrEmpty))
	// Output:
	// hello 1
	// <nil>
	// true
	// true
}

// A job's effects and its acknowledgement in one transaction happen exactly once.
func ExampleLease_In() {
	ctx := context.Background()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := must(work.Open(ctx, db, "payments", queue.String()))
	defer q.Close()
	must(q.Put(ctx, "5 to alice"))

	job := must(q.ReserveWait(ctx))
	err := db.Transact(ctx, func(tx kv.Tx) error {
		tx.Add([]byte("balance/alice"), 5)
		return job.In(tx).Ack()
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleQueue_Put_unique() {
	ctx := context.Background()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := must(work.Open(ctx, db, "emails", queue.String()))
	defer q.Close()

	first := must(q.Put(ctx, "welcome", work.Job{Unique: "welcome-7"}))
	second, err := q.Put(ctx, "welcome", work.Job{Unique: "welcome-7"})
	fmt.Println(first == second, errors.Is(err, work.ErrDuplicate))
	// Output: true true
}

func ExampleQueue_KickAll() {
	ctx := context.Background()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := must(work.Open(ctx, db, "emails", queue.String(), work.Options{Settings: &work.Settings{MaxAttempts: 1}}))
	defer q.Close()
	for i := range 3 {
		must(q.Put(ctx, fmt.Sprint(i)))
		job := must(q.ReserveWait(ctx))
		if err := job.Fail(ctx, errors.New("timeout")); err != nil {
			panic(err)
		}
	}
	n := must(q.KickAll(ctx, work.Filter{State: work.Dead, Contains: "timeout"}, nil))
	stats := must(q.Stats(ctx))
	fmt.Println(n, stats.Ready)
	// Output: 3 3
}

func ExampleQueue_Every() {
	ctx := context.Background()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := must(work.Open(ctx, db, "reports", queue.String()))
	defer q.Close()

	err := q.Every(ctx, "nightly", "0 3 * * *", "all of them")
	fmt.Println(err)
	err = q.Every(ctx, "broken", "every day", "all of them")
	fmt.Println(errors.Is(err, kv.ErrInvalid))
	// Output:
	// <nil>
	// true
}
