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

// emails is a queue of a new store.
func emails(o ...work.Options) (q *work.Queue[string], db kv.DB, end func()) {
	db = memory.New(memory.Options{})
	q = must(work.Open(context.Background(), db, "emails", queue.String(), o...))
	return q, db, func() {
		q.Close()
		db.Close()
	}
}

func ExampleQueue_Put() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "newsletter", work.Job{Priority: 10}))
	must(q.Put(ctx, "reminder", work.Job{Delay: time.Hour}))
	must(q.Put(ctx, "first", work.Job{Key: "customer-7"}))
	must(q.Put(ctx, "second", work.Job{Key: "customer-7"})) // when the first one is done
	fmt.Printf("%+v\n", must(q.Stats(ctx)))
	// Output: {Ready:2 Scheduled:1 Leased:0 Blocked:1 Dead:0 Done:0 Paused:false}
}

func ExampleQueue_PutAll() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	ids, duplicates, err := q.PutAll(ctx, []work.New[string]{
		{Value: "a", Job: work.Job{Unique: "welcome-7"}}, {Value: "b"}, {Value: "again", Job: work.Job{Unique: "welcome-7"}},
	})
	fmt.Println(len(ids), ids[2] == ids[0], duplicates, err)
	// Output: 3 true 1 <nil>
}

func ExampleQueue_In() {
	ctx := context.Background()
	q, db, end := emails()
	defer end()
	err := db.Transact(ctx, func(tx kv.Tx) error { // both, or neither
		tx.Set([]byte("customer/7"), []byte("registered"))
		_, err := q.In(tx).Put("welcome")
		return err
	})
	fmt.Println(must(q.Stats(ctx)).Ready, err)
	// Output: 1 <nil>
}

func ExampleQueue_ReserveN() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "a"))
	must(q.Put(ctx, "b"))
	for _, job := range must(q.ReserveN(ctx, 10)) { // what is ready, up to ten
		fmt.Println(job.Value, job.Ack(ctx))
	}
	// Output:
	// a <nil>
	// b <nil>
}

func ExampleQueue_ReserveWait() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	go func() { must(q.Put(ctx, "hello")) }()
	job := must(q.ReserveWait(ctx)) // until there is a job, or the context ends
	fmt.Println(job.Value, job.Ack(ctx))
	// Output: hello <nil>
}

func ExampleQueue_ReserveWaitN() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "a"))
	must(q.Put(ctx, "b"))
	for _, job := range must(q.ReserveWaitN(ctx, 10, work.ReserveOptions{Lease: time.Hour})) { // waits for one, not for ten
		fmt.Println(job.Value, job.Ack(ctx))
	}
	// Output:
	// a <nil>
	// b <nil>
}

func ExampleLease_AckResult() {
	ctx := context.Background()
	q, _, end := emails(work.Options{Settings: &work.Settings{Keep: time.Hour}})
	defer end()
	id := must(q.Put(ctx, "hello"))
	fmt.Println(must(q.ReserveWait(ctx)).AckResult(ctx, []byte("sent")))
	fmt.Println(must(q.Get(ctx, id)).State, string(must(q.Result(ctx, id))))
	// Output:
	// <nil>
	// done sent
}

func ExampleLease_Extend() {
	ctx := context.Background()
	q, _, end := emails(work.Options{Settings: &work.Settings{Lease: time.Minute}})
	defer end()
	must(q.Put(ctx, "large"))
	job := must(q.ReserveWait(ctx))
	first := job.Deadline()
	fmt.Println(job.Extend(ctx, time.Hour), job.Deadline().Sub(first) > 58*time.Minute)
	// Output: <nil> true
}

func ExampleLease_Release() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	job := must(q.ReserveWait(ctx))
	fmt.Println(job.Release(ctx, 0)) // the attempt does not count
	fmt.Println(must(q.ReserveWait(ctx)).Attempt)
	// Output:
	// <nil>
	// 1
}

func ExampleLease_Fail() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	job := must(q.ReserveWait(ctx))
	fmt.Println(job.Fail(ctx, errors.New("no connection"))) // again after Options.Backoff
	info := must(q.Get(ctx, id))
	fmt.Println(info.State, info.Failures[0].Error)
	// Output:
	// <nil>
	// scheduled no connection
}

