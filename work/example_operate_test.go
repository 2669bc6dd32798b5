package work_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

func ExampleQueue_Get() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello", work.Job{Key: "customer-7", Meta: map[string]string{"trace": "4bf9"}}))
	job := must(q.Get(ctx, id))
	fmt.Println(job.Value, job.State, job.Key, job.Meta["trace"], job.Attempts, "of", job.MaxAttempts)
	// Output: hello ready customer-7 4bf9 0 of 20
}

func ExampleQueue_Kick() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello", work.Job{Delay: time.Hour}))
	fmt.Println(q.Kick(ctx, id)) // not in an hour, but now
	fmt.Println(must(q.ReserveWait(ctx)).Value)
	// Output:
	// <nil>
	// hello
}

func ExampleQueue_Bury() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	fmt.Println(q.Bury(ctx, id, "not before the new terms"))
	job := must(q.Get(ctx, id))
	fmt.Println(job.State, job.Failures[0].Error)
	// Output:
	// <nil>
	// dead not before the new terms
}

// A worker that hangs, and extends its lease, loses it.
func ExampleQueue_EndLease() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	hangs := must(q.ReserveWait(ctx))
	fmt.Println(q.EndLease(ctx, id))
	fmt.Println(errors.Is(hangs.Ack(ctx), work.ErrLeaseLost))
	fmt.Println(must(q.ReserveWait(ctx)).Attempt)
	// Output:
	// <nil>
	// true
	// 2
}

func ExampleQueue_CancelAll() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "to a@b", work.Job{Key: "customer-7"}))
	must(q.Put(ctx, "to c@d", work.Job{Key: "customer-8"}))
	n := must(q.CancelAll(ctx, work.Filter{Key: "customer-7"}, nil))
	fmt.Println(n, must(q.Stats(ctx)).Ready)
	// Output: 1 1
}

func ExampleQueue_BuryAll() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "to a@b"))
	must(q.Put(ctx, "to c@d"))
	n := must(q.BuryAll(ctx, work.Filter{Contains: "@b"}, "their server is down", nil))
	fmt.Println(n, must(q.Stats(ctx)).Dead)
	// Output: 1 1
}

func ExampleQueue_ReprioritiseAll() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "newsletter"))
	must(q.Put(ctx, "reminder"))
	must(q.ReprioritiseAll(ctx, work.Filter{Contains: "newsletter"}, 10, nil))
	fmt.Println(must(q.ReserveWait(ctx)).Value)
	// Output: reminder
}

func ExampleQueue_Count() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "newsletter"))
	must(q.Put(ctx, "reminder"))
	fmt.Println(must(q.Count(ctx, work.Filter{Contains: "letter"}, nil)), "of", must(q.Len(ctx)))
	// Output: 1 of 2
}

func ExampleQueue_Page() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	for i := range 5 {
		must(q.Put(ctx, fmt.Sprint("email ", i)))
	}
	for next := []byte(nil); ; {
		page, after, err := q.Page(ctx, work.Filter{State: work.Ready}, next, 2)
		fmt.Println(len(page), err)
		if next = after; next == nil {
			return
		}
	}
	// Output:
	// 2 <nil>
	// 2 <nil>
	// 1 <nil>
}

func ExampleQueue_Clear() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	fmt.Println(q.Clear(ctx), must(q.Len(ctx)))
	// Output: <nil> 0
}

func ExampleQueue_Periodics() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	fmt.Println(q.Every(ctx, "nightly", "CRON_TZ=UTC 0 3 * * *", "report", work.EveryOptions{MaxLate: time.Hour}))
	for _, p := range must(q.Periodics(ctx)) {
		fmt.Println(p.Name, p.Spec, p.Next.UTC().Format(time.TimeOnly), p.MaxLate)
	}
	// Output:
	// <nil>
	// nightly CRON_TZ=UTC 0 3 * * * 03:00:00 1h0m0s
}

func ExampleLease_ReleaseAs() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "large"))
	must(q.Put(ctx, "small"))
	fmt.Println(must(q.ReserveWait(ctx)).ReleaseAs(ctx, 0, 10)) // behind the others
	fmt.Println(must(q.ReserveWait(ctx)).Value)
	// Output:
	// <nil>
	// small
}

