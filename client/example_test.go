package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
	"github.com/conq-go/conq/work"
)

var ctx = context.Background()

// connect returns a client of a server that is in this process; others have client.Dial(ctx, "http://127.0.0.1:7711").
func connect() (c *client.Client, done func()) {
	db, err := conq.Open(ctx, "memory:")
	check(err)
	s, err := server.New(db, server.Options{})
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	serving, stop := context.WithCancel(ctx)
	stopped := make(chan error)
	go func() { stopped <- s.Serve(serving, l) }()
	c, err = client.Dial(ctx, "http://"+l.Addr().String(), client.Options{Transport: &http.Transport{DisableKeepAlives: true}})
	check(err)
	return c, func() {
		stop()
		check(<-stopped)
		check(s.Close())
		check(db.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleOpenQueue() {
	c, done := connect()
	defer done()
	q, err := client.OpenQueue(ctx, c, "emails", queue.String())
	check(err)
	check(q.EnqueueAll(ctx, []string{"hello", "world"}))
	fmt.Println(q.Dequeue(ctx))
	fmt.Println(q.DequeueWait(ctx))
	// Output:
	// hello <nil>
	// world <nil>
}

func ExampleOpenPriorityQueue() {
	c, done := connect()
	defer done()
	p, err := client.OpenPriorityQueue(ctx, c, "chores", queue.String())
	check(err)
	check(p.Push(ctx, "sweep", 7))
	check(p.Push(ctx, "put out fire", -1))
	fmt.Println(p.PopMin(ctx))
	// Output: put out fire <nil>
}

func ExampleOpenWork() {
	c, done := connect()
	defer done()
	q, err := client.OpenWork(ctx, c, "emails", queue.String(), client.WorkOptions{Lease: time.Minute})
	check(err)
	_, err = q.Put(ctx, "hello", work.Job{Key: "customer-7"})
	check(err)

	running, stop := context.WithCancel(ctx)
	err = work.Run(running, q, func(_ context.Context, job *work.Lease[string]) error {
		fmt.Println(job.Value, job.Key)
		stop()
		return nil // acknowledges it at the server
	})
	fmt.Println(err)
	// Output:
	// hello customer-7
	// <nil>
}

// A function that does not care whether the queue is of a store or of a server.
func Example_either() {
	hand := func(q queue.FIFO[string]) {
		check(q.Enqueue(ctx, "hello"))
		fmt.Println(q.Dequeue(ctx))
	}
	c, done := connect()
	defer done()
	remote, err := client.OpenQueue(ctx, c, "emails", queue.String())
	check(err)
	hand(remote)

	db, err := conq.Open(ctx, "memory:")
	check(err)
	defer db.Close()
	local, err := conq.OpenQueue(ctx, db, "emails", conq.String())
	check(err)
	hand(local)
	// Output:
	// hello <nil>
	// hello <nil>
}

func ExampleClient_Move() {
	c, done := connect()
	defer done()
	failed, err := client.OpenQueue(ctx, c, "failed", queue.String())
	check(err)
	check(failed.EnqueueAll(ctx, []string{"a", "b"}))
	fmt.Println(c.Move(ctx, "failed", "emails", 100))
	// Output: 2 <nil>
}

func ExamplePriorityQueue_PopN() {
	c, done := connect()
	defer done()
	p, err := client.OpenPriorityQueue(ctx, c, "chores", queue.String())
	check(err)
	check(p.Push(ctx, "sweep", 7))
	check(p.Push(ctx, "put out fire", -1))
	fmt.Println(p.PopN(ctx, queue.Max, 10))
	// Output: [{sweep 7} {put out fire -1}] <nil>
}

func ExampleWorkQueue_Reserve() {
	c, done := connect()
	defer done()
	q, err := client.OpenWork(ctx, c, "emails", queue.String())
	check(err)
	_, err = q.Put(ctx, "hello")
	check(err)
	job, err := q.Reserve(ctx) // ReserveWait waits for one
	check(err)
	fmt.Println(job.Value, job.Ack(ctx))
	_, err = q.Reserve(ctx)
	fmt.Println(errors.Is(err, queue.ErrEmpty))
	// Output:
	// hello <nil>
	// true
}