func ExampleLease_Bury() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	fmt.Println(must(q.ReserveWait(ctx)).Bury(ctx, "no such address"))
	fmt.Println(must(q.Get(ctx, id)).State)
	fmt.Println(q.Kick(ctx, id)) // when that was put right
	fmt.Println(must(q.Get(ctx, id)).State)
	// Output:
	// <nil>
	// dead
	// <nil>
	// ready
}

func ExampleQueue_List() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "to a@b", work.Job{Delay: time.Hour}))
	must(q.Put(ctx, "to c@d", work.Job{Delay: time.Minute}))
	for job, err := range q.List(ctx, work.Filter{State: work.Scheduled, Contains: "to"}) {
		fmt.Println(job.Value, err)
	}
	// Output:
	// to c@d <nil>
	// to a@b <nil>
}

func ExampleQueue_Peek() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	for _, job := range must(q.Peek(ctx, 10)) {
		fmt.Println(job.ID, job.State, job.Value)
	}
	// Output: 1 ready hello
}

func ExampleQueue_Cancel() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	job := must(q.ReserveWait(ctx))
	fmt.Println(q.Cancel(ctx, id))
	fmt.Println(job.Extend(ctx, 0)) // a runner ends the handler's context then
	// Output:
	// <nil>
	// job was cancelled
}

func ExampleQueue_Delete() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	fmt.Println(q.Delete(ctx, id))
	_, err := q.Get(ctx, id)
	fmt.Println(errors.Is(err, work.ErrNotFound))
	// Output:
	// <nil>
	// true
}

func ExampleQueue_Reprioritise() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "first"))
	id := must(q.Put(ctx, "urgent"))
	fmt.Println(q.Reprioritise(ctx, id, -1))
	fmt.Println(must(q.ReserveWait(ctx)).Value)
	// Output:
	// <nil>
	// urgent
}

func ExampleQueue_DeleteAll() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	for range 250 {
		must(q.Put(ctx, "newsletter"))
	}
	n, err := q.DeleteAll(ctx, work.Filter{Contains: "newsletter"}, func(n int) { fmt.Println(n, "so far") })
	fmt.Println(n, err)
	// Output:
	// 100 so far
	// 200 so far
	// 250 so far
	// 250 <nil>
}

func ExampleQueue_Pause() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	fmt.Println(q.Pause(ctx)) // for all processes
	_, err := q.Reserve(ctx)
	fmt.Println(errors.Is(err, queue.ErrEmpty))
	fmt.Println(q.Resume(ctx))
	fmt.Println(must(q.Reserve(ctx)).Value)
	// Output:
	// <nil>
	// true
	// <nil>
	// hello
}

func ExampleQueue_RunPeriodic() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	fmt.Println(q.Every(ctx, "nightly", "0 3 * * *", "report"))
	must(q.RunPeriodic(ctx, "nightly")) // now, and at three
	fmt.Println(must(q.ReserveWait(ctx)).Value)
	fmt.Println(q.RemovePeriodic(ctx, "nightly"))
	// Output:
	// <nil>
	// report
	// <nil>
}

func ExampleSnooze() {
	ctx, stop := context.WithCancel(context.Background())
	q, _, end := emails()
	defer end()
	later, never := must(q.Put(ctx, "later")), must(q.Put(ctx, "never"))
	err := work.Run(ctx, q, func(_ context.Context, job *work.Lease[string]) error {
		if job.Value == "later" {
			return work.Snooze(time.Hour)
		}
		stop()
		return work.Cancel(errors.New("no such address"))
	})
	fmt.Println(err)
	fmt.Println(must(q.Get(context.Background(), later)).State, must(q.Get(context.Background(), never)).State)
	// Output:
	// <nil>
	// scheduled dead
}

func ExampleOptions_observe() {
	ctx := context.Background()
	q, _, end := emails(work.Options{Observe: func(e work.Event) {
		if e.Kind == work.EventAcked {
			fmt.Println(e.Jobs, "job done in", e.Queue)
		}
	}})
	defer end()
	must(q.Put(ctx, "hello"))
	fmt.Println(must(q.ReserveWait(ctx)).Ack(ctx))
	// Output:
	// 1 job done in emails
	// <nil>
}