func ExampleLease_FailAfter() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	id := must(q.Put(ctx, "hello"))
	fmt.Println(must(q.ReserveWait(ctx)).FailAfter(ctx, time.Hour, errors.New("they ask us to come back in an hour")))
	fmt.Println(time.Until(must(q.Get(ctx, id)).Time).Round(time.Minute))
	// Output:
	// <nil>
	// 1h0m0s
}

// One process reserves a job, another one ends it.
func ExampleQueue_Held() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	job := must(q.ReserveWait(ctx))
	id, token := job.ID, job.Token()

	fmt.Println(must(q.Held(id, token)).Ack(ctx))
	// Output: <nil>
}

// One set of workers does the jobs of several queues.
func ExampleNewUnion() {
	ctx, stop := context.WithCancel(context.Background())
	q, db, end := emails()
	defer end()
	letters := must(work.Open(ctx, db, "letters", queue.String()))
	defer letters.Close()
	must(q.Put(ctx, "newsletter", work.Job{Priority: 10}))
	must(letters.Put(ctx, "reminder"))

	all := must(work.NewUnion(q, letters))
	err := work.Run(ctx, all, func(_ context.Context, job *work.Lease[string]) error {
		fmt.Println(job.Queue(), job.Value)
		if job.Value == "newsletter" {
			stop()
		}
		return nil
	}, work.RunOptions{Workers: 1})
	fmt.Println(err)
	// Output:
	// letters reminder
	// emails newsletter
	// <nil>
}

func ExampleLease_Ack() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	job := must(q.Reserve(ctx))
	fmt.Println("send", job.Value)
	fmt.Println(job.Ack(ctx)) // it is done, and does not come back
	// Output:
	// send hello
	// <nil>
}

// Settings are stored with the queue, and hold for all programs at once.
func ExampleQueue_Configure() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	check(q.Configure(ctx, work.Settings{MaxAttempts: 5, Concurrency: 10, Rate: work.Rate{N: 100, Per: time.Second}}))
	s, version, err := q.Settings(ctx)
	fmt.Println(s.MaxAttempts, s.Concurrency, s.Rate, version > 0, err)
	// Output: 5 10 100/1s true <nil>
}

func ExampleQueue_Stats() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "now"))
	must(q.Put(ctx, "later", work.Job{Delay: time.Hour}))
	stats := must(q.Stats(ctx))
	fmt.Println(stats.Ready, stats.Scheduled, must(q.Len(ctx)))
	// Output: 1 1 2
}

func ExampleQueue_EndLeases() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	must(q.Put(ctx, "hello"))
	must(q.Reserve(ctx, work.ReserveOptions{Holder: "host-7"}))
	fmt.Println(q.EndLeases(ctx, work.Filter{Holder: "host-7"}, nil)) // that machine will not come back
	fmt.Println(must(q.Reserve(ctx)).Attempt)
	// Output:
	// 1 <nil>
	// 2
}

func ExampleQueue_RemovePeriodic() {
	ctx := context.Background()
	q, _, end := emails()
	defer end()
	check(q.Every(ctx, "report", "@daily", "report"))
	fmt.Println(q.RemovePeriodic(ctx, "report"))
	fmt.Println(errors.Is(q.RemovePeriodic(ctx, "report"), work.ErrNotFound))
	// Output:
	// <nil>
	// true
}

// Two queues with one pool of workers: the lowest priority of both comes first.
func ExampleUnion_Reserve() {
	ctx := context.Background()
	q, db, end := emails()
	defer end()
	letters := must(work.Open(ctx, db, "letters", queue.String()))
	defer letters.Close()
	must(q.Put(ctx, "an email", work.Job{Priority: 5}))
	must(letters.Put(ctx, "a letter", work.Job{Priority: 1}))
	both := must(work.NewUnion(q, letters))
	for range 2 {
		job := must(both.Reserve(ctx))
		fmt.Println(job.Queue(), job.Value, job.Ack(ctx))
	}
	// Output:
	// letters a letter <nil>
	// emails an email <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
